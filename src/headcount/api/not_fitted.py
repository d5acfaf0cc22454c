"""The error for results that are asked for before `fit`."""

import sys

from headcount.errors import HeadcountError


class NotFittedError(HeadcountError, ValueError, AttributeError):
    """Raised when a result is asked for before `fit`."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return not_fitted_error, (str(self),)


def not_fitted_error(message: str) -> NotFittedError:
    """The error to raise; where scikit-learn is loaded, it is also a NotFittedError of scikit-learn's.

    >>> str(not_fitted_error("call fit first"))
    'call fit first'
    """
    exceptions = sys.modules.get("sklearn.exceptions")
    if exceptions is None:
        return NotFittedError(message)
    both: type[NotFittedError] = type("NotFittedError", (NotFittedError, exceptions.NotFittedError), {})
    return both(message)

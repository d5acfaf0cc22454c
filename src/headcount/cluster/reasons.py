"""Why a worker failed, in a line: what went wrong, and not where in somebody's files."""

TRACEBACK = "Traceback (most recent call last)"
MAX_LETTERS = 300


def reason_of(error: BaseException) -> str:
    r"""The kind of an error and what it says; of what a worker raised, that rather than Ray's words for it.

    >>> reason_of(ValueError("two\nlines"))
    'ValueError: two lines'
    """
    cause = getattr(error, "cause", None)
    found = cause if isinstance(cause, BaseException) else error
    text = str(found)
    if TRACEBACK in text:
        return _last_line(text)
    return f"{type(found).__name__}: {' '.join(text.split())}"[:MAX_LETTERS]


def _last_line(text: str) -> str:
    """The line that a traceback ends with, which says what was wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:MAX_LETTERS]

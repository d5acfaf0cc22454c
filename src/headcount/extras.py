"""Optional packages, installed as extras."""

import importlib
from types import ModuleType

from headcount.errors import InvalidInput


def needed(package: str, *, extra: str, purpose: str) -> ModuleType:
    """The package, imported when first used; if it is missing, one line that says how to install it.

    >>> needed("math", extra="none", purpose="counting").floor(2.5)
    2
    """
    try:
        return importlib.import_module(package)
    except ImportError:
        raise InvalidInput(
            f"{purpose} needs the package {package}: pip install 'headcount[{extra}]'"
        ) from None

"""Packages that only some tasks need."""

import importlib
from types import ModuleType

from headcount.errors import InvalidInput


def needed(package: str, *, extra: str, purpose: str) -> ModuleType:
    """The package, imported where it is used; where it is missing, one line that says how to get it.

    >>> needed("math", extra="none", purpose="counting").floor(2.5)
    2
    """
    try:
        return importlib.import_module(package)
    except ImportError:
        raise InvalidInput(
            f"{purpose} needs the package {package}: pip install 'headcount[{extra}]'"
        ) from None

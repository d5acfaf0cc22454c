"""Which of several named arrays are x, y and the mask: by the names that data usually has."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from headcount.errors import InvalidInput

# The first of these that is there. Not `key_padding_mask`, which is true where there is no token.
USUAL = {
    "x": ("x", "input_ids", "inputs", "inputs_embeds", "features", "sequences", "tokens", "x_train"),
    "y": ("y", "labels", "label", "targets", "target", "y_train"),
    "mask": ("mask", "attention_mask"),
}
MAX_NAMES = 12


class Parts(NamedTuple):
    """X, y and the mask, as they were given."""

    x: Any
    y: Any = None
    mask: Any = None


def names_of(names: Iterable[str], *, x: str | None, y: str | None, mask: str | None) -> dict[str, str]:
    """The name of each part that is there; a name that is asked for must be.

    >>> names_of(["input_ids", "attention_mask", "labels"], x=None, y=None, mask=None)
    {'x': 'input_ids', 'y': 'labels', 'mask': 'attention_mask'}
    """
    there = list(names)
    lower = {name.lower(): name for name in reversed(there)}
    found = {}
    for part, asked in {"x": x, "y": y, "mask": mask}.items():
        if asked is not None:
            found[part] = check_name(part, asked, there)
        elif usual := [lower[name] for name in USUAL[part] if name in lower]:
            found[part] = part if part in there else usual[0]
    return found


def parts_of(
    named: Mapping[str, Any], *, x: str | None = None, y: str | None = None, mask: str | None = None
) -> Parts:
    """The parts among named arrays; y may be missing."""
    found = names_of(named, x=x, y=y, mask=mask)
    if "x" not in found:
        raise InvalidInput(f'expected x (or another name, with x="NAME"), got {listed(named)}')
    return Parts(**{part: named[name] for part, name in found.items()})


def check_name(part: str, asked: str, names: Iterable[str]) -> str:
    """Refuse a name that is not there, and say which are."""
    if asked not in names:
        raise InvalidInput(f"{part}: expected one of {listed(names)}, got {asked!r}")
    return asked


def listed(names: Iterable[object]) -> str:
    """Names for a message.

    >>> listed("abc"), listed([])
    ('a, b, c', 'nothing')
    """
    every = list(map(str, names))
    return (", ".join(every[:MAX_NAMES]) + ", …" * (len(every) > MAX_NAMES)) or "nothing"

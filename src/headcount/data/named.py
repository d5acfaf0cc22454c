"""Which of several named arrays are x, y and the mask: by the names that data usually has."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from headcount.data.conversion import as_array
from headcount.data.summary import Origin
from headcount.errors import InvalidInput
from headcount.validation import listed

# Of each part the first that is there.
USUAL = {
    "x": ("x", "input_ids", "inputs", "inputs_embeds", "features", "sequences", "tokens", "data", "x_train"),
    "y": ("y", "labels", "label", "targets", "target", "y_train"),
    "mask": ("mask", "attention_mask", "key_padding_mask", "src_key_padding_mask"),
}
INVERTED = ("key_padding_mask", "src_key_padding_mask")  # as PyTorch has it: true where there is no token
NAME_X = 'or another name, with x="NAME"'  # where there is such an argument


class Parts(NamedTuple):
    """X, y and the mask, as they were given, and where they come from."""

    x: Any
    y: Any = None
    mask: Any = None
    origin: Origin = Origin()


def names_of(names: Iterable[str], *, x: str | None, y: str | None, mask: str | None) -> dict[str, str]:
    """The name of each part that is there; a name that is asked for must be.

    >>> names_of(["input_ids", "attention_mask", "labels"], x=None, y=None, mask=None)
    {'x': 'input_ids', 'y': 'labels', 'mask': 'attention_mask'}
    """
    there = list(names)
    found = {}
    for part, asked in {"x": x, "y": y, "mask": mask}.items():
        name = usual_name(part, there) if asked is None else check_name(part, asked, there)
        if name is not None:
            found[part] = name
    return found


def usual_name(part: str, names: Iterable[str]) -> str | None:
    """The name that a part usually has, in upper or lower case; None if there is none of them.

    >>> usual_name("y", ["series", "Target", "a"])
    'Target'
    """
    there = list(names)
    lower = {name.lower(): name for name in reversed(there)}
    usual = (lower[name] for name in USUAL[part] if name in lower)
    return part if part in there else next(usual, None)


def parts_of(
    named: Mapping[str, Any],
    *,
    x: str | None = None,
    y: str | None = None,
    mask: str | None = None,
    if_no_x: str = NAME_X,
) -> Parts:
    """The parts among named arrays; y may be missing."""
    found = names_of(named, x=x, y=y, mask=mask)
    if "x" not in found:
        raise InvalidInput(f"expected x ({if_no_x}), got {listed(named)}")
    unused = tuple(name for name in named if name not in found.values())
    masks = [name for name in unused if "mask" in name.lower()]
    doubts = [
        f'mask: {name} is not used; if it is true where there is a token: mask="{name}"' for name in masks
    ]
    inverted = found["mask"] if found.get("mask", "").lower() in INVERTED else ""
    origin = Origin(unused=unused, doubts=() if "mask" in found else tuple(doubts), inverted=inverted)
    parts = Parts(**{part: named[name] for part, name in found.items()}, origin=origin)
    return parts._replace(mask=_inverted(parts.mask)) if inverted and parts.mask is not None else parts


def _inverted(mask: Any) -> np.ndarray:
    """1 for 0 and 0 for 1; anything else stays, to be refused."""
    given = as_array("mask", mask)
    return given if given.dtype.kind in "US" else np.where(given == 0, 1, np.where(given == 1, 0, given))


def no_y(names: Iterable[str]) -> InvalidInput:
    """The error for named arrays without y."""
    return InvalidInput(f'expected x and y (or another name, with y="NAME"), got no y among {listed(names)}')


def check_name(part: str, asked: str, names: Iterable[str]) -> str:
    """Refuse a name that is not there, and say which are."""
    if asked not in names:
        raise InvalidInput(f"{part}: expected one of {listed(names)}, got {asked!r}")
    return asked

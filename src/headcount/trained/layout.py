"""Where an attention module keeps its projections and its counts of heads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headcount.validation import expected

if TYPE_CHECKING:
    from torch import nn

UP = "../"
Adapt = Callable[[Any, Sequence[int]], None]
REGISTERED: "list[Layout]" = []


@dataclass(frozen=True)
class Layout:
    """The names of what an attention module is made of; a module that has them all is attention.

    - `projections`: the linear maps to queries, keys and values, or the one that makes all three, in this
      order: relative to the module, with `../` for the module above.
    - `output`: the linear map that reads the concatenated outputs of the heads.
    - `head_dim`: the attribute with the numbers per head; `heads`: the one with the number of heads, or none.
    - `joined`: attributes with heads · head_dim.
    - `groups`: the attribute with the number of heads to a key-value head, where the module reads one.
    - `beside`: other children with weights that have nothing to do with the number of heads, or that `adapt`
      sees to.
    - `adapt`: called with the module and the heads that it keeps, for whatever else must change.

    >>> Layout("mine", ("wq", "wk", "wv"), "wo", head_dim="size").projections
    ('wq', 'wk', 'wv')
    """

    name: str
    projections: tuple[str, ...]
    output: str
    head_dim: str
    heads: str | None = None
    joined: tuple[str, ...] = ()
    groups: str | None = None
    beside: tuple[str, ...] = ()
    adapt: Adapt | None = None

    def names_within(self) -> set[str]:
        """The children of the attention module that this layout knows."""
        paths = [*self.projections, self.output, *self.beside]
        return {path.partition(".")[0] for path in paths if not path.startswith(UP)}


def register_attention(layout: Layout) -> Layout:
    """Have attention modules of this layout recognised, before any built-in one.

    >>> mine = register_attention(Layout("mine", ("wq", "wk", "wv"), "wo", head_dim="size"))
    >>> REGISTERED.pop(0) is mine
    True
    """
    if len(layout.projections) not in (1, 3):
        raise expected("projections", "three names, or one of all three together", layout.projections)
    REGISTERED.insert(0, layout)
    return layout


def reached(attention: "nn.Module", above: "nn.Module | None", path: str) -> "nn.Module | None":
    """The module at a path from an attention module; None where there is none."""
    start: Any = attention
    if path.startswith(UP):
        start, path = above, path.removeprefix(UP)
    for name in path.split("."):
        start = getattr(start, name, None)
    return None if start is None or not hasattr(start, "named_parameters") else start

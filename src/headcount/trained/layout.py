"""Where an attention module keeps its projections and its counts of heads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import nn

UP = "../"
Adapt = Callable[[nn.Module, Sequence[int]], None]


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


def reached(attention: nn.Module, above: nn.Module | None, path: str) -> nn.Module | None:
    """The module at a path from an attention module; None where there is none."""
    start: nn.Module | None = attention
    if path.startswith(UP):
        start, path = above, path.removeprefix(UP)
    for name in path.split("."):
        start = getattr(start, name, None)
    return start if isinstance(start, nn.Module) else None

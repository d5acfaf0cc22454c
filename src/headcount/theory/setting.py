"""The setting of a bound: a task and a model, as numbers."""

from dataclasses import dataclass
from fractions import Fraction

from headcount.validation import check_integer, check_number

LARGEST = 2**30  # beyond any sequence or model, and safe to turn into a float


@dataclass(frozen=True)
class Setting:
    """What the bounds are asked about; every number is checked here.

    - `dimension`, `length`, `token_dim`: D, T and d of the task.
    - `heads`, `head_dim`, `layers`: h, n and L of the model.
    - `gamma`: networks of width C / delta^gamma come within delta of F_0 and every f_i (Assumption 3).
    - `smallest_set`: m, the size of the smallest S_i; None: every S_i is all positions, m = T.

    >>> Setting(dimension=4, heads=3, head_dim=8, length=128).share
    Fraction(1, 1)
    """

    dimension: int
    heads: int
    head_dim: int
    length: int
    token_dim: int = 4
    gamma: float = 2.0
    smallest_set: int | None = None
    layers: int = 1

    def __post_init__(self) -> None:
        for name in ("dimension", "heads", "head_dim", "length", "token_dim", "layers"):
            self._set(name, check_integer(name, getattr(self, name), at_least=1, at_most=LARGEST))
        self._set("gamma", check_number("gamma", self.gamma, above=0.0))
        given = self.length if self.smallest_set is None else self.smallest_set
        self._set("smallest_set", check_integer("smallest_set", given, at_least=1, at_most=self.length))

    def _set(self, name: str, value: float) -> None:
        object.__setattr__(self, name, value)

    @property
    def share(self) -> Fraction:
        """The part m / T of the sequence that the smallest position set covers."""
        return Fraction(self.smallest_set or self.length, self.length)

    @property
    def worst_gamma(self) -> int:
        """max(d, D): what gamma is at worst, where nothing but smoothness is known."""
        return max(self.token_dim, self.dimension)

    def __str__(self) -> str:
        return (
            f"D = {self.dimension}, h = {self.heads}, n = {self.head_dim}, T = {self.length}, "
            f"m = {self.smallest_set}, d = {self.token_dim}, gamma = {self.gamma:g}, L = {self.layers}"
        )

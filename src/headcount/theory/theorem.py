"""Theorem 2 as functions: how many parameters M an error eps costs, and when a bound says nothing.

Symbols: D dimension, h heads (s in the lower bound), n head_dim, T length, d token_dim, L layers, m the
size of the smallest position set. `docs/theory/bounds.md` derives every formula.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import floor, isqrt

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


QUARTER = Fraction(1, 4)
FIVE_LAYERS = 4  # what a five-layer F divides the lower exponent by
ROOM = 50  # Corollary 1 asks for D1^2 + D2^2 <= T / ROOM
CONSTANT = "its constant shrinks like (rT)^(-alpha T)"

_ONE_LAYER = "the theorem is about one layer, this model has {layers}: see the conjecture"
_CAVEAT = (
    "M >= c / eps^k for small eps, under Assumptions 1 and 2. But c shrinks like (rT)^(-alpha T): "
    "k > 0 alone does not make it bite at a given eps. The regime is d, D << T << 1/eps"
)


@dataclass(frozen=True)
class LowerBound:
    """M = Omega(1 / eps^k): what too few heads must cost, where F has one hidden layer.

    - `exponent`: k; None where the theorem gives no lower bound at all.
    - `smallest_set`: the m that k was computed with.
    - `positive_from`: the shortest length at which k > 0 if m stays the same part of T; None as above.
    - `reason`: why it is vacuous, or what to keep in mind where it is not.
    """

    exponent: float | None
    smallest_set: float
    positive_from: int | None
    reason: str

    @property
    def vacuous(self) -> bool:
        """Whether it holds back no model: there is no bound, or k <= 0."""
        return self.exponent is None or self.exponent <= 0

    @property
    def five_layers(self) -> float | None:
        """The exponent k / 4 that is left where F has five layers."""
        return None if self.exponent is None else self.exponent / FIVE_LAYERS


@dataclass(frozen=True)
class UpperBound:
    """Every M > C / eps^exponent suffices, with C depending on d, D and T.

    - `exponent`: as the theorem states it; None where its conditions are not met.
    - `sharper`: a smaller exponent that the same construction gives, if there is one.
    - `reason`: which condition fails, or why it holds.
    """

    exponent: float | None
    sharper: float | None
    reason: str

    @property
    def vacuous(self) -> bool:
        """Whether it promises nothing: its conditions are not met."""
        return self.exponent is None


@dataclass(frozen=True)
class Conjecture:
    """The paper's conjecture: L*h >= D is needed for several layers. Its constants are unknown.

    Explicit weights, with entries above 1, reach D = (2L - 1)*h where the reader reads in every layer
    (theory/capacity.py): there L*h >= D is not what decides which D weights exist for.

    - `heads_needed`: the fewest heads a layer with L*h >= D.
    - `form`: what is conjectured to hold below that; it has no number to offer.
    - `vacuous`, `reason`: whether it asks anything of this model, and why.
    """

    heads_needed: int
    form: str
    vacuous: bool
    reason: str


@dataclass(frozen=True)
class Uniqueness:
    """Corollary 1: D1^2 + D2^2 <= T/50 makes two representations of one target have D1 = D2.

    - `largest_rival`: the largest D2 that the condition admits beside this D; 0: none.
    - `largest_dimension`: the largest dimension that it admits at this length, beside 1; 0: none.
    - `speaks_from`: the shortest length at which it rules out some D2 other than this D.
    - `vacuous`, `reason`: whether it rules out anything at this length, and why.
    """

    largest_rival: int
    largest_dimension: int
    speaks_from: int
    vacuous: bool
    reason: str


def lower_bound(setting: Setting, *, share: Fraction | None = None) -> LowerBound:
    """M = Omega(1 / eps^k) with k = (m - s - D + 1) / ((n+1)s + 1) - 1 for h = s < D.

    Heads and other coordinates use up s + D - 1 positions; the m - s - D + 1 that stay free are squeezed
    into n numbers and one mass per head, so that inputs with different targets come to look alike.

    m is `share` * T, an integer or not; without it, the m of the setting.

    >>> round(lower_bound(Setting(dimension=4, heads=3, head_dim=8, length=128)).exponent, 2)
    3.36
    >>> lower_bound(Setting(dimension=4, heads=4, head_dim=8, length=128)).reason
    'no lower bound: h = 4 is not below D = 4, so heads are enough'
    """
    share = setting.share if share is None else share
    check_number("share", float(share), above=0.0, at_most=1.0)
    smallest = share * setting.length
    if setting.layers > 1:
        return LowerBound(None, float(smallest), None, _ONE_LAYER.format(layers=setting.layers))
    if setting.heads >= setting.dimension:
        compared = f"h = {setting.heads} is not below D = {setting.dimension}"
        return LowerBound(None, float(smallest), None, f"no lower bound: {compared}, so heads are enough")
    free = smallest - setting.heads - setting.dimension + 1
    exponent = free / ((setting.head_dim + 1) * setting.heads + 1) - 1
    # k > 0 says m > (n+2)s + D, and m = share * T.
    too_small = (setting.head_dim + 2) * setting.heads + setting.dimension
    positive_from = floor(too_small / share) + 1
    reason = _CAVEAT
    if exponent <= 0:
        kept = "" if share in (1, QUARTER) else f", while m / T stays {share}"
        needed = f"k > 0 needs m >= {too_small + 1}, so T >= {positive_from}{kept}"
        reason = f"vacuous at this T, as k <= 0: {needed}. Even then {CONSTANT}"
    return LowerBound(float(exponent), float(smallest), positive_from, reason)


def lower_bound_as_stated(setting: Setting) -> LowerBound:
    """The same with m = T/4, the least that the theorem allows: k = (T/4 - s - D + 1) / ((n+1)s + 1) - 1.

    >>> lower_bound_as_stated(Setting(dimension=4, heads=3, head_dim=8, length=128)).reason.partition(". ")[0]
    'vacuous at this T, as k <= 0: k > 0 needs m >= 35, so T >= 137'
    """
    if setting.share < QUARTER and setting.layers == 1 and setting.heads < setting.dimension:
        reason = (
            f"no lower bound: the theorem is stated for sets of at least T/4 = {setting.length / 4:g} "
            f"positions, the smallest has {setting.smallest_set}"
        )
        return LowerBound(None, setting.length / 4, None, reason)
    return lower_bound(setting, share=QUARTER)


def enough_heads(setting: Setting) -> UpperBound:
    """M > C / eps^gamma suffices for h >= D, n >= 2: head i finds the minimum of f_i, further heads rest.

    >>> enough_heads(Setting(dimension=4, heads=5, head_dim=8, length=128, gamma=1.5)).exponent
    1.5
    """
    if setting.layers > 1:
        return UpperBound(None, None, _ONE_LAYER.format(layers=setting.layers))
    if setting.heads < setting.dimension:
        return UpperBound(None, None, f"does not apply: h >= D = {setting.dimension} is needed")
    if setting.head_dim < 2:
        reason = "does not apply: n >= 2 is needed, a value and a gate for its positions"
        return UpperBound(None, None, reason)
    reason = (
        f"h >= D and n >= 2: every M > C / eps^{setting.gamma:g} suffices, under Assumption 3. gamma is 2 "
        f"for a finite Barron norm, at worst max(d, D) = {setting.worst_gamma}"
    )
    return UpperBound(setting.gamma, None, reason)


def wide_head(setting: Setting) -> UpperBound:
    """M > C / eps^(1 + gamma) suffices for n >= T*d and a five-layer F.

    One head hands on the whole sequence, and F finds the minima; further heads rest.

    >>> wide = wide_head(Setting(dimension=4, heads=1, head_dim=64, length=32, token_dim=2))
    >>> wide.exponent, wide.sharper
    (3.0, 2.0)
    """
    needed = setting.length * setting.token_dim
    if setting.layers > 1:
        return UpperBound(None, None, _ONE_LAYER.format(layers=setting.layers))
    if setting.head_dim < needed:
        return UpperBound(None, None, f"does not apply: n >= T*d = {needed} is needed")
    sharper = max(1.0, setting.gamma)
    reason = (
        f"n >= T*d = {needed}: every M > C / eps^{1 + setting.gamma:g} suffices with a five-layer F, under "
        f"Assumption 3; max(1, gamma) = {sharper:g} if merged matrices are counted by their factors"
    )
    return UpperBound(1 + setting.gamma, sharper, reason)


def conjecture(setting: Setting) -> Conjecture:
    """log(parameters) = Omega(|log eps| * a_L * T^b_L / (n*h)) where L*h < D: conjectured, not proved.

    >>> conjecture(Setting(dimension=4, heads=1, head_dim=8, length=128, layers=2)).heads_needed
    2
    """
    layers, dimension = setting.layers, setting.dimension
    form = f"log(parameters) = Omega(|log eps| * a_{layers} * T^b_{layers} / (n*h))"
    total = layers * setting.heads
    if layers == 1:
        vacuous, reason = True, "it is about L >= 2 and adds nothing here: one layer has the theorem"
    elif total >= dimension:
        vacuous, reason = True, f"it asks nothing: L*h = {total} is not below D = {dimension}"
    else:
        unknown = f"a_{layers} and b_{layers} are unknown, so no number follows"
        vacuous, reason = False, f"unproved: as L*h = {total} < D = {dimension}, {form}; {unknown}"
    return Conjecture(-(-dimension // layers), form, vacuous, reason)


def uniqueness(*, dimension: int, length: int) -> Uniqueness:
    """D1^2 + D2^2 <= T/50 leaves one dimension: the larger needs more heads than the smaller offers.

    >>> uniqueness(dimension=4, length=1250).reason
    'under Assumptions 1 and 2 the target has no other dimension D2 <= 3'
    >>> uniqueness(dimension=4, length=128).vacuous, uniqueness(dimension=4, length=128).speaks_from
    (True, 850)
    """
    dimension = check_integer("dimension", dimension, at_least=1, at_most=LARGEST)
    length = check_integer("length", length, at_least=1, at_most=LARGEST)
    largest = _largest_beside(1, length=length)
    rival = _largest_beside(dimension, length=length)
    speaks_from = ROOM * (dimension**2 + (1 if dimension > 1 else 4))
    vacuous = length < speaks_from
    if vacuous:
        condition = f"D^2 + D2^2 <= T/50 = {length / ROOM:g}"
        admitted = f"only D2 = {rival}" if rival else "no D2"
        at_most = f"the largest D admitted at all is {largest}" if largest else "no D is admitted at all"
        reason = (
            f"says nothing: {condition} admits {admitted} beside D = {dimension}, and {at_most}. "
            f"It speaks from T = {speaks_from} on"
        )
    else:
        reason = f"under Assumptions 1 and 2 the target has no other dimension D2 <= {rival}"
    return Uniqueness(rival, largest, speaks_from, vacuous, reason)


def _largest_beside(dimension: int, *, length: int) -> int:
    """The largest D2 >= 1 with D^2 + D2^2 <= T/50; 0: none. Squares are whole, so T/50 may be cut off."""
    return isqrt(max(0, length // ROOM - dimension**2))

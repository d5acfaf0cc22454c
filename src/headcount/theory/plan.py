"""From D to a shape: the smallest ones that reach it, and what a shape costs.

With E for the width and f for the numbers in the hidden layer of a feed-forward network, a layer has

    attention     E·h·n for W_Q and for W_O, E·kv·n for W_K and for W_V,
    feed-forward  E·f + f and f·E + E.

A token costs a multiply-add for each weight of a matrix and 2·h·n more in each layer for every token in view,
and leaves 2·kv·n numbers a layer in the key-value cache. Embeddings and biases of attention are not counted.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from math import isqrt
from typing import Any, Literal

from headcount.theory.capacity import Capacity, Evidence, capacity
from headcount.theory.mapped import behind
from headcount.theory.shape import LARGEST, Shape
from headcount.validation import check_integer

Behind = Literal["constructed", "trained"]

LAYERS = (1, 2, 4, 6, 12)
HEAD_DIM = 64
FEEDFORWARD = 4  # times the width
MAX_DIMENSION, MAX_LAYERS, MAX_WIDTH = 10_000, 200, 1_000_000

EXPLAINED = (
    "constructed: weights exist; proven: and fewer heads need ever more parameters. trained: the best of a "
    "few models of such a shape, or of a smaller one, learnt that D. guessed: by the law of those, as none "
    "was trained."
)


@dataclass(frozen=True)
class Costs:
    """What a shape costs, in all layers together.

    - `multiply_adds`: per token, and `multiply_adds_in_view` more for each token that it looks at.
    - `cache`: numbers per token in the key-value cache.
    """

    attention_parameters: int
    feedforward_parameters: int
    multiply_adds: int
    multiply_adds_in_view: int
    cache: int

    @property
    def parameters(self) -> int:
        """Of attention and feed-forward."""
        return self.attention_parameters + self.feedforward_parameters


def costs(shape: Shape, *, width: int, feedforward: int, matrices: int = 2) -> Costs:
    """What L layers of attention and feed-forward cost; three `matrices` where the network is gated.

    >>> costs(Shape(layers=1, heads=4, kv_heads=2, head_dim=8), width=32, feedforward=0)
    Costs(attention_parameters=3072, feedforward_parameters=0, multiply_adds=3072, \
multiply_adds_in_view=64, cache=32)
    """
    layers, joined = shape.layers, shape.heads * shape.head_dim
    attention = 2 * width * (joined + shape.numbers)
    products = matrices * width * feedforward
    biases = (matrices - 1) * feedforward + width if feedforward else 0
    return Costs(
        attention_parameters=layers * attention,
        feedforward_parameters=layers * (products + biases),
        multiply_adds=layers * (attention + products),
        multiply_adds_in_view=layers * 2 * joined,
        cache=layers * 2 * shape.numbers,
    )


@dataclass(frozen=True)
class Family:
    """What the shapes of a plan have in common.

    - `width`: E; None: h·n.
    - `head_dim`: n; None: E/h where there is a width, which h must divide then, and 64 where there is none.
    - `feedforward`: f; None: 4·E.
    - `decoder`: tokens see what stands before them and the last one is read, in place of a class token that
      sees all of them in every layer.
    - `whole`: tokens see positions and use the feed-forward network, as in a language or vision model.
    - `matrices`: of a feed-forward network; three where it is gated.
    - `windowed`: tokens see few others in some layers. The numbers are those of full attention all the same,
      and no model with such windows was trained.
    """

    width: int | None = None
    head_dim: int | None = None
    feedforward: int | None = None
    decoder: bool = False
    whole: bool = False
    matrices: int = 2
    windowed: bool = False

    def __post_init__(self) -> None:
        for name in ("width", "head_dim"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), at_least=1, at_most=MAX_WIDTH)

    def shape(self, layers: int, heads: int, kv_heads: int | None = None) -> Shape:
        """One of its shapes."""
        head_dim = self.head_dim or (self.width // heads if self.width else HEAD_DIM)
        return Shape(
            layers=layers,
            heads=heads,
            kv_heads=heads if kv_heads is None else kv_heads,
            head_dim=head_dim,
            reading="last token" if self.decoder else "every",
            mask="causal" if self.decoder else "full",
            positions=self.whole,
            feedforward=self.whole,
            width=self.width or heads * head_dim,
        )

    def sized(self, shape: Shape) -> "SizedShape":
        """The shape with its width, its costs and what it reaches."""
        width = self.width or shape.heads * shape.head_dim
        feedforward = FEEDFORWARD * width if self.feedforward is None else self.feedforward
        cost = costs(shape, width=width, feedforward=feedforward, matrices=self.matrices)
        reach = capacity(**vars(shape))
        if self.windowed:
            reach = replace(reach, behind_trained="guessed")
        return SizedShape(shape, width, feedforward, reach, cost, windowed=self.windowed)

    @property
    def splits_width(self) -> bool:
        """Whether heads share the width in equal parts, so that their number divides it."""
        return self.width is not None and self.head_dim is None

    def head_counts(self, most: int) -> Sequence[int]:
        """The numbers of heads that its shapes may have, up to `most` or the next one where that is none."""
        if not self.splits_width:
            return range(1, most + 1)
        assert self.width is not None, "a width that heads split"
        counts = divisors(self.width)
        return counts[: bisect_left(counts, most) + 1]

    def rounds_up(self, dimension: int, depth: "Depth") -> bool:
        """Whether one head less would do at this depth, if only it divided the width."""
        best = depth.trained or depth.constructed
        if best is None or self.width is None or not self.splits_width or best.shape.heads == 1:
            return False
        fewer = best.shape.heads - 1
        if self.width // fewer > LARGEST:
            return False
        reach = capacity(**vars(self.shape(depth.layers, fewer)))
        return (reach.constructed if depth.trained is None else reach.trained) >= dimension

    def most(self, dimension: int, *, layers: int) -> int:
        """The largest D, up to this one, that weights exist for with so many layers."""
        heads = self.head_counts(dimension)[-1]
        return min(dimension, capacity(**vars(self.shape(layers, heads))).constructed)

    def smallest(self, dimension: int, *, layers: int, behind: Behind) -> "SizedShape | None":
        """The fewest heads of so many layers that reach D, and the fewest key-value heads that still do."""

        def reached(heads: int, kv_heads: int | None = None) -> bool:
            found = capacity(**vars(self.shape(layers, heads, kv_heads)))
            return getattr(found, behind) >= dimension

        counts = self.head_counts(dimension)
        place = bisect_left(counts, True, key=reached)
        if place == len(counts):
            return None
        heads = counts[place]
        kv_heads = next(count for count in divisors(heads) if reached(heads, count))
        return self.sized(self.shape(layers, heads, kv_heads))


@dataclass(frozen=True)
class SizedShape:
    """A shape, its width E, the f of its feed-forward networks, the D that it reaches, and its costs."""

    shape: Shape
    width: int
    feedforward: int
    reach: Capacity
    costs: Costs
    windowed: bool = False

    def __str__(self) -> str:
        shape = self.shape
        return f"{shape.layers} × {shape.heads} × {shape.kv_heads} × {shape.head_dim}"

    def weights(self, dimension: int) -> str:
        """One word on the weights for D; `proven`, where fewer heads of one layer do not do."""
        if self.reach.constructed < dimension:
            return "none known"
        least = dimension == self.reach.constructed and self.reach.behind_constructed == "proven"
        return "proven" if least else "constructed"

    def training(self, dimension: int) -> str:
        """One word on the training for D; with it what was trained, where a model learnt less or had more."""
        reached = min(dimension, self.reach.trained)
        known = self.behind(reached) == "mapped"
        if reached < dimension:
            return f"up to D = {reached}{'' if known else ', guessed'}"
        if known:
            return "trained"
        own = replace(self, shape=_unshared(self.shape))
        if self.shape.kv_heads < self.shape.heads and own.behind(dimension) == "mapped":
            return f"guessed; trained with kv = {self.shape.heads}"
        return "guessed"

    def behind(self, dimension: int) -> Evidence:
        """What stands behind the training of this shape or of one inside it for D, which it reaches."""
        return "guessed" if self.windowed else behind(self.shape, dimension)

    @property
    def trained_law(self) -> str:
        """The law that training follows: where it binds, that without positions and feed-forward."""
        blind = capacity(**{**vars(self.shape), "positions": False, "feedforward": False})
        return blind.law if blind.constructed == self.reach.trained else "the maps"

    def law(self, dimension: int) -> str:
        """The law that gives the largest D of this shape: that of training, unless only weights reach D."""
        learnt = self.reach.trained >= dimension
        most, law = (
            (self.reach.trained, self.trained_law) if learnt else (self.reach.constructed, self.reach.law)
        )
        width = f"E = {self.shape.width}"
        return f"{most} by {width}" if law.startswith(f"{width}: ") else law

    @property
    def guessed(self) -> bool:
        """Whether what training reaches is a guess by extrapolation."""
        return self.behind(self.reach.trained) == "guessed"

    def to_json(self) -> dict[str, Any]:
        """Flat, with the numbers of the shape first."""
        shape = {name: getattr(self.shape, name) for name in ("layers", "heads", "kv_heads", "head_dim")}
        return {
            **shape,
            "width": self.width,
            "feedforward": self.feedforward,
            **asdict(self.reach),
            "trained_law": self.trained_law,
            "parameters": self.costs.parameters,
            "attention_parameters": self.costs.attention_parameters,
            "feedforward_parameters": self.costs.feedforward_parameters,
            "multiply_adds_per_token": self.costs.multiply_adds,
            "multiply_adds_per_token_in_view": self.costs.multiply_adds_in_view,
            "cache_per_token": self.costs.cache,
        }


@dataclass(frozen=True)
class Depth:
    """The smallest shapes of one depth: that training reaches D with, and that weights exist for."""

    layers: int
    trained: SizedShape | None
    constructed: SizedShape | None

    @property
    def shapes(self) -> tuple[SizedShape, ...]:
        """Those that there are, each once."""
        return tuple(dict.fromkeys(each for each in (self.trained, self.constructed) if each is not None))


def plan(
    dimension: int, *, layers: Iterable[int] = LAYERS, family: Family | None = None
) -> tuple[Depth, ...]:
    """The smallest shapes that reach D, one depth after the other.

    >>> [str(depth.constructed) for depth in plan(4, layers=(1, 2))]
    ['1 × 4 × 1 × 64', '2 × 2 × 1 × 64']
    """
    dimension = check_integer("dimension", dimension, at_least=1, at_most=MAX_DIMENSION)
    family = Family() if family is None else family
    depths = [check_integer("layers", each, at_least=1, at_most=MAX_LAYERS) for each in layers]
    return tuple(
        Depth(
            each,
            family.smallest(dimension, layers=each, behind="trained"),
            family.smallest(dimension, layers=each, behind="constructed"),
        )
        for each in sorted(set(depths))
    )


def in_a_sentence(dimension: int, depths: Sequence[Depth], *, family: Family | None = None) -> str:
    """How many heads D takes at each depth; depths that save no head are left out.

    With a `family` whose heads split a width it is said where that costs heads.

    >>> in_a_sentence(4, plan(4))
    'D = 4 takes 4 heads in 1 layer, 2 heads in 2 layers or 1 head in 4 layers.'
    """
    said: list[str] = []
    fewest = MAX_DIMENSION + 1
    for depth in depths:
        best = depth.trained or depth.constructed
        if best is not None and best.shape.heads < fewest:
            fewest = best.shape.heads
            said.append(f"{counted(fewest, 'head')} in {counted(depth.layers, 'layer')}")
    if not said:
        tried = " or ".join(str(depth.layers) for depth in depths)
        return f"No such shape with {tried} layer{'s' * (tried != '1')} is known to reach D = {dimension}."
    *others, last = said
    why = ""
    if family is not None and any(family.rounds_up(dimension, depth) for depth in depths):
        why = f" (heads must divide the width, {family.width})"
    return f"D = {dimension} takes {', '.join(others)}{' or ' * bool(others)}{last}{why}."


def heads_by_layers(dimension: int) -> dict[str, Any]:
    """The heads that D takes at each usual depth, for an encoder and for a decoder: `estimate.json`.

    >>> [row["heads"] for row in heads_by_layers(3)["decoder"]]
    [3, 2, 1, 1, 1]
    """
    return {
        "dimension": dimension,
        "measured_with_layers": 1,
        **{
            name: [
                _heads(depth, dimension)
                for depth in plan(dimension, family=Family(decoder=name == "decoder"))
            ]
            for name in ("encoder", "decoder")
        },
    }


def _heads(depth: Depth, dimension: int) -> dict[str, Any]:
    trained, constructed = depth.trained, depth.constructed
    return {
        "layers": depth.layers,
        "heads": trained and trained.shape.heads,
        "behind": trained and behind(_unshared(trained.shape), dimension),
        "constructed_heads": constructed and constructed.shape.heads,
    }


def _unshared(shape: Shape) -> Shape:
    """The shape in which every head has keys and values of its own."""
    return replace(shape, kv_heads=shape.heads)


def divisors(number: int) -> list[int]:
    """In ascending order.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    small = [count for count in range(1, isqrt(number) + 1) if number % count == 0]
    return small + [number // count for count in reversed(small) if count * count != number]


def counted(count: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "head"), counted(2, "head")
    ('1 head', '2 heads')
    """
    return f"{count} {noun}{'s' * (count != 1)}"

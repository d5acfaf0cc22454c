r"""Weights for any shape: coordinates travel in the residual stream, and every layer reads some of them.

The stream of a token holds psi_i(x(t)) for every coordinate, its gates, marks of its place where places are
seen, a constant 1, and what it has gathered. What the reader has read of coordinate i stands where tokens
hold psi_i: a class token has none of its own, and tokens no longer need it by then. A head that asks for
coordinate i scores tokens by −psi_i + r_i and so finds the token at the minimum; whatever else it reads of
that token, only psi_i goes on. What all tokens have gathered is the same at each of them, so the reader gets
it from whichever token a head looks at. A class token and a token ask for different things with the same
weights, since each has a constant of its own.

Two layers that see places go further. `by_place` has tokens in groups gather different coordinates, and head
g of the reader look at group g alone. `one_at_a_time` has a feed-forward network silence all that a token was
not asked for, after which a plain average over all tokens holds every coordinate.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from headcount.models.transformer import Attention
from headcount.theory.schedule import LayerWork
from headcount.theory.shape import Shape

Vector = Float[np.ndarray, " width"]


@dataclass
class Stream:
    """Where everything stands in the residual stream: a place for each name, in the order of first use."""

    places: dict[tuple[str, int], int] = field(default_factory=dict)

    def __getitem__(self, name: tuple[str, int]) -> int:
        return self.places.setdefault(name, self.width)

    def share(self, name: tuple[str, int], other: tuple[str, int]) -> None:
        """Give a name the place of another."""
        self.places[name] = self[other]

    @property
    def width(self) -> int:
        """E: how many places there are."""
        return len(set(self.places.values()))

    def labels(self) -> tuple[str, ...]:
        """What stands at each place; names that share one are joined by a slash."""
        names: list[list[str]] = [[] for _ in range(self.width)]
        for (kind, index), place in self.places.items():
            names[place].append(f"{kind}_{index}")
        return tuple(map("/".join, names))


@dataclass
class Look:
    """What one query head does: whom it asks for, by key numbers of its group, and what goes where.

    - `asks`: (constant of the reader, number of the group, weight): the query.
    - `keeps`: (number of the group, place of the stream, weight): the output.
    """

    asks: list[tuple[tuple[str, int], int, float]] = field(default_factory=list)
    keeps: list[tuple[int, tuple[str, int], float]] = field(default_factory=list)


@dataclass
class Layer:
    """One attention block in the making: numbers of every key-value head, and what each query head does.

    A number is (what its key is made of, what its value is made of), by places of the stream.
    """

    shape: Shape
    numbers: list[list[tuple[dict[tuple[str, int], float], tuple[str, int] | None]]] = field(init=False)
    looks: list[Look] = field(init=False)

    def __post_init__(self) -> None:
        self.numbers = [[] for _ in range(self.shape.kv_heads)]
        self.looks = [Look() for _ in range(self.shape.heads)]

    def number(self, group: int, key: dict[tuple[str, int], float], value: tuple[str, int] | None) -> int:
        """The number of a group with this key and value, made if it is not there yet."""
        wanted = (key, value)
        if wanted not in self.numbers[group]:
            self.numbers[group].append(wanted)
        assert len(self.numbers[group]) <= self.shape.head_dim, "the schedule leaves room"
        return self.numbers[group].index(wanted)

    def group_of(self, head: int) -> int:
        """The key-value head that a query head reads from."""
        return head // self.shape.group_size

    def attention(self, stream: Stream) -> Attention:
        """The arrays; the stream must have all its places by now."""
        shape, width = self.shape, stream.width
        query = np.zeros((shape.heads, shape.head_dim, width))
        key, value = np.zeros((2, shape.kv_heads, shape.head_dim, width))
        output = np.zeros((width, shape.heads, shape.head_dim))
        for group, numbers in enumerate(self.numbers):
            for row, (parts, read) in enumerate(numbers):
                for name, weight in parts.items():
                    key[group, row, stream[name]] = weight
                if read is not None:
                    value[group, row, stream[read]] = 1.0
        for head, look in enumerate(self.looks):
            for asker, row, weight in look.asks:
                query[head, row, stream[asker]] = weight
            for row, place, weight in look.keeps:
                output[stream[place], head, row] = weight
        return Attention(query, key, value, output)


TOKEN, CLASS = ("token", 0), ("class", 0)


def score(coordinate: int, *, gated: bool) -> dict[tuple[str, int], float]:
    """−psi + r: what a head that asks for a coordinate scores tokens by."""
    return {("psi", coordinate): -1.0, **({("gate", coordinate): 1.0} if gated else {})}


def spread(shape: Shape) -> list[int]:
    """Query heads in an order that takes one from every group before a second from any."""
    return [
        group * shape.group_size + turn for turn in range(shape.group_size) for group in range(shape.kv_heads)
    ]


def by_schedule(shape: Shape, works: Sequence[LayerWork], *, gated: bool) -> list[Layer]:
    """Layers that read, gather and hand over as a schedule says, coordinates in their order."""
    order, layers = spread(shape), []
    asker = TOKEN if shape.reading == "last token" else CLASS
    coordinates = iter(range(sum(work.read + work.handed_over for work in works)))
    waiting: list[int] = []
    for work in works:
        layer = Layer(shape)
        for turn in range(work.read):
            head, coordinate = order[turn], next(coordinates)
            _look(layer, head, coordinate, asker, ("read", coordinate), gated=gated)
        for turn in range(work.gathered):
            head, coordinate = order[(work.read + turn) % shape.heads], next(coordinates)
            _look(layer, head, coordinate, TOKEN, ("gathered", coordinate), gated=gated)
            waiting.append(coordinate)
        ready = len(waiting) - work.gathered
        assert work.handed_over <= ready, "nothing is handed over before it was gathered"
        for coordinate in waiting[: work.handed_over]:
            group = min(range(shape.kv_heads), key=lambda group: len(layer.numbers[group]))
            number = layer.number(group, {}, ("gathered", coordinate))
            layer.looks[group * shape.group_size].keeps.append((number, ("read", coordinate), 1.0))
        waiting = waiting[work.handed_over :]
        layers.append(layer)
    return layers


def _look(
    layer: Layer, head: int, coordinate: int, asker: tuple[str, int], into: tuple[str, int], *, gated: bool
) -> None:
    number = layer.number(layer.group_of(head), score(coordinate, gated=gated), ("psi", coordinate))
    layer.looks[head].asks.append((asker, number, 1.0))
    layer.looks[head].keeps.append((number, into, 1.0))


@dataclass(frozen=True)
class Form:
    """psi_i = Σ_k weights[k] · psi_k + constant, over the coordinates of a basis, up to `error`."""

    weights: dict[int, float]
    constant: float
    error: float = 0.0


def by_span(shape: Shape, shares: Sequence[Sequence[int]], forms: Sequence[Form]) -> Layer:
    """One layer whose key-value heads hold a basis of the f_i of their share; the rest are combinations."""
    layer = Layer(shape)
    for group, share in enumerate(shares):
        for turn, coordinate in enumerate(share):
            look = layer.looks[group * shape.group_size + turn]
            for basis, weight in forms[coordinate].weights.items():
                number = layer.number(group, {("psi", basis): -1.0}, ("psi", basis))
                look.asks.append((CLASS, number, weight))
                look.keeps.append((number, ("read", coordinate), weight))
    return layer


def by_place(shape: Shape, dimension: int, groups: int, *, gated: bool) -> list[Layer]:
    """Two layers: tokens of group g gather the coordinates of g; head g of the reader looks at group g.

    There are as many groups as heads, or fewer where there are fewer tokens. Head j serves the groups g with
    (j − g) mod h below some number, so that no head has more of them than its numbers hold, and no group more
    coordinates than the reader's head can read.
    """
    heads, room = shape.heads, shape.head_dim // shape.group_size
    own = min(heads, dimension) if shape.reading == "every" else 0
    each = min(heads, room - 1 if own else room)
    pairs = [(group, (group + turn) % heads) for turn in range(each) for group in range(groups)]
    chosen = dict(zip(pairs, range(own, dimension), strict=False))
    first, second = Layer(shape), Layer(shape)
    for coordinate in range(own):
        _look(first, coordinate, coordinate, CLASS, ("read", coordinate), gated=gated)
    for (group, head), coordinate in chosen.items():
        number = first.number(first.group_of(head), score(coordinate, gated=gated), ("psi", coordinate))
        first.looks[head].asks.append((("mark", group), number, 1.0))
        first.looks[head].keeps.append((number, ("gathered", coordinate), 1.0))
        number = second.number(second.group_of(group), {("mark", group): 1.0}, ("gathered", coordinate))
        if not any(asker == CLASS for asker, _, _ in second.looks[group].asks):
            second.looks[group].asks.append((CLASS, number, 1.0))
        second.looks[group].keeps.append((number, ("read", coordinate), 1.0))
    return [first, second]


def one_at_a_time(shape: Shape, dimension: int, length: int, *, gated: bool) -> list[Layer]:
    """Two layers: the token at t gathers coordinate t mod D, the reader averages what the network left."""
    first, second = Layer(shape), Layer(shape)
    for coordinate in range(dimension):
        head = (coordinate % shape.kv_heads) * shape.group_size
        number = first.number(first.group_of(head), score(coordinate, gated=gated), ("psi", coordinate))
        first.looks[head].asks.append((("mark", coordinate), number, 1.0))
        first.looks[head].keeps.append((number, ("gathered", coordinate), 1.0))
        number = second.number(second.group_of(head), {}, ("kept", coordinate))
        asked = len(range(coordinate, length, dimension))
        second.looks[head].keeps.append((number, ("read", coordinate), length / asked))
    return [first, second]

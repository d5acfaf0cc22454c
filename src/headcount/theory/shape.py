r"""Which D a shape can reach: layers, heads, key-value heads, the place of the reader.

What a layer can do for a model that sees no positions and has no feed-forward network:

    read      the reader's h heads find h extrema of coordinates that it asks for;
    gather    the h heads of every token do the same, and the token keeps what they found;
    hand over what all tokens have gathered before is read along, whichever token a head looks at.

All three go through the same kv·n numbers of a layer's key-value heads, one each. So with r_l, q_l, u_l for
layer l: r_l ≤ h, q_l ≤ h, r_l + q_l + u_l ≤ kv·n, and D = Σ r_l + Σ u_l with Σ_{i≤l} u_i ≤ Σ_{i<l} q_i. A
reader that reads in the last layer alone has r_l = u_l = 0 before it: D = min(L·h, kv·n). One that reads in
every layer and has numbers enough: D = (2L − 1)·h. `docs/shape.md` derives the rest.
"""

from bisect import bisect_left
from dataclasses import dataclass
from typing import Literal, get_args

from headcount.validation import check_choice, check_integer, expected

Reading = Literal["last", "every", "last token"]
Mask = Literal["full", "causal", "window"]
Evidence = Literal["proven", "constructed", "mapped", "guessed"]

# How far the maps go (reproduce/maps): D, and the most heads of one, two ... layers, by how a model is read.
MAPPED_DIMENSION = 10
MAPPED_HEADS: dict[tuple[Reading, Mask], tuple[int, ...]] = {
    ("last", "full"): (12, 4, 3, 2),
    ("every", "full"): (12, 4, 3, 2),
    ("last token", "causal"): (2, 2, 2),
}
# The heads of two layers that see positions, with a network or (decoders) without; and with a network alone.
MAPPED_SIGHTED: dict[Reading, tuple[int, ...]] = {"last": (1, 3), "every": (1, 3), "last token": (1, 2)}
MAPPED_BY_CONTENT: dict[Reading, tuple[int, ...]] = {"last": (1,), "every": (1,), "last token": ()}
MAPPED_SHARED, MAPPED_SHARED_HEADS = 6, (12, 2)  # D and heads with fewer key-value heads than heads
LARGEST = 10_000  # layers, heads or numbers: beyond any model


@dataclass(frozen=True)
class LayerWork:
    """What one layer does: coordinates that the reader reads, that tokens gather, that are handed over."""

    read: int = 0
    gathered: int = 0
    handed_over: int = 0


@dataclass(frozen=True)
class Capacity:
    """The largest D of a shape.

    - `constructed`: that weights are built for here, to any error; at any length, or where `law` says from
      which. More may exist: with positions and many layers, or in decoders that see them.
    - `trained`: that members of such a shape learnt in the maps, or would by the law that the maps follow.
    - `law`: which law binds, as a formula with its number.
    - `behind_constructed`, `behind_trained`: what stands behind each number.
    """

    constructed: int
    trained: int
    law: str
    behind_constructed: Evidence
    behind_trained: Evidence

    def __str__(self) -> str:
        return (
            f"D <= {self.constructed} ({self.behind_constructed}), trained up to {self.trained} "
            f"({self.behind_trained}): {self.law}"
        )


@dataclass(frozen=True)
class Shape:
    """What decides the capacity of a model; every number is checked here. `width`: E; None: wide enough."""

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    reading: Reading = "every"
    mask: Mask = "full"
    positions: bool = False
    feedforward: bool = False
    width: int | None = None

    def __post_init__(self) -> None:
        for name in ("layers", "heads", "kv_heads", "head_dim"):
            check_integer(name, getattr(self, name), at_least=1, at_most=LARGEST)
        if self.width is not None:
            check_integer("width", self.width, at_least=1)
        if self.heads % self.kv_heads:
            raise expected("kv_heads", f"a divisor of heads = {self.heads}", self.kv_heads)
        for name in ("positions", "feedforward"):
            check_choice(name, getattr(self, name), (True, False))
        check_choice("reading", self.reading, get_args(Reading))
        check_choice("mask", self.mask, get_args(Mask))

    @property
    def numbers(self) -> int:
        """kv·n: what passes through a layer's key-value heads."""
        return self.kv_heads * self.head_dim

    @property
    def group_size(self) -> int:
        """Query heads that share a key-value head."""
        return self.heads // self.kv_heads


def capacity(
    *,
    layers: int,
    heads: int,
    head_dim: int,
    kv_heads: int | None = None,
    reading: Reading = "every",
    mask: Mask = "full",
    positions: bool = False,
    feedforward: bool = False,
    width: int | None = None,
) -> Capacity:
    """The largest D that weights exist for, the largest that training reaches, and the law that binds.

    `reading`: in which layers a class token reads, or `last token` for a model that is read at the end of the
    sequence. `mask`: what tokens see of each other; a class token sees all of them. `width`: E, if it may be
    too small to hold D numbers.

    >>> found = capacity(layers=2, heads=1, head_dim=8)
    >>> found.constructed, found.law
    (3, '(2L - 1)·h = 3')
    >>> capacity(layers=2, heads=1, head_dim=8, positions=True, feedforward=True).constructed
    8
    """
    kv_heads = heads if kv_heads is None else kv_heads
    shape = Shape(layers, heads, kv_heads, head_dim, reading, mask, positions, feedforward, width)
    blind, law = _blind(shape)
    constructed, law = max((blind, law), _with_positions(shape), key=lambda found: found[0])
    proven: Evidence = "proven" if layers == 1 and constructed == heads == kv_heads else "constructed"
    return Capacity(constructed, blind, law, proven, "mapped" if _is_mapped(shape, blind) else "guessed")


def _is_mapped(shape: Shape, trained: int) -> bool:
    """Whether the maps have cells of such shapes, up to this D."""
    most = MAPPED_HEADS.get((shape.reading, shape.mask), ())
    if trained > MAPPED_DIMENSION or shape.layers > len(most) or shape.heads > most[shape.layers - 1]:
        return False
    shared = shape.kv_heads != shape.heads
    if shape.positions or shape.feedforward:
        heads = MAPPED_SIGHTED[shape.reading] if shape.positions else MAPPED_BY_CONTENT[shape.reading]
        with_network = shape.reading != "last token" or not shape.feedforward
        return shape.layers == 2 and shape.heads in heads and with_network and not shared
    if not shared:
        return True
    enough = shape.layers <= len(MAPPED_SHARED_HEADS) and shape.heads <= MAPPED_SHARED_HEADS[shape.layers - 1]
    return enough and shape.reading != "last token" and trained <= MAPPED_SHARED


def schedule(shape: Shape, dimension: int) -> tuple[LayerWork, ...] | None:
    """How many coordinates each layer reads, gathers and hands over so that D are read; None: too many.

    A coordinate that is read costs one number, one that is gathered and handed over costs two: so layers read
    first. What is left gathers as early and hands over as late as it can, which never stands in its own way.

    >>> schedule(Shape(2, 1, 1, 2), 3)
    (LayerWork(read=1, gathered=1, handed_over=0), LayerWork(read=1, gathered=0, handed_over=1))
    """
    reads, layers = min(shape.heads, shape.numbers), shape.layers
    in_every_layer = shape.reading != "last"
    read = [reads if in_every_layer or layer == layers - 1 else 0 for layer in range(layers)]
    missing = dimension - sum(read)
    if missing <= 0:
        return _reading_only(read, dimension)
    if shape.mask != "full" or shape.reading == "last token":
        return None  # no token but the last knows the whole sequence
    spare = [shape.numbers - count for count in read]
    gathered = [*_fill(missing, [min(reads, count) for count in spare[:-1]]), 0]
    left = [0, *(spare[layer] - gathered[layer] for layer in range(1, layers))]
    if not in_every_layer:
        left[:-1] = [0] * (layers - 1)
    handed = _fill(missing, left[::-1])[::-1]
    known = [sum(gathered[:layer]) for layer in range(layers)]
    in_time = all(sum(handed[: layer + 1]) <= known[layer] for layer in range(layers))
    if sum(gathered) < missing or sum(handed) < missing or not in_time:
        return None
    return tuple(map(LayerWork, read, gathered, handed))


def _reading_only(read: list[int], dimension: int) -> tuple[LayerWork, ...]:
    return tuple(map(LayerWork, _fill(dimension, read[::-1])[::-1]))


def _fill(wanted: int, room: list[int]) -> list[int]:
    """So many things in places of so much room, the first ones filled first."""
    placed = []
    for place in room:
        placed.append(min(wanted, place))
        wanted -= placed[-1]
    return placed


def _blind(shape: Shape) -> tuple[int, str]:
    """The largest D without positions and feed-forward, and the law that binds."""
    most = (2 * shape.layers - 1) * shape.heads
    reached = bisect_left(range(1, most + 1), True, key=lambda dimension: schedule(shape, dimension) is None)
    law, enough = _law_of_heads(shape)
    if shape.width is not None and shape.width < reached:
        return shape.width, f"E = {shape.width}: D numbers must fit"
    return reached, f"{law} = {enough}" if reached == enough else f"kv·n = {shape.numbers} numbers a layer"


def _law_of_heads(shape: Shape) -> tuple[str, int]:
    """What the heads allow where there are numbers enough."""
    layers, heads = shape.layers, shape.heads
    gathers = shape.mask == "full" and shape.reading != "last token"
    if layers == 1 or (shape.reading == "last" and not gathers):
        return "h", heads
    if shape.reading == "every" and gathers:
        return "(2L - 1)·h", (2 * layers - 1) * heads
    return "L·h", layers * heads


def _with_positions(shape: Shape) -> tuple[int, str]:
    """The largest D of two layers in which tokens at different places ask for different coordinates.

    Tokens in h groups by place gather h coordinates each, and each head of the reader looks at one group; a
    feed-forward network lets a token keep what it was asked for alone, so that one look at all is enough.
    """
    if not shape.positions or shape.layers == 1 or shape.mask != "full" or shape.reading == "last token":
        return 0, ""
    width = shape.numbers * 6 + 2 if shape.width is None else shape.width
    if shape.feedforward:
        # The stream holds five numbers for each coordinate and a constant; T must be at least D.
        reached = min(shape.numbers, (width - 1) // 5)
        bound = f"kv·n = {reached}" if reached == shape.numbers else f"E = {width}, five numbers a coordinate"
        return reached, f"{bound}; heads are no limit with positions and feed-forward, where T >= D"
    most = shape.heads + (shape.reading == "every")
    groups = min(most, shape.head_dim // shape.group_size)
    law = "h² + h" if shape.reading == "every" else "h²"
    bound = f"{law} = {most * shape.heads}" if groups == most else f"kv·n = {shape.numbers} numbers a layer"
    room = width - shape.heads - 2 if shape.width is not None else 3 * groups * shape.heads
    return min(groups * shape.heads, max(room // 3, 0)), f"{bound} with positions"

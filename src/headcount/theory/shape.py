r"""Which D a shape can reach: layers, heads, key-value heads, the place of the reader.

What a layer can do for a model that sees no positions and has no feed-forward network:

    read      the reader's h heads find h extrema of coordinates that it asks for;
    gather    the h heads of every token do the same, and the token keeps what they found;
    hand over what all tokens have gathered before is read along, whichever token a head looks at.

All three go through the same kv·n numbers of a layer's key-value heads, one each. So with r_l, q_l, u_l for
layer l: r_l ≤ h, q_l ≤ h, r_l + q_l + u_l ≤ kv·n, and D = Σ r_l + Σ u_l with Σ_{i≤l} u_i ≤ Σ_{i<l} q_i. A
reader that reads in the last layer alone has r_l = u_l = 0 before it: D = min(L·h, kv·n). One that reads in
every layer and has numbers enough: D = (2L − 1)·h. `docs/shape.md` derives the rest.

One number for each is enough whatever F_0 and the f_i are. Some need fewer: those that depend on each other,
and sums, in which what was gathered can be added to what is read.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal, get_args

from headcount.validation import check_choice, check_integer, expected

Reading = Literal["last", "every", "last token"]
Mask = Literal["full", "causal"]
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
# Windows, strides and global tokens: the heads of one, two and three layers, and the longest sequence.
MAPPED_SPARSE_HEADS, MAPPED_SPARSE_LENGTH = (0, 1, 2), 9
MAX_SPARSE_LENGTH = 2048  # who sees whom is a matrix of this size
SIGHTED = 4  # numbers a coordinate, with positions and feed-forward: psi_i, gathered, its mark, what is kept
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

    - `constructed`: that weights with heads of this size are built for here, to any error and for any F_0 and
      f_i; at the length that was asked for, else at any or where `law` says from which. More may exist: with
      positions and many layers, in decoders that see them, and with few key-value numbers for sums or for f_i
      that depend on each other. One head that holds a whole sequence in its numbers, n >= T·d, with positions
      and a readout of several layers, reaches any D (`memorise`): d is not known here.
    - `trained`: that members of such a shape learnt in the maps, for sums, or would by the law that the maps
      follow. With sparse attention, or few key-value numbers, it may be more than `constructed`.
    - `law`: which law binds, as a formula with its number.
    - `behind_constructed`, `behind_trained`: what stands behind each number. One layer with D heads is the
      paper's theorem (proven).
    """

    constructed: int
    trained: int
    law: str
    behind_constructed: Evidence
    behind_trained: Evidence

    def __str__(self) -> str:
        return (
            f"weights for D up to {self.constructed} ({self.behind_constructed}), "
            f"trained up to {self.trained} ({self.behind_trained}): {self.law}"
        )


@dataclass(frozen=True)
class Shape:
    """What decides the capacity of a model, checked; `capacity` says what each is."""

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    reading: Reading = "every"
    mask: Mask = "full"
    positions: bool = False
    feedforward: bool = False
    width: int | None = None
    window: int | None = None
    stride: int | None = None
    global_tokens: int = 0
    length: int | None = None

    def __post_init__(self) -> None:
        for name in ("layers", "heads", "kv_heads", "head_dim"):
            check_integer(name, getattr(self, name), at_least=1, at_most=LARGEST)
        for name in ("width", "window", "stride", "length"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), at_least=1)
        check_integer("global_tokens", self.global_tokens, at_least=0)
        if self.heads % self.kv_heads:
            raise expected("kv_heads", f"a divisor of heads = {self.heads}", self.kv_heads)
        for name in ("positions", "feedforward"):
            check_choice(name, getattr(self, name), (True, False))
        check_choice("reading", self.reading, get_args(Reading))
        check_choice("mask", self.mask, get_args(Mask))
        if self.sparse:
            self._check_sparse()

    def _check_sparse(self) -> None:
        """What decides how far tokens hear of each other; decoders that see little are not known."""
        for name, known in (("mask", ("full",)), ("reading", ("last", "every"))):
            if getattr(self, name) not in known:
                raise expected(name, f"{' or '.join(known)} with a window or a stride", getattr(self, name))
        if self.length is None:
            raise expected("length", "that of the sequences, with a window or a stride", None)
        check_integer("length", self.length, at_least=1, at_most=MAX_SPARSE_LENGTH)

    @property
    def sparse(self) -> bool:
        """Whether tokens see few others."""
        return self.window is not None or self.stride is not None

    @property
    def relays(self) -> int | None:
        """After how many layers every token has heard of every other; None: not in so many layers."""
        if not self.sparse or self.length is None:
            return 1
        if self.window is not None and self.stride is None:
            found = relays_of_window(self.length, window=self.window, global_tokens=self.global_tokens)
            return found if found <= self.layers else None
        from headcount.theory.sight import relays  # loads NumPy and JAX, which the other laws do without

        return relays(
            self.length,
            most=self.layers,
            window=self.window,
            stride=self.stride,
            global_tokens=self.global_tokens,
        )

    @property
    def gathers(self) -> bool:
        """Whether tokens gather of the whole sequence in a layer; in a decoder only the last one knows it."""
        if self.mask == "causal" or self.reading == "last token":
            return False
        return not self.sparse or self.relays == 1

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
    window: int | None = None,
    stride: int | None = None,
    global_tokens: int = 0,
    length: int | None = None,
) -> Capacity:
    """The largest D that weights exist for, the largest that training reaches, and the law that binds.

    - `reading`: in which layers a class token reads, or `last token` for a model that is read at the end of
      the sequence.
    - `mask`: what tokens see of each other; a class token sees all of them.
    - `width`: E, if it may be too small; None: wide enough. Tasks with position sets need D numbers more than
      is counted here.
    - `length`: T. With positions tokens at different places ask for different coordinates, which takes tokens
      enough; None: there are, and `law` says how many that is.
    - `window`, `stride`, `global_tokens`: sparse attention of tokens, as in `Architecture`, in sequences of
      `length`, which they need. What tokens gather counts once it has reached them all. That is what training
      follows; weights for it are not built, so `constructed` has only what the reader finds itself.

    >>> found = capacity(layers=2, heads=1, head_dim=8)
    >>> found.constructed, found.law
    (3, '(2L - 1)·h = 3')
    >>> capacity(layers=2, heads=1, head_dim=8, positions=True, feedforward=True).constructed
    8
    >>> capacity(layers=2, heads=1, head_dim=8, positions=True, feedforward=True, length=5).constructed
    5
    >>> found = capacity(layers=3, heads=1, head_dim=8, window=4, length=9)
    >>> found.constructed, found.trained
    (3, 4)
    """
    shape = Shape(
        layers=layers,
        heads=heads,
        kv_heads=heads if kv_heads is None else kv_heads,
        head_dim=head_dim,
        reading=reading,
        mask=mask,
        positions=positions,
        feedforward=feedforward,
        width=width,
        window=window,
        stride=stride,
        global_tokens=global_tokens,
        length=length,
    )
    blind, law = _blind(shape)
    trained = _trained(shape)
    if trained > blind:
        more = f"h·⌊(L - 1) / {shape.relays}⌋, for which no weights are built" if shape.sparse else "for sums"
        law += f", and {trained - blind} more in training: {more}"
    constructed, law = max((blind, law), _with_positions(shape), key=lambda found: found[0])
    proven: Evidence = "proven" if layers == 1 and constructed == heads == shape.kv_heads else "constructed"
    return Capacity(constructed, trained, law, proven, "mapped" if _is_mapped(shape, trained) else "guessed")


def _trained(shape: Shape) -> int:
    """The largest D by the law that the maps follow."""
    read, _ = _blind(shape)
    if shape.layers > 1 and shape.reading == "last" and shape.gathers:
        sums = sums_in_two_layers(shape.heads, shape.numbers, shape.reading)
        fits = shape.width is None or sums + shape.heads + 2 <= shape.width
        return max(read, sums) if fits else read
    return read + _relayed(shape, read)


def sums_in_two_layers(heads: int, numbers: int, reading: Reading) -> int:
    """What two layers learn where F_0 is a sum: what was gathered is added to what is read, in one number."""
    first = min(2 * heads, numbers) if reading == "every" else min(heads, numbers)
    return first + min(heads, numbers)


def _relayed(shape: Shape, read: int) -> int:
    """How many coordinates more training reaches where what tokens gather needs several layers to reach all.

    The maps have numbers for all three, to read, to pass on and to hand over, and streams wide enough to keep
    each such coordinate and what every layer passes on of it.
    """
    if not shape.sparse or shape.gathers or shape.relays is None or shape.numbers < 3 * shape.heads:
        return 0
    relayed = shape.heads * ((shape.layers - 1) // shape.relays)
    if shape.width is None:
        return relayed
    return max(0, min(relayed, (shape.width - read - 2) // (1 + shape.relays)))


def _is_mapped(shape: Shape, trained: int) -> bool:
    """Whether the maps have cells of such shapes, up to this D."""
    if _trained(replace(shape, width=None)) > trained:
        return False  # all their streams are wide enough
    if shape.sparse and not shape.gathers:
        return _is_mapped_sparse(shape)
    most = MAPPED_HEADS.get((shape.reading, shape.mask), ())
    if trained > MAPPED_DIMENSION or shape.layers > len(most) or shape.heads > most[shape.layers - 1]:
        return False
    shared = shape.kv_heads != shape.heads or trained > _blind(shape)[0]
    if shape.positions or shape.feedforward:
        heads = MAPPED_SIGHTED[shape.reading] if shape.positions else MAPPED_BY_CONTENT[shape.reading]
        with_network = shape.reading != "last token" or not shape.feedforward
        return shape.layers == 2 and shape.heads in heads and with_network and not shared
    if not shared:
        return True
    enough = shape.layers <= len(MAPPED_SHARED_HEADS) and shape.heads <= MAPPED_SHARED_HEADS[shape.layers - 1]
    return enough and shape.reading != "last token" and trained <= MAPPED_SHARED


def _is_mapped_sparse(shape: Shape) -> bool:
    plain = shape.reading == "every" and shape.kv_heads == shape.heads and shape.numbers >= 3 * shape.heads
    if not plain or shape.positions or shape.feedforward or shape.length is None:
        return False
    deep_enough = 2 <= shape.layers <= len(MAPPED_SPARSE_HEADS)
    few_heads = deep_enough and shape.heads <= MAPPED_SPARSE_HEADS[shape.layers - 1]
    return few_heads and shape.length <= MAPPED_SPARSE_LENGTH


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
    if not shape.gathers:
        return None
    spare = [shape.numbers - count for count in read]
    gathered = [*_fill(missing, [min(reads, count) for count in spare[:-1]]), 0]
    left = [0, *(spare[layer] - gathered[layer] for layer in range(1, layers))]
    if not in_every_layer:
        left[:-1] = [0] * (layers - 1)
    handed = _fill(missing, left[::-1])[::-1]
    known = accumulate(gathered[:-1], initial=0)
    in_time = all(done <= ready for done, ready in zip(accumulate(handed), known, strict=True))
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
    reached = found_by_reading(shape) + _handed_over(shape)
    law, enough = _law_of_heads(shape)
    held = _held(shape, reached, lambda dimension: numbers_of_stream(shape, dimension))
    if held < reached:
        return held, _law_of_width(shape, held, numbers_of_stream(shape, held + 1))
    if reached == enough:
        return reached, f"{law} = {enough}"
    return reached, f"kv·n = {shape.numbers} numbers a layer, for any f_i and F_0"


def relays_of_window(length: int, *, window: int, global_tokens: int = 0) -> int:
    """After how many layers every token has heard of every other, with a window alone: ⌈(T - 1) / w⌉.

    A layer passes on what is heard by w places. Through a global token, which sees all and all see, two
    layers are enough; one is where the others lie within a window.

    >>> relays_of_window(9, window=3), relays_of_window(9, window=3, global_tokens=1)
    (3, 2)
    """
    if global_tokens:
        return 1 if length - 1 - global_tokens <= window else 2
    return max(1, -(-(length - 1) // window))


def found_by_reading(shape: Shape) -> int:
    """How many coordinates the reader finds itself."""
    layers = 1 if shape.reading == "last" else shape.layers
    return layers * min(shape.heads, shape.numbers)


def _handed_over(shape: Shape) -> int:
    """How many coordinates `schedule` can have gathered and handed over besides those that are read.

    With g = min(r, s), where r are read and s numbers are left in a layer, the layers before the last gather
    (L - 1)·g. A coordinate takes two of the s in layers 2 to L, except the g that the first layer gathers:
    2u - g <= (L - 1)·s. A reader that reads in the last layer alone gets u <= s there. None waits in vain:
    the last layers together hand over at least what the first ones gathered.
    """
    if not shape.gathers or shape.layers == 1:
        return 0
    before, reads = shape.layers - 1, min(shape.heads, shape.numbers)
    spare = shape.numbers - reads
    if shape.reading == "last":
        return min(before * reads, spare)
    gathered = min(reads, spare)
    return min(before * gathered, (before * spare + gathered) // 2)


def numbers_of_stream(shape: Shape, dimension: int) -> int:
    """The E that the weights of a schedule need; tasks with position sets need one more for each gate.

    A place for psi_i, in which a class token has what was read; one for all that tokens gather; and a
    constant for the reader and one for tokens, by which they ask. A reader that asks in the last layer alone
    needs no place of its own for that. A last token has its own psi_i, and so two places for each.

    >>> numbers_of_stream(Shape(2, 1, 1, 2), 3)
    6
    """
    if shape.reading == "last token":
        return 2 * dimension + 1
    gathered = max(0, dimension - found_by_reading(shape))
    before_the_last = shape.reading == "every" and dimension > min(shape.heads, shape.numbers)
    return dimension + gathered + bool(gathered) + before_the_last


def _held(shape: Shape, reached: int, needed: Callable[[int], int]) -> int:
    """The largest D, of those up to `reached`, whose numbers fit into the stream."""
    if shape.width is None or needed(reached) <= shape.width:
        return reached
    return bisect_left(range(1, reached + 1), shape.width + 1, key=needed)


def _law_of_width(shape: Shape, held: int, needed: int) -> str:
    return f"E = {shape.width}: D = {held + 1} takes {needed} numbers in the stream"


def _law_of_heads(shape: Shape) -> tuple[str, int]:
    """What the heads allow where there are numbers enough."""
    layers, heads = shape.layers, shape.heads
    if layers == 1 or (shape.reading == "last" and not shape.gathers):
        return "h", heads
    if shape.reading == "every" and shape.gathers:
        return "(2L - 1)·h", (2 * layers - 1) * heads
    return "L·h", layers * heads


def _with_positions(shape: Shape) -> tuple[int, str]:
    """The largest D of two layers in which tokens at different places ask for different coordinates."""
    if not shape.positions or shape.layers == 1 or not shape.gathers:
        return 0, ""
    found = [by_place_reaches(shape)]
    if shape.feedforward:
        found.append(one_at_a_time_reaches(shape))
    return max(found, key=lambda each: each[0])


def groups_of(shape: Shape) -> int:
    """Into how many groups by place tokens fall: one for every head of the reader that looks at one."""
    return shape.heads if shape.length is None else min(shape.heads, shape.length)


def by_place_reaches(shape: Shape) -> tuple[int, str]:
    """Tokens in groups by place gather h coordinates each; each head of the reader looks at one group."""
    heads, groups = shape.heads, groups_of(shape)
    own = heads if shape.reading == "every" else 0
    room = shape.head_dim // shape.group_size - bool(own)
    reached = own + groups * min(heads, room) if room >= 0 else 0

    def needed(dimension: int) -> int:
        gathered = max(dimension - own, 0)
        return dimension + gathered + min(groups, gathered) + bool(own)

    held = _held(shape, reached, needed)
    law = ("h²" if groups == heads else "T·h") + " + h" * bool(own)
    bound = f"{law} = {reached}" if room >= heads else f"kv·n = {shape.numbers} numbers a layer"
    if held < reached:
        bound = _law_of_width(shape, held, needed(held + 1))
    return held, f"{bound} with positions, T {'>=' if groups == heads else '='} {groups}"


def one_at_a_time_reaches(shape: Shape) -> tuple[int, str]:
    """A feed-forward network lets a token keep only what it was asked for: one look at all is enough."""
    held = _held(shape, shape.numbers, lambda dimension: SIGHTED * dimension)
    bound = f"kv·n = {held}" if held == shape.numbers else _law_of_width(shape, held, SIGHTED * (held + 1))
    if shape.length is not None and shape.length < held:
        held, bound = shape.length, f"T = {shape.length}"
    return held, f"{bound}; heads are no limit with positions and feed-forward, where T >= D"

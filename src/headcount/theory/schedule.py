r"""Which D weights exist for: what each layer reads, gathers and hands over.

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
from dataclasses import dataclass
from itertools import accumulate

from headcount.theory.shape import Shape

SIGHTED = 4  # numbers a coordinate, with positions and feed-forward: psi_i, gathered, its mark, what is kept


@dataclass(frozen=True)
class LayerWork:
    """What one layer does: coordinates that the reader reads, that tokens gather, that are handed over."""

    read: int = 0
    gathered: int = 0
    handed_over: int = 0


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


def without_sight(shape: Shape) -> tuple[int, str]:
    """The largest D without positions and feed-forward, and the law that binds."""
    reached = found_by_reading(shape) + _handed_over(shape)
    law, enough = _law_of_heads(shape)
    held = _held(shape, reached, lambda dimension: numbers_of_stream(shape, dimension))
    if held < reached:
        return held, _law_of_width(shape, held, numbers_of_stream(shape, held + 1))
    if reached == enough:
        return reached, f"{law} = {enough}"
    return reached, f"kv·n = {shape.numbers} numbers a layer, for any f_i and F_0"


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


def with_positions(shape: Shape) -> tuple[int, str]:
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

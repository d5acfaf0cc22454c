"""The largest D of a shape: the one that weights exist for, the one that training reaches, and why."""

from dataclasses import dataclass, replace
from typing import Literal

from headcount.theory.schedule import with_positions, without_sight
from headcount.theory.shape import Mask, Reading, Shape

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
MAPPED_SHARED, MAPPED_SHARED_HEADS = 6, (12, 3)  # D and heads with fewer key-value heads than heads
# Windows, strides and global tokens: the heads of one, two and three layers, and the longest sequence.
MAPPED_SPARSE_HEADS, MAPPED_SPARSE_LENGTH = (0, 1, 2), 9


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
    blind, law = without_sight(shape)
    trained = _trained(shape)
    if trained > blind:
        more = f"h·⌊(L - 1) / {shape.relays}⌋, for which no weights are built" if shape.sparse else "for sums"
        law += f", and {trained - blind} more in training: {more}"
    constructed, law = max((blind, law), with_positions(shape), key=lambda found: found[0])
    proven: Evidence = "proven" if layers == 1 and constructed == heads == shape.kv_heads else "constructed"
    return Capacity(constructed, trained, law, proven, "mapped" if _is_mapped(shape, trained) else "guessed")


def _trained(shape: Shape) -> int:
    """The largest D by the law that the maps follow."""
    read, _ = without_sight(shape)
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
    shared = shape.kv_heads != shape.heads or trained > without_sight(shape)[0]
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

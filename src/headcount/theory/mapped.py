"""Whether the maps cover a D: a model of the shape, or of a smaller one inside it, learnt that much.

A shape holds another one with at most as many layers, heads, key-value heads and query heads to each of
them: the rest of its weights can be 0. So the D that is asked for decides, not the largest one that a shape
reaches.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from headcount.theory.capacity import MAPPED_DIMENSION, MAPPED_HEADS, Evidence, capacity
from headcount.theory.shape import Shape


def behind(shape: Shape, dimension: int) -> Evidence:
    """What stands behind the training of this shape, for a D up to the one that it reaches.

    >>> behind(Shape(12, 1, 1, 64), 7), behind(Shape(12, 1, 1, 64), 8)
    ('mapped', 'guessed')
    """
    if dimension > MAPPED_DIMENSION:
        return "guessed"
    return "mapped" if any(_covers(each, dimension) for each in _inside(shape)) else "guessed"


def ends_of_maps(shape: Shape) -> tuple[int, int]:
    """The most layers, and the largest D, of models that were trained and are read as this shape is.

    >>> ends_of_maps(Shape(12, 12, 12, 64)), ends_of_maps(Shape(12, 12, 12, 64, "last token", "causal"))
    ((4, 10), (3, 6))
    """
    heads = MAPPED_HEADS.get((shape.reading, shape.mask), ())
    reached = [
        reach.trained
        for layers, most in enumerate(heads, 1)
        for count in range(1, most + 1)
        for reach in [
            capacity(layers=layers, heads=count, head_dim=64, reading=shape.reading, mask=shape.mask)
        ]
        if reach.behind_trained == "mapped"
    ]
    return len(heads), max(reached, default=0)


def _covers(shape: Shape, dimension: int) -> bool:
    found = capacity(**vars(shape))
    return found.trained >= dimension and found.behind_trained == "mapped"


def _inside(shape: Shape) -> Iterator[Shape]:
    """Those that it holds and that the maps may have; one layer read at its last token sees all tokens."""
    yield shape
    heads = MAPPED_HEADS.get((shape.reading, shape.mask), ())
    for layers, most in enumerate(heads[: shape.layers], 1):
        inside = replace(shape, layers=layers)
        if layers == 1 and shape.reading == "last token":
            inside, most = replace(inside, reading="every", mask="full"), MAPPED_HEADS["every", "full"][0]
        most = min(most, shape.heads)
        for kv_heads, group in product(range(1, shape.kv_heads + 1), range(1, shape.group_size + 1)):
            if kv_heads * group <= most:
                yield replace(inside, heads=kv_heads * group, kv_heads=kv_heads)

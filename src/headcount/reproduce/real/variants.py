"""What is trained of a real-data experiment: the paper's grid, and what stands beside it."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from headcount.models.encoder import EncoderPrecision, EncoderShape
from headcount.reproduce.real.trial import RealData, RealShape, RealTrial
from headcount.reproduce.recipe import Recipe
from headcount.trials.training import Training
from headcount.trials.trial import Trial

GRID, WIDTH_FIXED, HEADS_FIXED = "grid", "width fixed, heads varied", "heads fixed, width varied"
NARROW = "width of one head, heads varied"
IN_FLOAT32, JOINED, PLACED_ONCE = "in float32", "tokens kept, 64 of a passage", "each image at one place"
SHORTER, LONGER = "6 epochs", "h = 1 for 120 epochs"
SHORTER_CORNERS = "6 epochs, heads alone and width alone"
OTHER_GRIDS = (PLACED_ONCE, SHORTER, LONGER)
FAST: EncoderPrecision = "bfloat16"
FEEDFORWARD = 4  # times the width
Trials = Mapping[str, tuple[RealTrial, ...]]


def replicated(
    recipe: Recipe, data: RealData, shape: RealShape, length: int, rate: float, training: Training
) -> Iterator[RealTrial]:
    """A member of this shape from every seed."""
    for seed in range(recipe.first_seed, recipe.first_seed + recipe.seeds):
        yield Trial(data, length, shape, rate, seed, training)


def with_controls(
    recipe: Recipe,
    heads: Sequence[int],
    lengths: Sequence[int],
    trials: Callable[[EncoderShape, int], Iterator[RealTrial]],
    *,
    head_dim: int,
    width: int,
    fixed: int,
    narrow_lengths: int,
    precise: tuple[int, int],
) -> Trials:
    """The paper's grid, in which the width grows with the heads, and controls that part the two.

    - `width`: at which the heads vary; `fixed`: the heads at which the width does; at two lengths.
    - `narrow_lengths`: at how many lengths the heads vary within the width of one head of the grid: there
      most is left to learn.
    - `precise`: the cell that is trained in float32 too, where the grid is not.
    """
    if recipe.quick:
        width, fixed = max(heads) * head_dim, max(heads)
    precision: EncoderPrecision = "float32" if recipe.quick else FAST
    shapes = {
        GRID: [(count, head_dim) for count in heads],
        WIDTH_FIXED: [(count, width // count) for count in heads if width % count == 0],
        HEADS_FIXED: [(fixed, count * head_dim // fixed) for count in heads if count * head_dim % fixed == 0],
    }

    def of_shape(count: int, size: int, length: int, precision: EncoderPrecision) -> Iterator[RealTrial]:
        return trials(EncoderShape(count, size, 1, FEEDFORWARD * count * size, precision=precision), length)

    narrow = [(count, head_dim // count) for count in heads if head_dim % count == 0]
    many = {GRID: len(lengths), WIDTH_FIXED: 1 if recipe.quick else 2, HEADS_FIXED: 1 if recipe.quick else 2}
    if not recipe.quick:
        shapes[NARROW], many[NARROW] = narrow, narrow_lengths
    found = {
        name: tuple(
            trial
            for length in lengths[: many[name]]
            for count, size in of_these
            for trial in of_shape(count, size, length, precision)
        )
        for name, of_these in shapes.items()
    }
    if recipe.quick:
        return found
    count, length = precise
    return {**found, IN_FLOAT32: tuple(of_shape(count, head_dim, length, "float32"))}

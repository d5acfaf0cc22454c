"""What the two real-data experiments have in common: accuracy over heads and lengths, and what it follows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pandas as pd

from headcount.engine import Store, Training, Trial
from headcount.errors import InvalidInput
from headcount.models.encoder import EncoderPrecision, EncoderShape
from headcount.models.reranker import RerankerShape
from headcount.models.vit import VitShape
from headcount.real.trial import RealData, RealTrial
from headcount.reproduce.claims import Verdict
from headcount.reproduce.item import Item, Panel
from headcount.reproduce.paper import Cells
from headcount.reproduce.real_claims import (
    LEARNT,
    all_learnt,
    falls_with_length,
    reversal,
    rises_with_heads,
    where_length_fades,
)
from headcount.reproduce.real_controls import (
    beside_the_grid,
    follows,
    parted,
    reciprocal_rank,
    tokens_that_matter,
)
from headcount.reproduce.real_law import paper_s_law
from headcount.reproduce.real_transition import FEWEST_COUNTS, transitions
from headcount.reproduce.recipe import Recipe
from headcount.reproduce.summary import summarise
from headcount.validation import shown

GRID, WIDTH_FIXED, HEADS_FIXED = "grid", "width fixed, heads varied", "heads fixed, width varied"
NARROW = "width of one head, heads varied"
IN_FLOAT32, JOINED, PLACED_ONCE = "in float32", "tokens kept, 64 of a passage", "each image at one place"
SHORTER, LONGER = "6 epochs", "h = 1 for 120 epochs"
SHORTER_CORNERS = "6 epochs, heads alone and width alone"
OTHER_GRIDS = (PLACED_ONCE, SHORTER, LONGER)
FAST: EncoderPrecision = "bfloat16"
FEEDFORWARD = 4  # times the width
Trials = Mapping[str, tuple[Trial, ...]]
Shape = VitShape | RerankerShape


@dataclass(frozen=True)
class RealItem(Item):
    """An item whose data a person has to bring.

    - `load`: reads a folder, what a quick run needs or all; `options`: what else it may be told.
    - `make`: the trials of the grid and of its controls, by name.
    - `where`: what the folder may hold, and where to get it.
    """

    load: Callable[..., RealData] = field(kw_only=True)
    options: tuple[str, ...] = field(default=(), kw_only=True)
    make: Callable[[Recipe, RealData], Trials] = field(kw_only=True)
    where: str = field(kw_only=True)
    seeds: int = field(kw_only=True)
    data: RealData | None = field(default=None, kw_only=True)

    def at(self, folder: Path | str | None, *, quick: bool = False, **options: object) -> "RealItem":
        """The item with its data read."""
        for option, value in options.items():
            if option not in self.options:
                raise InvalidInput(f"{option} = {shown(value)}: {self.name} knows no --{option}")
        if folder is None:
            raise InvalidInput(f"data = None: {self.name} needs --data FOLDER with {self.where}")
        return replace(self, data=self.load(folder, quick=quick, **options))

    def keeps_models(self, recipe: Recipe) -> bool:
        """What members put out is looked at afterwards."""
        return True

    def look_closer(self, store: Store, recipe: Recipe) -> list[Verdict]:
        """Where the estimator sees a transition: in the grid, and in others with as many head counts."""
        named, trained = self.named(recipe), set(store.frame()["trial"])
        found = transitions(named[GRID], store)
        for variant in OTHER_GRIDS:
            members = [trial for trial in named.get(variant, ()) if trial.id in trained]
            if len({trial.architecture.heads for trial in members}) >= FEWEST_COUNTS:
                found += [said_of(variant, verdict) for verdict in transitions(members, store)]
        return found

    def conditions(self, recipe: Recipe) -> str:
        """What members learn from, and for how long."""
        recipes = {trial.training for trial in self.named(recipe)[GRID]}
        (training,), data = recipes, self.data
        assert data is not None
        return (
            f"{training.train_samples:,} training samples and {training.validation_samples:,} others, "
            f"{training.steps:,} steps with {training.batch_size} samples drawn for each; "
            f"data {data.fingerprint}."
        )

    def named(self, recipe: Recipe) -> Trials:
        """The trials of every grid."""
        assert self.data is not None, "its data is read first"
        return self.make(recipe, self.data)


def real_item(
    name: str,
    title: str,
    about: str,
    *,
    train: Cells,
    validation: Cells,
    load: Callable[..., RealData],
    make: Callable[[Recipe, RealData], Trials],
    where: str,
    seeds: int,
    options: tuple[str, ...] = (),
) -> RealItem:
    """An experiment as an item: `train` and `validation` are the paper's shares of wrong answers."""
    return RealItem(
        name,
        title,
        about,
        grids=lambda recipe: {},
        panels=partial(panels_of, train=train, validation=validation),
        judge=partial(verdicts_on, train=train),
        load=load,
        make=make,
        where=where,
        seeds=seeds,
        options=options,
    )


def panels_of(frame: pd.DataFrame, *, train: Cells, validation: Cells) -> list[Panel]:
    """Both splits beside the paper's; then, where they were trained, the other grids."""

    def panel(title: str, table: pd.DataFrame, **axes: Any) -> Panel:
        return Panel(title, table, value="share wrong", shares=True, **axes)

    shown, grids = [], whole_grids(frame)
    heads = tuple(sorted(grids[GRID]["heads"].unique().tolist()))
    for variant, cells in grids.items():
        title = "samples that are wrong" + ("" if variant == GRID else f": {variant}")
        shown.append(panel(f"training {title}", wrong(cells, "train", train), among=heads))
        shown.append(panel(f"validation {title}", wrong(cells, "validation", validation), among=heads))
    for variant, axis in ((NARROW, "heads"), (WIDTH_FIXED, "heads"), (HEADS_FIXED, "width")):
        cells = frame[frame["variant"] == variant]
        if not cells.empty:
            for split, name in (("train", "training"), ("validation", "validation")):
                table = wrong(cells, split, by=("heads", "width", "length"))
                title = f"{name} samples that are wrong: {variant}"
                shown.append(panel(title, table, across=axis, lines="length"))
    return shown


def verdicts_on(frame: pd.DataFrame, *, train: Cells) -> list[Verdict]:
    """What the grid says of the paper's claims, and what the other grids add."""
    grids = {variant: _finished(cells) for variant, cells in whole_grids(frame).items()}
    frame, grid = _finished(frame), grids.pop(GRID)
    if grid.empty:
        return [Verdict("training accuracy depends on h or T", None, "no member of the grid finished")]
    corners = frame[frame["variant"] == SHORTER_CORNERS]
    return [
        *shape_of(grid, train),
        tokens_that_matter(grid),
        *reciprocal_rank(grid),
        *follows(frame, grid=GRID, narrow=NARROW, width_fixed=WIDTH_FIXED, heads_fixed=HEADS_FIXED),
        *beside_the_grid(frame, grid=GRID, others=(IN_FLOAT32, JOINED)),
        *(verdict for variant, cells in grids.items() for verdict in shape_of_other(variant, cells, train)),
        *corners_parted(grids.get(SHORTER), corners),
    ]


def whole_grids(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The grid, and others that were trained, with what these share with it.

    An image has one place alone in the smallest frame; where some head counts were trained for longer, others
    that had learnt all are as they were.
    """
    grid = frame[frame["variant"] == GRID]
    most_wrong = grid.groupby(["heads", "length"])["train_error"].mean().groupby("heads").max()
    learnt = most_wrong.index[most_wrong < LEARNT]
    shared = {
        PLACED_ONCE: lambda cells: grid["length"] == grid["length"].min(),
        SHORTER: lambda cells: grid["heads"] < 0,
        LONGER: lambda cells: ~grid["heads"].isin(cells["heads"]) & grid["heads"].isin(learnt),
    }
    found = {GRID: grid}
    for variant in OTHER_GRIDS:
        cells = frame[frame["variant"] == variant]
        if not cells.empty:
            found[variant] = pd.concat([grid[shared[variant](cells)], cells])
    return found


def shape_of(grid: pd.DataFrame, paper: Cells) -> list[Verdict]:
    """The paper's shape: up with the heads, down with the length, which matters less and less."""
    if (told := all_learnt(grid)) is not None:
        return [told]
    return [
        rises_with_heads(grid),
        falls_with_length(grid),
        where_length_fades(grid, paper),
        reversal(grid, paper),
        paper_s_law(grid, paper),
    ]


def shape_of_other(variant: str, cells: pd.DataFrame, paper: Cells) -> Iterator[Verdict]:
    """The same of another grid, less the head counts that were not trained at every length."""
    lengths = cells.groupby("heads")["length"].nunique()
    in_part = lengths.index[lengths < lengths.max()]
    for verdict in shape_of(cells[~cells["heads"].isin(in_part)], paper):
        said = said_of(variant, verdict)
        if len(in_part):
            left_out = f"h = {', '.join(map(str, in_part))} left out, not trained at every T"
            said = replace(said, evidence=f"{said.evidence}; {left_out}")
        yield said


def corners_parted(grid: pd.DataFrame | None, corners: pd.DataFrame) -> Iterator[Verdict]:
    """Heads and width parted in the shorter training too, where it was done."""
    if grid is not None and not corners.empty:
        few = corners["heads"] == corners["heads"].min()
        yield said_of(SHORTER, parted(grid, corners[few], corners[~few]))


def _finished(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[frame["status"] != "diverged"]


def said_of(variant: str, verdict: Verdict) -> Verdict:
    """A verdict on another grid than the main one."""
    return replace(verdict, claim=f"{variant}: {verdict.claim}")


def replicated(
    recipe: Recipe, data: RealData, shape: Shape, length: int, rate: float, training: Training
) -> Iterator[RealTrial]:
    """A member of this shape from every seed."""
    for seed in range(recipe.first_seed, recipe.first_seed + recipe.seeds):
        yield RealTrial(data, length, cast(Any, shape), rate, seed, training)


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


def wrong(
    frame: pd.DataFrame,
    split: str,
    paper: Cells | None = None,
    *,
    by: Sequence[str] = ("heads", "length"),
) -> pd.DataFrame:
    """The cells of one split: nothing is selected, so that each error stands for itself."""
    errors = frame[f"{split}_error"]
    return summarise(frame.assign(validation_error=errors, test_error=errors), by=by, paper=paper)

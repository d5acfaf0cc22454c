"""From the rows of a real-data experiment to tables and verdicts, the paper's grid first."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from headcount.reproduce.claims import Cells, Verdict, summarise
from headcount.reproduce.real.claims import (
    LEARNT,
    all_learnt,
    falls_with_length,
    reversal,
    rises_with_heads,
    where_length_fades,
)
from headcount.reproduce.real.controls import (
    beside_the_grid,
    follows,
    parted,
    reciprocal_rank,
    tokens_that_matter,
)
from headcount.reproduce.real.law import follows_the_law
from headcount.reproduce.real.variants import (
    GRID,
    HEADS_FIXED,
    IN_FLOAT32,
    JOINED,
    LONGER,
    NARROW,
    OTHER_GRIDS,
    PLACED_ONCE,
    SHORTER,
    SHORTER_CORNERS,
    WIDTH_FIXED,
)

if TYPE_CHECKING:
    from headcount.report.panel import Panel


def panels_of(frame: pd.DataFrame, *, train: Cells, validation: Cells) -> "list[Panel]":
    """Both splits beside the paper's; then, where they were trained, the other grids."""
    from headcount.report.panel import Panel  # draws: not installed where members are trained alone

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
    """Verdicts on the paper's claims, from the grid and from the other grids."""
    frames = {"": frame, **whole_grids(frame)}
    grids = {variant: cells[cells["status"] != "diverged"] for variant, cells in frames.items()}
    frame, grid = grids.pop(""), grids.pop(GRID)
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
    """The grid, and the other grids that were trained, completed by the cells that they share with it.

    In the smallest frame an image has one place only. Where some head counts were trained for longer, those
    that had learnt everything were not.
    """
    grid = frame[frame["variant"] == GRID]
    max_wrong = grid.groupby(["heads", "length"])["train_error"].mean().groupby("heads").max()
    learnt = max_wrong.index[max_wrong < LEARNT]
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
    if (verdict := all_learnt(grid)) is not None:
        return [verdict]
    return [
        rises_with_heads(grid),
        falls_with_length(grid),
        where_length_fades(grid, paper),
        reversal(grid, paper),
        follows_the_law(grid, paper),
    ]


def shape_of_other(variant: str, cells: pd.DataFrame, paper: Cells) -> Iterator[Verdict]:
    """The same of another grid, less the head counts that were not trained at every length."""
    lengths = cells.groupby("heads")["length"].nunique()
    in_part = lengths.index[lengths < lengths.max()]
    for verdict in shape_of(cells[~cells["heads"].isin(in_part)], paper):
        named = said_of(variant, verdict)
        if len(in_part):
            left_out = f"h = {', '.join(map(str, in_part))} left out, not trained at every T"
            named = replace(named, evidence=f"{named.evidence}; {left_out}")
        yield named


def corners_parted(grid: pd.DataFrame | None, corners: pd.DataFrame) -> Iterator[Verdict]:
    """Heads and width parted in the shorter training too, where it was done."""
    if grid is not None and not corners.empty:
        few = corners["heads"] == corners["heads"].min()
        yield said_of(SHORTER, parted(grid, corners[few], corners[~few]))


def said_of(variant: str, verdict: Verdict) -> Verdict:
    """A verdict on another grid than the main one."""
    return replace(verdict, claim=f"{variant}: {verdict.claim}")


def wrong(
    frame: pd.DataFrame, split: str, paper: Cells | None = None, *, by: Sequence[str] = ("heads", "length")
) -> pd.DataFrame:
    """The cells of one split: nothing is selected, so that each error stands for itself."""
    errors = frame[f"{split}_error"]
    return summarise(frame.assign(validation_error=errors, test_error=errors), by=by, paper=paper)

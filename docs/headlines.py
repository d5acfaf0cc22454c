"""What docs/paper.md and docs/real.md say first, from the rows alone."""

import json
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from headcount.reproduce.bowls import D, errors_learnt
from headcount.reproduce.claims import STATISTICS, Cells, errors_by, fall_table, log_slope, summarise
from headcount.reproduce.item import ITEMS
from headcount.reproduce.real.variants import GRID, HEADS_FIXED, SHORTER, SHORTER_CORNERS, WIDTH_FIXED
from headcount.reproduce.table import ABOVE, TABLE_2
from headcount.results.intervals import difference, slope
from headcount.results.numbers import scientific

Rows = Callable[[str], pd.DataFrame]
ENOUGH = {"table2": 4, "table3": 4, "table4": 3, "table5": 2}
RATIOS = ("ratio", "median_ratio", "selected_ratio")


def conditions(rows: Rows) -> Mapping[str, tuple[pd.DataFrame, int]]:
    """The tables and the bowls, each with the first number of heads that is enough."""
    bowls, title = rows("bowls"), f"bowls, D = {D}"
    learnt = errors_learnt(bowls)
    rest = bowls[~bowls["length"].isin(learnt["length"])]
    tables = {titled(name): (rows(name), enough) for name, enough in ENOUGH.items()}
    return {
        **tables,
        f"{title}, T ≤ {learnt['length'].max()}": (learnt, D),
        f"{title}, T = {rest['length'].max()}": (rest, D),
    }


def titled(name: str) -> str:
    """Table 2, D = 4."""
    return f"{ITEMS[name].title.split(':')[0]}, D = {3 if name == 'table4' else 4}"


def falls(rows: Rows) -> list[tuple[str, ...]]:
    """How many times the error falls where heads become enough: the range over T of each statistic."""
    found = []
    for name, (frame, enough) in conditions(rows).items():
        folds = fall_table(frame, at=enough, below=enough - 1)
        assert folds is not None
        seeds = int(summarise(frame)["seeds"].min())
        cells = [span(folds[column], ",.0f") for column in STATISTICS]
        least = folds["low"].min()
        low = f"{least:,.0f}" if least >= 2 else f"{least:.2g}"
        found.append((name, f"{enough - 1} → {enough}", f"{seeds}", *cells, low))
    return found


def slopes(rows: Rows) -> list[tuple[str, ...]]:
    """The exponent of T in the error for every h, over all seeds, bold from where heads are enough."""
    found = []
    for name, (frame, enough) in conditions(rows).items():
        if frame["length"].nunique() < 3:
            continue
        cells = []
        for heads in range(1, 6):
            groups = errors_by(frame[frame["heads"] == heads], "length")
            if groups:
                exponent = str(log_slope(np.array(list(groups), float), list(groups.values())))
                cells.append(f"**{exponent}**" if heads >= enough else exponent)
        found.append((name, *cells, *["–"] * (5 - len(cells))))
    return found


def without_the_furthest(rows: Rows) -> str:
    """Table 5, h = 1: what one seed does to the slope, and what equal variances would make of it."""
    members = rows("table5")
    groups = errors_by(members[members["heads"] == 1], "length")
    lengths = np.log(np.array(list(groups), float))
    logs = [np.log(errors) for errors in groups.values()]
    every = slope(lengths, logs)
    longest = np.sort(groups[128])
    fewer = slope(lengths, [*logs[:-1], np.log(longest[:-1])])
    x, y = np.repeat(lengths, list(map(len, logs))), np.concatenate(logs)
    rest = y - np.polyval(np.polyfit(x, y, 1), x)
    equal = np.sqrt((rest @ rest) / (len(y) - 2) / ((x - x.mean()) ** 2).sum())
    reach = float(stdtrit(len(y) - 2, 0.975)) * equal
    return (
        f"In two layers with one head (Table 5) the slope is {every} over {len(y)} members: the interval "
        f"just holds 0. With equal\nspread at every T assumed it would be {every.value - reach:.2f} to "
        f"{every.value + reach:.2f}. One seed at T = 128, of error {scientific(longest[-1])} where the next "
        f"has\n{scientific(longest[-2])}, decides: without it the slope is {fewer}. By minima it is "
        f"{log_slope(np.exp(lengths), [errors.min(keepdims=True) for errors in groups.values()]).value:z.2f}."
    )


def above(rows: Rows) -> tuple[str, list[tuple[str, ...]]]:
    """The cells where our minimum is more than three times the paper's number, and how many of how many."""
    found, total, worse, below_enough = [], 0, 0, 0
    for name, enough in ENOUGH.items():
        paper: Cells | None = ITEMS[name].paper
        table = summarise(rows(name), paper=paper)
        total += len(table)
        cells = table[table["ratio"] > ABOVE]
        worse += len(cells)
        below_enough += int((cells["heads"] < enough).sum())
        for heads, group in cells.groupby("heads"):
            lengths = ", ".join(str(length) for length in group["length"])
            ratios = (span(group[ratio], ".2g") for ratio in RATIOS)
            found.append((titled(name), str(heads), lengths, *ratios))
    least = (
        f"In **{worse} of {total}** cells our lowest error of eight seeds is more than {ABOVE:g} times the"
    )
    where = f"{below_enough} of them in the last column below the transition"
    return f"{least} paper's number,\n{where}:", found


def means(rows: Rows) -> str:
    """Our means beside the paper's in the one table that it says is of means."""
    paper = TABLE_2.errors
    table = summarise(rows("table2"), paper=paper).set_index(["heads", "length"])
    ratio = table["mean"] / table["paper"]
    higher = [f"{T} ({ratio[5, T]:.2g} times)" for T in ratio[5].index if ratio[5, T] > 1]
    lower = [f"{T} ({ratio[5, T]:.2g})" for T in ratio[5].index if ratio[5, T] <= 1]
    last = errors_by(rows("table2").query("heads == 5"), "length")[128]
    failing = int((last > 10 * paper[5, 128]).sum())
    fewer = ratio[[4]]
    return (
        f"At h = 4 our means are {span(fewer, '.2g')} times the paper's. At h = 5 they are below the paper's "
        f"at T = {' and '.join(lower)}\nand above at T = {', '.join(higher)}: at T = 128, {failing} seeds of "
        f"{len(last)} are above ten times the paper's mean."
    )


def polished(frame: pd.DataFrame) -> list[tuple[str, ...]]:
    """The members that were carried on by a second-order method: errors before and after."""
    specs = [json.loads(spec) for spec in frame["spec"]]
    steps = np.array([spec["training"]["polish_steps"] for spec in specs])
    for spec in specs:
        spec["training"]["polish_steps"] = 0
    keyed = frame.assign(key=[json.dumps(spec, sort_keys=True) for spec in specs])
    both = keyed[steps > 0].merge(keyed[steps == 0], on="key", suffixes=("", "_before"))
    order = ["layers", "dimension", "heads", "length"]
    return [
        (
            *(str(row[name]) for name in order),
            *(
                f"{scientific(row[f'{split}_error_before'])} → {scientific(row[f'{split}_error'])}"
                for split in ("train", "validation", "test")
            ),
        )
        for row in both.sort_values(order).to_dict(orient="records")
    ]


def span(values: "pd.Series[float]", form: str) -> str:
    """From the least to the largest, or the one."""
    low, high = format(float(values.min()), form), format(float(values.max()), form)
    return low if low == high else f"{low} to {high}"


def corners(name: str, frame: pd.DataFrame) -> list[tuple[str, ...]]:
    """What heads and what width add to training accuracy, in points, from either end of the other."""
    grids = ((GRID, (WIDTH_FIXED, HEADS_FIXED)), (SHORTER, (SHORTER_CORNERS,)))
    found = []
    for grid, controls in grids:
        cells = frame[frame["variant"].isin((grid, *controls))].drop_duplicates("trial")
        few, narrow = cells[cells["variant"] == grid].sort_values("heads")[["heads", "width"]].iloc[0]
        by_corner = {
            corner: members["train_error"].to_numpy()
            for corner, members in cells.groupby(["heads", "width", "length"])
        }
        held = frame[frame["variant"].isin(controls)]
        many, wide = 8, held[held["heads"] == few]["width"].max()
        for length in sorted(held[held["width"] == wide]["length"].unique()):
            ends = ((few, narrow), (many, narrow), (few, wide), (many, wide))
            neither, heads, width, both = (100 * by_corner[h, w, length] for h, w in ends)
            pairs = ((neither, heads), (width, both), (neither, width), (heads, both))
            added = (difference(before, after) for before, after in pairs)
            where = f"{name}, {'6 epochs' if grid == SHORTER else 'full'}, E = {narrow} and {wide}"
            wrong = f"{neither.mean():.1f}%"
            points = (f"{one.value:z.1f} ({one.interval[0]:z.1f} to {one.interval[1]:z.1f})" for one in added)
            found.append((where, str(length), str(len(neither)), wrong, *points))
        if SHORTER not in set(frame["variant"]):
            break
    return found

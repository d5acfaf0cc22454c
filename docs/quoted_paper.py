"""Quotes of docs/paper.md: each claim of the paper as a short table of marks and the numbers that decide."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
import pandas as pd
from quoted_items import known_rows, that_say, verdicts_of
from quoting import RESULTS, marked, table, verdict_table
from scipy.special import stdtrit

from headcount.reproduce.bowls import D, errors_learnt
from headcount.reproduce.claims import (
    STATISTICS,
    Cells,
    Verdict,
    change_with_length,
    errors_by,
    fall_table,
    summarise,
)
from headcount.reproduce.figure3 import TABLES
from headcount.reproduce.item import ITEMS
from headcount.reproduce.table import ABOVE, TABLE_2
from headcount.results.intervals import slope, spanning
from headcount.results.numbers import scientific

ENOUGH = {"table2": 4, "table3": 4, "table4": 3, "table5": 2}
FALL = {"table2": 100, "table3": 100, "table4": 100, "table5": 30}  # folds that the verdicts ask for
BOWLS_FALL = 10
NAMES = ("minimum", "median", "selected by validation")
RATIOS = ("ratio", "median_ratio", "selected_ratio")


def conditions() -> Iterator[tuple[str, pd.DataFrame, int, float]]:
    """The tables and the bowls: the first h that is enough, and how far the error should fall there."""
    for name, enough in ENOUGH.items():
        yield titled(name), known_rows(name), enough, FALL[name]
    bowls, title = known_rows("bowls"), f"bowls, D = {D}"
    learnt = errors_learnt(bowls)
    rest = bowls[~bowls["length"].isin(learnt["length"])]
    yield f"{title}, T ≤ {learnt['length'].max()}", learnt, D, BOWLS_FALL
    yield f"{title}, T = {rest['length'].max()}", rest, D, BOWLS_FALL


def titled(name: str) -> str:
    """Table 2, D = 4."""
    return f"{ITEMS[name].title.split(':')[0]}, D = {3 if name == 'table4' else 4}"


def least_folds(frame: pd.DataFrame, enough: int) -> list[float]:
    """The least fall over T by every statistic."""
    folds = fall_table(frame, at=enough, below=enough - 1)
    assert folds is not None
    return [float(folds[column].min()) for column in STATISTICS]


def falls() -> str:
    """How many times the error falls where heads become enough, where that is least over T."""
    rows = []
    for name, frame, enough, wanted in conditions():
        least = least_folds(frame, enough)
        verdict = Verdict(name, min(least) >= wanted, "")
        cells = [f"{fold:,.0f}" if fold >= wanted else f"**{fold:,.0f}**" for fold in least]
        rows.append((marked(verdict, ""), name, f"{enough - 1} → {enough}", f"{wanted:g}", *cells))
    return table(("", "", "h", "asked for", *NAMES), rows)


def bowls_falls() -> str:
    """The fall of the bowls at every length."""
    rows = []
    for length, row in bowls_folds().iterrows():
        cells = (marked(Verdict("", row[name] >= BOWLS_FALL, ""), f"{row[name]:,.0f}") for name in STATISTICS)
        rows.append((f"T = {length}", *cells))
    return table(("3 → 4 heads", *NAMES), rows)


def bowls_folds() -> pd.DataFrame:
    folds = fall_table(known_rows("bowls"), at=D, below=D - 1)
    assert folds is not None
    return folds


def slopes() -> str:
    """The exponent of T for every h, over seeds: above 0 below D, and below 0 from D on?"""
    rows = []
    for name, frame, enough, _ in conditions():
        if frame["length"].nunique() < 3:
            continue
        found = change_with_length(frame, enough=enough)
        cells = [marked(verdict, exponents(verdict)[0]) for verdict in found]
        rows.append((name, enough, *cells, *["–"] * (5 - len(cells))))
    return table(("", "enough", *(f"h = {heads}" for heads in range(1, 6))), rows)


def without_the_furthest() -> str:
    """Table 5, h = 1: what the seed that is stuck does to the slope, and equal variances to the interval."""
    members = known_rows("table5")
    groups = errors_by(members[members["heads"] == 1], "length")
    lengths = np.log(np.array(list(groups), float))
    logs = [np.log(errors) for errors in groups.values()]
    found, every = spanning(logs, partial(slope, lengths)), slope(lengths, logs)
    longest = np.sort(groups[128])
    fewer = slope(lengths, [*logs[:-1], np.log(longest[:-1])])
    x, y = np.repeat(lengths, list(map(len, logs))), np.concatenate(logs)
    rest = y - np.polyval(np.polyfit(x, y, 1), x)
    equal = np.sqrt((rest @ rest) / (len(y) - 2) / ((x - x.mean()) ** 2).sum())
    reach = float(stdtrit(len(y) - 2, 0.975)) * equal
    return (
        f"In two layers with one head (Table 5) the slope is {found} over {len(y)} members: the\ninterval "
        f"just holds 0. The stuck seed, at T = 128, has an error of {scientific(longest[-1])} where the next "
        f"has {scientific(longest[-2])}.\nWith it the slope is {every}, without it {fewer}. With it and\n"
        f"equal spread at every T assumed the interval would be {every.value - reach:.2f} to "
        f"{every.value + reach:.2f}."
    )


def bowls_slower() -> str:
    """Whether the error grows more slowly from D on, where D heads learn."""
    return verdict_table(that_say("bowls", "more slowly"))


def bowls_slopes() -> str:
    """The exponents of the bowls where D heads learn, over seeds and over minima."""
    learnt = errors_learnt(known_rows("bowls"))
    found = [exponents(verdict) for verdict in change_with_length(learnt, enough=D)]
    names = (f"T ≤ {learnt['length'].max()}", *(f"h = {heads}" for heads in range(1, 6)))
    over_all, by_minima = zip(*found, strict=True)
    return table(names, [("over seeds", *over_all), ("by minima", *by_minima)])


def exponents(verdict: Verdict) -> tuple[str, str]:
    """Of a verdict on the change with T the exponent with its interval, and that of the minima."""
    found = re.match(r"slope (.+?\)) over .*; by minima ([^,]+), by medians", verdict.evidence)
    assert found is not None, verdict.evidence
    return found[1], found[2]


def agreement() -> str:
    """In how many cells ours is near the paper's number."""
    rows = []
    for name, enough in ENOUGH.items():
        near = list(that_say(name, f"for h ≥ {enough}, our"))
        near += that_say(name, f"for h ≥ {enough}, the seed")
        factor = re.search(r"within (\d) times", near[0].claim)
        cells = [marked(verdict, _cells_in(verdict)) for verdict in near]
        (below,) = that_say(name, f"for h < {enough}, our minimum over seeds is within")
        asked = f"{factor[1]} times" if factor else "as low"
        rows.append((titled(name), f"h ≥ {enough}", asked, *cells))
        minimum = marked(below, _cells_in(below))
        rows.append((titled(name), f"h < {enough}", f"{ABOVE:g} times", minimum, "–", "–", "–"))
    names = ("minimum", "median", "minimum, validation data", "selected by validation")
    return table(("", "heads", "asked for", *names), rows)


def _cells_in(verdict: Verdict) -> str:
    found = re.match(r"(\d+ of \d+) cells, largest ratio (\S+?)[;]?( |$)", verdict.evidence)
    assert found is not None, verdict.evidence
    return f"{found[1]}, at most {found[2]}×"


def above() -> str:
    """The cells where our minimum is more than three times the paper's number, and how many of how many."""
    worse, total, groups = worse_cells()
    rows, below_enough = [], 0
    for name, heads, cells in groups:
        lengths = ", ".join(str(length) for length in cells["length"])
        rows.append((titled(name), heads, lengths, *(span(cells[ratio], ".2g") for ratio in RATIOS)))
        below_enough += len(cells) if heads < ENOUGH[name] else 0
    times = (f"{which} / paper" for which in ("minimum", "median", "selected"))
    return (
        f"In **{worse} of {total}** cells our lowest error of eight seeds is more than {ABOVE:g} times the "
        f"paper's number,\n{below_enough} of them in the last column below the transition:\n\n"
        f"{table(('', 'h', 'T', *times), rows)}"
    )


def worse_cells() -> tuple[int, int, list[tuple[str, int, pd.DataFrame]]]:
    """How many cells are above the paper's, of how many, and which: by table and head count."""
    total, found = 0, []
    for name in ENOUGH:
        paper: Cells | None = ITEMS[name].paper
        cells = summarise(known_rows(name), paper=paper)
        total += len(cells)
        for heads, group in cells[cells["ratio"] > ABOVE].groupby("heads"):
            found.append((name, int(str(heads)), group))
    return sum(len(group) for _, _, group in found), total, found


def means() -> str:
    """Our means beside the paper's in the one table that it says is of means."""
    paper = TABLE_2.errors
    cells = summarise(known_rows("table2"), paper=paper).set_index(["heads", "length"])
    ratio = cells["mean"] / cells["paper"]
    higher = [f"{T} ({ratio[5, T]:.2g} times)" for T in ratio[5].index if ratio[5, T] > 1]
    lower = [f"{T} ({ratio[5, T]:.2g})" for T in ratio[5].index if ratio[5, T] <= 1]
    last = errors_by(known_rows("table2").query("heads == 5"), "length")[128]
    failing = int((last > 10 * paper[5, 128]).sum())
    return (
        f"At h = 4 our means are {span(ratio[[4]], '.2g')} times the paper's. At h = 5 they are below it "
        f"at T = {' and '.join(lower)}\nand above at T = {', '.join(higher)}: at T = 128, {failing} seeds "
        f"of {len(last)} are above ten times the paper's mean."
    )


def span(values: "pd.Series[float]", form: str) -> str:
    """From the least to the largest, or the one."""
    low, high = format(float(values.min()), form), format(float(values.max()), form)
    return low if low == high else f"{low} to {high}"


def hidden_sizes() -> str:
    """Whether the error falls as N grows, and whether a longer T asks for a larger N."""
    verdicts = verdicts_of("figure4")
    found: dict[str, list[str]] = {}
    for verdict in verdicts:
        heads = verdict.claim.split(" ")[3]
        by_length = re.findall(r"T = \d+: (-?[\d.]+) ", verdict.evidence)
        power = re.search(r"N grows as T\^\S+", verdict.evidence)
        if by_length:
            few = "falls as N grows" in verdict.claim
            claim = "falls with N" if few else "does not fall with N"
            least, most = min(map(float, by_length)), max(map(float, by_length))
            found[heads] = [claim, marked(verdict, f"{least:.2f} to {most:.2f}{_stuck(verdict)}")]
        elif power:
            found[heads].append(marked(verdict, f"{power[0]}{_stuck(verdict)}"))
    rows = [(heads, *cells, *["–"] * (3 - len(cells))) for heads, cells in found.items()]
    return table(("h", "the error", "exponents over T", "for the same error"), rows)


def _stuck(verdict: Verdict) -> str:
    """How many seeds were stuck, over all intervals of a verdict."""
    count = sum(map(int, re.findall(r"(\d+) stuck\)", verdict.evidence)))
    return f" ({count} stuck)" if count else ""


def reversal() -> str:
    """The first h with a positive reversal score, by every statistic of every table."""
    rows = []
    for name, (_, _, enough) in TABLES.items():
        cells = []
        for verdict in that_say("figure3", f"{name}, "):
            scores = re.findall(r"h = (\d): ([\d.]+)", verdict.evidence)
            first = next(int(heads) for heads, score in scores if float(score) > 0)
            assert verdict.holds == (first == enough), "a score rounds to 0"
            cells.append(marked(verdict, f"{first}"))
        rows.append((name, enough, *cells))
    return table(("first h with a positive score", "should be", "the paper's numbers", *NAMES), rows)


def rivals() -> str:
    """Heads against head size, width and parameters, and one wide head."""
    return verdict_table((*verdicts_of("rivals"), *verdicts_of("wide_head")))


def sensitivity() -> str:
    """What was varied: the least fall over its values, and whether it reaches the paper's numbers."""
    found = []
    for verdict in verdicts_of("sensitivity"):
        folds = re.findall(r"([\d.]+): ([\d,]+) and ([\d,]+)", verdict.evidence)
        if folds:
            least = min(min(_count(low), _count(middle)) for _, low, middle in folds)
            family = verdict.claim.split(":")[0]
            claim = f"{family}, {len(folds)} values: the error falls at least 30-fold at D"
            found.append(Verdict(claim, verdict.holds, f"least fall {least:,}"))
        else:
            found.append(verdict)
    return verdict_table(found)


def _count(text: str) -> int:
    return int(text.replace(",", ""))


def polished() -> str:
    """The members that were carried on by a second-order method: errors before and after."""
    frame = pd.read_parquet(RESULTS / "reproduce.parquet")
    specs: list[Mapping[str, dict[str, int]]] = [json.loads(spec) for spec in frame["spec"]]
    steps = np.array([spec["training"]["polish_steps"] for spec in specs])
    for spec in specs:
        spec["training"]["polish_steps"] = 0
    keyed = frame.assign(key=[json.dumps(spec, sort_keys=True) for spec in specs])
    both = keyed[steps > 0].merge(keyed[steps == 0], on="key", suffixes=("", "_before"))
    order = ["layers", "dimension", "heads", "length"]
    rows = [
        (
            *(str(row[name]) for name in order),
            *(
                f"{scientific(row[f'{split}_error_before'])} → {scientific(row[f'{split}_error'])}"
                for split in ("train", "validation", "test")
            ),
        )
        for row in both.sort_values(order).to_dict(orient="records")
    ]
    return table(("layers", "D", "h", "T", "training", "validation", "test"), rows)


QUOTES = (
    *(falls, bowls_falls, slopes, bowls_slopes, bowls_slower, agreement, above, means, hidden_sizes),
    *(reversal, rivals, sensitivity, without_the_furthest, polished),
)

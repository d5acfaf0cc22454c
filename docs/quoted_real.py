"""Quotes of docs/real.md: the paper's claims on both data sets side by side, and heads and width apart."""

import re
from collections.abc import Iterator
from dataclasses import replace

from quoted_corners import TITLES, corners
from quoted_items import ALL_ITEMS, known_rows, that_say, verdicts_of
from quoting import marked, read_json, table, verdict_table

from headcount.report.map_panel import MapPanel
from headcount.report.panel import Panel
from headcount.reproduce.claims import Verdict
from headcount.reproduce.real.variants import HEADS_FIXED, NARROW, PLACED_ONCE, SHORTER, WIDTH_FIXED

GRIDS = {
    "MS MARCO, 60 epochs": ("msmarco", ""),
    "MS MARCO, 6 epochs": ("msmarco", f"{SHORTER}: "),
    "CIFAR-10, images move": ("cifar10", ""),
    "CIFAR-10, one place each": ("cifar10", f"{PLACED_ONCE}: "),
}
# Of every claim of the paper: how it begins, and what of the evidence decides.
SHAPE = {
    "training accuracy rises with h": r"\d+ of \d+ steps improve",
    "with up to 4 heads, training accuracy falls with T": r"h = 1: slope [^,]+",
    "the dependence on T, in points of accuracy, fades": r"below a tenth .*?(?= \(|;)|never below .*?(?=;|$)",
    "the reversal score turns positive": r"at no trained h|at h = \d+",
    "1 − accuracy follows": r"needs .*?(?=:)|a = \S+ \([^)]*\)",
}
FIXED = {NARROW: "in the width of one head", WIDTH_FIXED: "in a fixed width", HEADS_FIXED: "at 8 heads"}
SHORTENED = {
    "below a tenth of the largest gap for h": "faded for h",
    "never below a tenth of the largest gap": "never",
    "needs 8 such cells and two lengths": "too few errors to fit",
    "at no trained h": "never",
}


def real_shape() -> str:
    """The paper's claims about the shape of its tables, in each of our grids."""
    rows = []
    for claim, decides in SHAPE.items():
        cells = []
        for name, grid in GRIDS.values():
            (verdict,) = (one for one in verdicts_of(name) if one.claim.startswith(f"{grid}{claim}"))
            found = re.search(decides, verdict.evidence)
            assert found is not None, verdict.evidence
            text = found[0]
            for long, short in SHORTENED.items():
                text = text.replace(long, short)
            cells.append(marked(verdict, text))
        (whole,) = {verdict.claim for verdict in verdicts_of("cifar10") if verdict.claim.startswith(claim)}
        rows.append((whole, *cells))
    return table(("the paper's claim", *GRIDS), rows)


def controls() -> str:
    """Whether accuracy rises with the heads at one width, and with the width at 8 heads."""
    rows = []
    for variant in FIXED:
        axis = "width" if variant == HEADS_FIXED else "heads"
        for split in ("training", "validation"):
            cells = []
            for name in TITLES:
                (verdict,) = that_say(name, f"{variant}: {split} accuracy rises with the {axis}")
                cells.append(marked(verdict, "; ".join(_paths(verdict))))
            rows.append((f"{split} accuracy rises with the {axis}, {FIXED[variant]}", *cells))
    return table(("", *TITLES.values()), rows)


def _paths(verdict: Verdict) -> Iterator[str]:
    """The share that is wrong with the least and with the most of what was varied, at the ends of T."""
    path = r"T = (\d+), \w+ (\d+) to (\d+): (\S+) to (\S+) wrong(, [a-z ]+)?"
    found = re.findall(path, verdict.evidence)
    for length, _, _, before, after, remark in [found[0], *found[-1:]] if len(found) > 1 else found:
        yield f"T = {length}: {before} → {after}{' (no difference)' if 'no significant' in remark else ''}"


def real_others() -> str:
    """What else was measured on each data set."""
    words = ("the more tokens", "reciprocal rank", "in float32", "tokens kept", "120 epochs")
    found = [
        Verdict(f"{title}: {verdict.claim}", verdict.holds, verdict.evidence)
        for name, title in TITLES.items()
        for verdict in verdicts_of(name)
        if any(each in verdict.claim for each in words)
    ]
    return verdict_table(found)


def transitions_seen() -> str:
    """At which number of heads the estimator sees a transition, on both data sets."""
    rows = []
    for grid, (name, prefix) in GRIDS.items():
        for verdict in verdicts_of(name):
            found = re.fullmatch(rf"{prefix}at T = (\d+), the estimator sees a transition", verdict.claim)
            if found:
                rows.append((grid, found[1], marked(verdict, verdict.evidence)))
    return table(("", "T", "the estimator sees a transition"), rows)


def shape_panels() -> list[Panel | MapPanel]:
    """The grids whose shape is most like the paper's, one of each data set."""
    wanted = (f"training samples that are wrong: {grid}" for grid in (SHORTER, PLACED_ONCE))
    panels = (panel for name in TITLES for panel in ALL_ITEMS[name].panels(known_rows(name)))
    by_title = {panel.title: panel for panel in panels}
    return [
        replace(by_title[title], title=f"{name}: {title.split(': ')[1]}")
        for name, title in zip(TITLES.values(), wanted, strict=True)
    ]


def bm25() -> str:
    """What the re-rankers are up against, in a sentence."""
    rows, alone = known_rows("msmarco"), read_json("msmarco.json")["bm25_right"]
    right = 1 - rows[rows["variant"] == "grid"].groupby(["length", "heads"])["validation_error"].mean()
    return (
        f"BM25, which chose the negatives, puts the positive first on {alone:.1%} of the validation lists at "
        f"every T; the\nre-rankers of the grid on {right.min():.1%} to {right.max():.1%}."
    )


QUOTES = (real_shape, corners, controls, transitions_seen, real_others, bm25)

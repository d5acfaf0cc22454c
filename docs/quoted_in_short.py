"""The first table of docs/paper.md: every claim of the paper with the number that decides."""

from collections.abc import Iterable

from quoted_items import that_say, verdicts_of
from quoted_paper import BOWLS_FALL, bowls_folds, conditions, least_folds, worse_cells
from quoting import verdict_table

from headcount.reproduce.claims import STATISTICS, Verdict, change_with_length
from headcount.reproduce.figure3 import TABLES

ON_TABLES, ON_BOWLS = "Table", "bowls"


def in_short() -> str:
    """Over all tables of the paper, and over the bowls apart."""
    return verdict_table(Verdict(*row) for row in (*_falls(), *_changes(), *_others()))


Row = tuple[str, bool | None, str]


def _falls() -> Iterable[Row]:
    on_tables = [
        (min(least_folds(frame, enough)), wanted)
        for name, frame, enough, wanted in conditions()
        if name.startswith(ON_TABLES)
    ]
    yield (
        "the error falls at h = D, on the paper's task",
        all(least >= wanted for least, wanted in on_tables),
        f"at least {min(least for least, _ in on_tables):,.0f}-fold in Tables 2 to 5",
    )
    bowls = bowls_folds()
    fell = [str(length) for length, row in bowls.iterrows() if (row[list(STATISTICS)] >= BOWLS_FALL).all()]
    yield (
        "... and on bowls, inside the assumptions",
        len(fell) == len(bowls),
        f"{BOWLS_FALL}-fold at {len(fell)} of {len(bowls)} lengths, T = {', '.join(fell)}",
    )


def _changes() -> Iterable[Row]:
    yield "below D the error grows with T, on the paper's task", *_counted(ON_TABLES, few=True)
    yield "... and on bowls, where D heads learn", *_counted(ON_BOWLS, few=True)
    yield "from D on it does not, on the paper's task", *_counted(ON_TABLES, few=False)
    yield "... and on bowls, where D heads learn", *_counted(ON_BOWLS, few=False)


def _counted(where: str, *, few: bool) -> tuple[bool | None, str]:
    """The verdicts on the change with T of all head counts that are too few, or of those that are enough."""
    held = [
        verdict.holds
        for name, frame, enough, _ in conditions()
        if name.startswith(where) and frame["length"].nunique() > 2
        for verdict in change_with_length(frame, enough=enough)
        if ("does not grow" in verdict.claim) != few
    ]
    rest = f", {held.count(None)} undecided" if None in held else ""
    return _all(held), f"{held.count(True)} of {len(held)} exponents{rest}"


def _others() -> Iterable[Row]:
    worse, cells, _ = worse_cells()
    yield "our errors are at most 3 times the paper's", not worse, f"in {cells - worse} of {cells} cells"
    hidden = [verdict.holds for verdict in verdicts_of("figure4") if "falls as N" in verdict.claim]
    yield (
        "below D a larger hidden layer helps at every T",
        _all(hidden),
        f"with {hidden.count(True)} of {len(hidden)} head counts",
    )
    yield (
        "no head size, width or number of parameters replaces a head, at T = 32",
        _all(verdict.holds for verdict in verdicts_of("rivals")),
        next(that_say("rivals", "no head size")).evidence,
    )
    wide = [verdict.holds for verdict in verdicts_of("wide_head")]
    yield (
        "one head as wide as the sequence memorises it, trained with one hidden layer in the readout",
        _all(wide),
        f"at {wide.count(True)} of {len(wide)} lengths",
    )
    by_paper = [next(that_say("figure3", f"{name}, the paper's")).holds for name in TABLES]
    by_ours = [verdict.holds for name in TABLES for verdict in that_say("figure3", f"{name}, ours")]
    yield (
        "the reversal score finds D",
        _all((*by_paper, *by_ours)),
        f"in {by_paper.count(True)} of {len(by_paper)} tables by the paper's own numbers, "
        f"by ours {by_ours.count(True)} times of {len(by_ours)}",
    )


def _all(held: Iterable[bool | None]) -> bool | None:
    """Holds if all do, does not if one does not."""
    every = list(held)
    return False if False in every else None if None in every else True

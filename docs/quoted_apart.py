"""Quotes of docs/real.md: whether it is heads or width, and the controls that bear on it."""

from collections.abc import Iterator
from functools import cache

import pandas as pd
from quoted_corners import TITLES, every
from quoting import MARKS, NOT_RUN, RESULTS, read_json, table, verdict_table

from headcount.reproduce import planted
from headcount.reproduce.claims import Verdict
from headcount.reproduce.real.apart import EVENLY, HARDEST
from headcount.reproduce.real.apart_verdicts import MOSTLY, RATES_INSIDE, apart_verdicts
from headcount.results.intervals import difference

NOT_TRAINED = Verdict(MOSTLY, None, "not run yet")


def width_or_heads() -> str:
    """Which of the two it is: what the corners and their control say, and no more than both bear out."""
    signs = [difference(found.heads, found.width).sign for found in every()]
    controls = {title: _mostly(name) for name, title in TITLES.items()}
    corners = signs.count(1) > len(signs) / 2 and -1 not in signs
    held = [verdict.holds for verdict in controls.values()]
    missing = [title for title, verdict in controls.items() if verdict == NOT_TRAINED]
    if corners and all(held):
        answer = "In training accuracy it is the width, mostly."
    elif False in held or -1 in signs:
        answer = "It is not the width everywhere."
    elif corners and missing:
        answer = (
            "Between corners it is the width, mostly; whether that survives its controls is not known yet."
        )
    else:
        answer = "Whether it is the heads or the width is undecided."
    others = {-1: "in {} heads did", 0: "{} cannot tell"}
    rest = "".join(f"; {said.format(signs.count(sign))}" for sign, said in others.items() if sign in signs)
    lines = [
        f"**{answer}**",
        "From a narrow model of one head, the larger width added more training accuracy than eight heads",
        f"did in {signs.count(1)} of {len(signs)} comparisons{rest}. (Welch's 95% intervals over 2 or 3",
        "seeds; one learning rate for all; the size of a head changes with both.)",
        "",
    ]
    for title, verdict in controls.items():
        said = verdict.evidence if verdict != NOT_TRAINED else "not run yet"
        lines.append(
            f"- {MARKS[verdict.holds]} {title}, with heads of one size and a rate for each width: {said}."
        )
    lines += [f"- ✗ {title}: {said}." for name, title in TITLES.items() for said in _rates_at_an_edge(name)]
    return "\n".join(lines)


def _rates_at_an_edge(name: str) -> Iterator[str]:
    """Where another rate could have been better still."""
    for verdict in _verdicts(name):
        if verdict.claim == RATES_INSIDE and verdict.holds is False:
            yield f"a width was best at the edge of the rates tried and could be better ({verdict.evidence})"


def planted_found() -> str:
    """Whether the method finds a D that was planted, in images and in lists."""
    verdicts = [
        *(_said("images", verdict) for verdict in _on_images()),
        *(_said("lists", verdict) for verdict in _verdicts("msmarco") if "planted" in verdict.claim),
        *(
            _said("lists", verdict)
            for verdict in _verdicts("msmarco")
            if "the estimator finds" in verdict.claim
        ),
    ]
    return (
        verdict_table(one for one in verdicts if "of the training" not in one.claim) if verdicts else NOT_RUN
    )


def early() -> str:
    """What looks early in a training foretell."""
    return verdict_table(found) if (found := _early()) else NOT_RUN


def _early() -> list[Verdict]:
    verdicts = [
        *(_said("planted images", verdict) for verdict in _on_images()),
        *(_said(title, verdict) for name, title in TITLES.items() for verdict in _verdicts(name)),
    ]
    return [verdict for verdict in verdicts if "of the training" in verdict.claim]


LOOKS = {
    "the order of head counts by validation error": "the order of head counts",
    "as many heads are enough by validation error": "how many heads are enough, by validation error",
    "as many heads are enough by the distance of answers": "the same, by the distance of answers",
    "as many tokens matter": "the same, by the number of tokens that matter",
}


def early_in_short() -> str:
    """Of each look how often it says what the end says."""
    found = _early()
    rows = []
    for claim, title in LOOKS.items():
        for share in ("5%", "10%"):
            looks = [v.holds for v in found if claim in v.claim and f"after {share} of" in v.claim]
            rows.append((title, share, *(looks.count(held) for held in (True, False, None))))
    return table(("look", "after", "as at the end", "not so", "cannot tell"), rows) if found else NOT_RUN


def others_apart() -> str:
    """The verdicts of the controls that are neither planted nor early, on both data sets."""
    words = ("planted", "of the training", "the estimator finds")
    found = [
        _said(title, verdict)
        for name, title in TITLES.items()
        for verdict in _verdicts(name)
        if not any(word in verdict.claim for word in words)
    ]
    trained = [
        f"{title}: {_conditions(rows)}"
        for name, title in TITLES.items()
        if (rows := _rows(f"{name}-apart")) is not None
    ]
    return "\n\n".join([verdict_table(found), " ".join(trained)]) if found else NOT_RUN


def negatives() -> str:
    """How hard negatives are at each T, by BM25, in either kind of list."""
    rows = pd.DataFrame(read_json("negatives.json")["rows"])
    chosen = rows[rows["split"] == "training"].pivot(index="length", columns="variant")
    return table(
        (
            "T",
            *(
                f"{kind}: BM25 right on {what}"
                for kind in (HARDEST, EVENLY)
                for what in ("negatives", "lists")
            ),
        ),
        (
            (
                length,
                *(f"{row[what, kind]:.1%}" for kind in (HARDEST, EVENLY) for what in ("negatives", "lists")),
            )
            for length, row in chosen.iterrows()
        ),
    )


def _mostly(name: str) -> Verdict:
    return next((verdict for verdict in _verdicts(name) if verdict.claim == MOSTLY), NOT_TRAINED)


@cache
def _rows(name: str) -> pd.DataFrame | None:
    path = RESULTS / f"{name}.parquet"
    return pd.read_parquet(path) if path.exists() else None


@cache
def _verdicts(name: str) -> tuple[Verdict, ...]:
    """None where nothing was trained."""
    rows = _rows(f"{name}-apart")
    return () if rows is None else (*apart_verdicts(rows), *_closer(f"{name}-apart"))


def _on_images() -> tuple[Verdict, ...]:
    rows = _rows("planted")
    return () if rows is None else (*planted.judge(rows), *_closer("planted"))


def _closer(name: str) -> Iterator[Verdict]:
    return (Verdict(**verdict) for verdict in read_json(f"{name}.json")["closer"])


def _said(where: str, verdict: Verdict) -> Verdict:
    return Verdict(f"{where}: {verdict.claim}", verdict.holds, verdict.evidence)


def _conditions(rows: pd.DataFrame) -> str:
    members = rows.drop_duplicates("trial")
    steps = sorted(int(count) for count in members["steps"].unique())
    return (
        f"{len(members)} members, {' or '.join(f'{count:,}' for count in steps)} steps, "
        f"{members['seed'].nunique()} seeds, {members['learning_rate'].nunique()} rates, on "
        f"{'; '.join(sorted(set(members['device'])))}."
    )


QUOTES = (width_or_heads, planted_found, early_in_short, early, others_apart, negatives)

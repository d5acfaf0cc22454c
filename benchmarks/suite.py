"""How often is the estimate right on tasks unlike any that it was made with?

    python benchmarks/suite.py mending       the half that rules may be changed by
    python benchmarks/suite.py held-out      the other half: to be run once, when no rule will be changed
    python benchmarks/suite.py HALF --summary   the summary again, from the results
    python benchmarks/suite.py HALF --seconds 0   of the tasks whose members are all there
    python benchmarks/suite.py HALF --part 1/3 --work FOLDER --out FILE     a third, for one of three
    python benchmarks/suite.py HALF --join FILE FILE FILE                   what they wrote, as one

All tasks of a half go through their stages together, so that members of different tasks share programs; what
a task took is its members' share of their packs. Members are kept in runs/suite: what is there is not
trained again. Results go to benchmarks/results/suite-HALF.json (-cpu on a CPU), a row for each task; a task
that has a row there is not estimated again: after a rule was changed, start with another file (--out).
"""

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from dimension import largest_fall, train
from recording import RESULTS, about, dealt, origin, parser_of, write_json
from scipy.stats import binomtest
from suite_errata import ERRATA
from suite_held_out import HELD_OUT
from suite_mending import MENDING
from unseen import Unseen

from headcount.estimate.evidence import estimate_of
from headcount.estimate.members import FinishedMembers
from headcount.estimate.study import Study
from headcount.estimate.verdict import Estimate
from headcount.results.store import Store
from headcount.trials.machine import this_machine

WORK = Path("runs/suite")
HALVES = {"mending": MENDING, "held-out": HELD_OUT}


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("half", choices=list(HALVES))
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--seconds", type=float, default=np.inf, help="stop then; run again to go on")
    parser.add_argument("--out", type=Path, help="the results file")
    parser.add_argument("--work", type=Path, default=WORK, help="the folder of the members")
    parser.add_argument("--part", metavar="K/N", help="every N-th task from the K-th on; give --out as well")
    parser.add_argument("--join", type=Path, nargs="+", help="results files of parts, made on one machine")
    chosen = parser.parse_args()
    ending = "-cpu" if this_machine().kind == "cpu" else ""
    path = chosen.out or RESULTS / f"suite-{chosen.half}{ending}.json"
    if chosen.join:
        write(path, chosen.half, [row for part in chosen.join for row in recorded(part)], origin(chosen.join))
    elif not chosen.summary:
        tasks = dealt(HALVES[chosen.half], chosen.part)
        known = {row["name"]: row for row in recorded(path)}
        left = [task for task in tasks if task.name not in known]
        known |= {
            row["name"]: row for row in measured(left, chosen.work, time.perf_counter() + chosen.seconds)
        }
        if not known:
            sys.exit("Not finished yet.")
        write(path, chosen.half, list(known.values()), about())
    print("\n".join(summary(recorded(path))))


def write(path: Path, half: str, rows: Sequence[dict[str, Any]], machine: Mapping[str, str]) -> None:
    """The rows in the order of the tasks, and the names of those that have none."""
    known = {row["name"]: row for row in rows}
    rows = [known[task.name] for task in HALVES[half] if task.name in known]
    absent = sorted(task.name for task in HALVES[half] if task.name not in known)
    found = {**machine, "summary": list(summary(rows)), "not_run": absent, "tasks": rows}
    write_json(path, found, indent=1, allow_nan=False)


def recorded(path: Path) -> list[dict[str, Any]]:
    """The rows of a results file."""
    return json.loads(path.read_text())["tasks"] if path.exists() else []


def measured(tasks: Sequence[Unseen], folder: Path, end: float) -> list[dict[str, Any]]:
    """A row for each task that is finished when the time is up."""
    finished = FinishedMembers(Store(folder))
    studies = [
        replace(Study.of(task.data(), folder, max_heads=8, positions=True, seed=0), finished=finished)
        for task in tasks
    ]
    train(studies, end)
    pairs = zip(tasks, studies, strict=True)
    return [row_of(task, study) for task, study in pairs if study.next_stage() is None]


def row_of(task: Unseen, study: Study) -> dict[str, Any]:
    early, found = study.early_estimate(), estimate_of(study)
    row = {
        **{name: getattr(task, name) for name in ("kind", "name", "why", "unsure", "control")},
        "right": list(task.right),
        **{name: getattr(task, name) for name in ("length", "samples", "noise", "labels")},
        "judged": judged(task, found),
        **{name: getattr(found, name) for name in ("dimension", "interval", "verdict", "recommended_heads")},
        "sentence": found.sentence,
        "reasons": list(found.reasons),
        "early": early.dimension,
        "early_interval": early.interval,
        "positions": study.positions_used,
        "seconds": round(float(study.frame()["seconds"].sum()), 1),
        "probabilities": {str(heads): chance for heads, chance in found.probabilities.items()},
        "errors": [asdict(point) for point in found.errors],
        "distances": [asdict(point) for point in found.distances],
        "salience": found.evidence["salience"],
        "collisions": found.evidence["collisions"],
        "baselines": {
            "largest fall of log error": largest_fall({point.heads: point.value for point in found.errors}),
            "largest fall of log distance": largest_fall(
                {point.heads: point.value for point in found.distances}
            ),
            "first h within 10% of the best": within_a_tenth(found),
        },
    }
    print(
        f"{row['judged']:7s} {task.name:45s} {task.right}: {found.dimension} {found.interval}",
        file=sys.stderr,
    )
    return row


def judged(task: Unseen, found: Estimate) -> str:
    """`right`; `wrong` where the interval holds a right answer; `missed` where it does not."""
    if found.dimension is None:
        return "right" if task.unsure or task.right == (0,) else "unsure"
    if found.dimension in task.right:
        return "right"
    low, high = found.interval or (0, 0)
    return "wrong" if any(low <= answer <= high for answer in task.right) else "missed"


def right_as_corrected(row: dict[str, Any]) -> bool:
    """Whether the answer is right where a frozen one was found to be wrong."""
    if row["name"] in ERRATA:
        return row["dimension"] in ERRATA[row["name"]][0]
    return bool(row["judged"] == "right")


def missed_as_corrected(row: dict[str, Any]) -> bool:
    """Whether the answer is wrong and its interval misses too, where a frozen answer was corrected."""
    low, high = row["interval"] or (0, 0)
    if row["name"] in ERRATA and row["dimension"] is not None:
        right = ERRATA[row["name"]][0]
        return row["dimension"] not in right and not any(low <= answer <= high for answer in right)
    return bool(row["judged"] == "missed")


def within_a_tenth(found: Estimate) -> int:
    lowest = min(point.value for point in found.errors)
    return next(point.heads for point in found.errors if point.value <= 1.1 * lowest)


def summary(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Shares that are right, missed and unsure; false alarms; the baselines."""
    yield f"right: {share(row['judged'] == 'right' for row in rows)}"
    yield f"right, with the corrections of suite_errata.py: {share(map(right_as_corrected, rows))}"
    for name, word in (
        ("wrong, but inside the interval", "wrong"),
        ("missed", "missed"),
        ("cannot tell", "unsure"),
    ):
        such = [row["name"] for row in rows if row["judged"] == word]
        yield f"{name}: {len(such)} of {len(rows)}{': ' if such else ''}{', '.join(such)}"
    yield f"missed, with the corrections: {share(map(missed_as_corrected, rows))}"
    controls = [row for row in rows if row["control"]]
    alarms = [row["name"] for row in controls if row["verdict"] == "retrieval"]
    yield f"controls called a retrieval of more: {len(alarms)} of {len(controls)} {', '.join(alarms)}"
    tasks = [row for row in rows if not row["control"]]
    yield f"tasks that are no controls: right {share(row['judged'] == 'right' for row in tasks)}"
    sure = [
        row["probabilities"][str(row["dimension"])]
        for row in rows
        if row["dimension"] and row["probabilities"]
    ]
    yield f"probability of the D that is reported: median {np.median(sure):.0%}, lowest {min(sure):.0%}"
    for baseline in rows[0]["baselines"]:
        hits = share(
            row["baselines"][baseline] in (row["right"] or [1]) for row in rows if row["right"] != [0]
        )
        yield f"{baseline}: {hits}"
    early = share(row["early"] in row["right"] for row in rows if row["right"] != [0])
    yield f"first guess after a tenth of the training: {early}"
    seconds = [row["seconds"] for row in rows]
    yield f"seconds a task: median {np.median(seconds):.0f}, all {sum(seconds):,.0f}"


def share(hits: Iterator[bool]) -> str:
    """How many of how many, with a 95% interval."""
    found = list(hits)
    low, high = binomtest(sum(found), len(found)).proportion_ci(0.95)
    return f"{sum(found)} of {len(found)} ({sum(found) / len(found):.0%}; {low:.0%} to {high:.0%})"


if __name__ == "__main__":
    main()

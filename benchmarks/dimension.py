"""How often is the estimate right? Tasks of known dimension, controls, and what one would use otherwise.

python benchmarks/dimension.py                    all reported tasks, on whatever machine this is
python benchmarks/dimension.py --cpu              the 12 named ones, one after the other, each timed alone
python benchmarks/dimension.py --calibration      the tasks that the settings were chosen by
python benchmarks/dimension.py --keep-baselines   the same; the reversal score as it stands in the results
python benchmarks/dimension.py --part 1/3 --out FILE --work FOLDER     a third, for one of three processes
python benchmarks/dimension.py --join FILE FILE FILE                   what they wrote, as one
python benchmarks/dimension.py --summary          the table again, from the results; fills in the baseline
                                                  of scikit-dimension where the machine did not have it

All tasks go through their stages together, so that members of different tasks share programs; what a task
took is then its members' share of their packs. Members are kept in runs/dimension: what is there is not
trained again. Results go to benchmarks/results/dimension*.json, a row for each task; with what the law of
distances measures, so that `fit_law.py` can fit it and recompute its verdicts from the rows alone.
"""

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from dimension_tasks import CALIBRATION, REPORTED, Known
from law_measures import margin, recorded
from recording import RESULTS, about, dealt, origin, parser_of, part, write_json
from scipy.stats import binomtest

from headcount.data.arrays import DataSet
from headcount.estimate.evidence import by_length, estimate_of
from headcount.estimate.members import FinishedMembers
from headcount.estimate.study import Study
from headcount.estimate.verdict import EARLY, FINAL, Estimate
from headcount.reproduce.claims import reversal_score
from headcount.results.store import Store
from headcount.running.executor import Advanced, Finished, run
from headcount.trials.trial import Trial

WORK = Path("runs/dimension")
INTRINSIC = "TwoNN intrinsic dimension"
LOWEST = 5  # margins that the summary names
NAMED = (
    *("directions D2", "directions D4", "directions D6 with noise", "wells D2", "wells D3 with noise"),
    *("subsets D3", "product D2", "vector D3", "directions D3 as 2 labels"),
    *("mean pooling", "last token", "pure noise"),
)


def main() -> None:
    parser = parser_of(__doc__)
    for option in ("cpu", "calibration", "summary", "keep-baselines"):
        parser.add_argument(f"--{option}", action="store_true")
    parser.add_argument("--seconds", type=float, default=np.inf, help="stop then; run again to go on")
    parser.add_argument("--out", type=Path, help="the results file")
    parser.add_argument("--work", type=Path, default=WORK, help="the folder of the members")
    parser.add_argument(
        "--part", type=part, metavar="K/N", help="every N-th task from the K-th on; with --out"
    )
    parser.add_argument("--join", type=Path, nargs="+", help="results files of parts, made on one machine")
    chosen = parser.parse_args()
    if chosen.part and not chosen.out:
        parser.error("--part: expected --out as well, or a part would replace the results of all")
    ending = "-calibration" if chosen.calibration else "-cpu" if chosen.cpu else ""
    path = chosen.out or RESULTS / f"dimension{ending}.json"
    reversals = recorded_reversals(RESULTS / f"dimension{ending}.json") if chosen.keep_baselines else {}
    all_known: Sequence[Known] = CALIBRATION if chosen.calibration else REPORTED
    known = [task for task in all_known if task.name in NAMED or not chosen.cpu]
    if chosen.join:
        write(path, joined(chosen.join, known), origin(chosen.join))
    elif not chosen.summary:
        tasks = dealt(known, chosen.part)
        end = time.perf_counter() + chosen.seconds
        groups = [[task] for task in tasks] if chosen.cpu else [tasks]
        rows = [
            row for group in groups for row in measured(group, chosen.work, end, reversals, alone=chosen.cpu)
        ]
        if len(rows) == len(tasks):
            write(path, rows, about())
    elif path.exists():
        found = json.loads(path.read_text())
        write(path, filled_in(found["tasks"]), {name: found[name] for name in ("machine", "versions")})
    print("\n".join(summary(json.loads(path.read_text())["tasks"])) if path.exists() else "Not finished yet.")


def write(path: Path, rows: Sequence[dict[str, Any]], origin: dict[str, str]) -> None:
    found = {**origin, "summary": list(summary(rows)), "tasks": rows}
    write_json(path, found, indent=1, allow_nan=False)


def joined(paths: Sequence[Path], known: Sequence[Known]) -> list[dict[str, Any]]:
    """The rows of parts in the order of the tasks; all tasks must be there."""
    rows = {row["name"]: row for path in paths for row in json.loads(path.read_text())["tasks"]}
    absent = [task.name for task in known if task.name not in rows]
    if absent:
        sys.exit(f"expected a row for every task, but these have none: {', '.join(absent)}")
    return [rows[task.name] for task in known]


def recorded_reversals(path: Path) -> dict[str, int | None]:
    """The reversal score of every task of a results file: it depends on no rule of the estimate."""
    return {row["name"]: row["baselines"]["reversal score"] for row in json.loads(path.read_text())["tasks"]}


def measured(
    tasks: Sequence[Known], work: Path, end: float, reversals: Mapping[str, int | None], *, alone: bool
) -> Iterator[dict[str, Any]]:
    """The estimates of tasks, and what the baselines make of the same data; none after `end`.

    Of tasks whose reversal score is known already, the second length is not trained.
    """
    folder = work / tasks[0].slug if alone else work
    finished = FinishedMembers(Store(folder))
    studies = [
        replace(Study.of(data, folder, max_heads=8, positions=True, seed=0), finished=finished)
        for data in drawn(tasks)
    ]
    began = time.perf_counter()
    train(studies, end)
    spent = time.perf_counter() - began if alone else 0.0  # what was finished before counts as it did then
    # The reversal score wants a second length; that is no part of what the estimate costs.
    open_ = [place for place, task in enumerate(tasks) if task.name not in reversals]
    halves = drawn([replace(tasks[place], length=tasks[place].length // 2) for place in open_])
    longer = {place: replace(studies[place], half=half) for place, half in zip(open_, halves, strict=True)}
    train(list(longer.values()), end)
    for place, (task, study) in enumerate(zip(tasks, studies, strict=True)):
        if time.perf_counter() < end:
            known = place not in longer
            reversal = reversals[task.name] if known else _reversal(longer[place])
            row = _row(task, study, reversal)
            yield {**row, "seconds": round(max(row["seconds"], spent), 1)}


def drawn(tasks: Sequence[Known]) -> list[DataSet]:
    """The samples of tasks, several at a time."""
    with ThreadPoolExecutor() as pool:
        return list(pool.map(lambda task: task.data(), tasks))


def train(studies: Sequence[Study], end: float) -> None:
    """All stages of all studies, those of one turn in one run."""
    while time.perf_counter() < end:
        stages = [stage for study in studies if (stage := study.next_stage()) is not None]
        trials: list[Trial] = [trial for stage in stages for trial in stage.trials]
        if not trials:
            return
        for event in run(trials, studies[0].store, keep_models=True):
            if isinstance(event, Finished):
                seconds = sum(row.seconds for row in event.rows)
                line = f"{len(event.rows)} members of T = {event.pack.length}, {seconds:.0f} s"
                print(line, file=sys.stderr, flush=True)
            if isinstance(event, Advanced) and time.perf_counter() > end:
                return


def _row(task: Known, study: Study, reversal: int | None) -> dict[str, Any]:
    early, found = study.early_estimate(), estimate_of(study)
    final = recorded(study.curve(study.deciding), FINAL)
    row = {
        **{"name": task.name, "family": task.family, "true": task.dimension, "control": task.control},
        **{name: getattr(task, name) for name in ("length", "samples", "noise", "labels")},
        **{name: getattr(found, name) for name in ("dimension", "interval", "verdict")},
        "early": early.dimension,
        "positions": study.positions_used,
        "seconds": round(float(study.frame()["seconds"].sum()), 1),
        "errors": {point.heads: point.value for point in found.errors},
        "distances": {point.heads: point.value for point in found.distances},
        "early_distances": {point.heads: point.value for point in early.distances},
        "law": {"final": final, "early": recorded(study.curve(study.quick_sweep().trials), EARLY)},
        "margin": margin(found.dimension, final),
        "salience": found.evidence["salience"],
        "baselines": {
            "reversal score": reversal,
            "first h within 10% of the best": _within_a_tenth(found),
            INTRINSIC: _intrinsic(study.data),
        },
    }
    answer = f"{row['dimension']} in {row['interval']}, {row['seconds']:.0f} s"
    print(f"{task.name:34s} D = {task.dimension}: {answer}", file=sys.stderr, flush=True)
    return row


def _within_a_tenth(found: Estimate) -> int:
    lowest = min(point.value for point in found.errors)
    return next(point.heads for point in found.errors if point.value <= 1.1 * lowest)


def _reversal(twice: Study) -> int | None:
    """The first h whose reversal score over lengths T / 2 and T is positive, as the paper proposes."""
    for row in (by_length(twice) or {"slopes": ()})["slopes"]:
        if reversal_score(np.array(row["errors"])) > 0:
            return int(row["heads"])
    return None


def filled_in(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with the intrinsic dimension of their data, which needs nothing that was trained."""
    known = {task.name: task for task in (*CALIBRATION, *REPORTED)}
    for row in rows:
        if row["baselines"][INTRINSIC] is None:
            row["baselines"][INTRINSIC] = _intrinsic(known[row["name"]].data())
    return rows


def _intrinsic(data: DataSet) -> int | None:
    try:
        from skdim.id import TwoNN
    except ImportError:
        return None
    rows = data.x.reshape(len(data.x), -1)[:2000]
    return round(float(TwoNN().fit(rows).dimension_))


def summary(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Exactness, coverage, width, false alarms and seconds, of the estimate and of the baselines."""
    groups = {
        "numbers": [row for row in rows if not (row["control"] or row["noise"] or row["labels"])],
        "numbers with noise": [row for row in rows if not (row["control"] or row["labels"]) and row["noise"]],
        "labels": [row for row in rows if row["labels"] and not row["control"]],
    }
    known = [row for group in groups.values() for row in group]
    for name, group in groups.items():
        if group:
            yield f"{name}: exact on {_share(group, 'dimension')}, early {_share(group, 'early')}"
    if known:
        right = sum(row["dimension"] == row["true"] for row in known)
        low, high = binomtest(right, len(known)).proportion_ci(0.95)
        yield f"all of these: exact on {right} of {len(known)}, a share from {low:.0%} to {high:.0%} (95%)"
    for baseline in rows[0]["baselines"] if rows else ():
        exact = sum(row["baselines"][baseline] == row["true"] for row in known)
        yield f"  {baseline}: exact on {exact} of {len(known)}"
    for column in ("errors", "distances"):
        curves = [{int(heads): value for heads, value in row[column].items()} for row in known]
        exact = sum(largest_fall(curve) == row["true"] for curve, row in zip(curves, known, strict=True))
        yield f"  largest fall of the log of {column}: exact on {exact} of {len(known)}"
        several = [(curve, row["true"]) for curve, row in zip(curves, known, strict=True) if row["true"] > 1]
        exact = sum(largest_fall(curve, at_least=1) == true for curve, true in several)
        yield f"    where more than one head is known to be needed: exact on {exact} of {len(several)}"
    bounded = [row for row in known if row["interval"]]
    if bounded:
        covered = sum(row["interval"][0] <= row["true"] <= row["interval"][1] for row in bounded)
        widths = [row["interval"][1] - row["interval"][0] for row in bounded]
        yield f"intervals: hold D on {covered} of {len(bounded)}, median width {np.median(widths):g}"
    yield from _margins(rows)
    controls = [row for row in rows if row["control"]]
    if controls:
        alarms = [row["name"] for row in controls if row["verdict"] == "retrieval"]
        yield f"controls: {len(alarms)} false alarms of {len(controls)} {', '.join(alarms)}"
        nothing = [row for row in controls if row["true"] == 0]
        silent = sum(row["verdict"] == "cannot tell" for row in nothing)
        yield f"nothing to learn: cannot tell on {silent} of {len(nothing)}"
    if rows:
        same = sum(row["early"] == row["dimension"] for row in rows)
        seconds = [row["seconds"] for row in rows]
        yield f"early estimate equal to the final one on {same} of {len(rows)}"
        median, most, total = np.median(seconds), max(seconds), sum(seconds)
        yield f"seconds a task: median {median:.0f}, largest {most:.0f}, all {total:,.0f}"


def _margins(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """How near the verdicts were to another; nothing of rows that were written without margins."""
    apart = {
        row["name"]: (found["probability"] - found["probability_of_next"], row["dimension"], found["next"])
        for row in rows
        if (found := row.get("margin"))
    }
    if apart:
        median = np.median([value for value, _, _ in apart.values()])
        lowest = sorted(apart.items(), key=lambda item: item[1])[:LOWEST]
        named = ", ".join(
            f"{name} {value:.2f} ({here}, not {other})" for name, (value, here, other) in lowest
        )
        yield f"probability of D minus that of the next likeliest: median {median:.2f}; lowest {named}"


def largest_fall(curve: Mapping[int, float], *, at_least: float = 2) -> int:
    """The head count after the largest fall of the log; 1 where nothing falls `at_least` so many times."""
    heads = sorted(curve)
    logs = np.log([max(curve[count], 1e-12) for count in heads])
    falls = logs[:-1] - logs[1:]
    place = int(falls.argmax())
    return heads[place + 1] if falls[place] > np.log(at_least) else 1


def _share(group: Sequence[dict[str, Any]], column: str) -> str:
    exact = sum(row[column] == row["true"] for row in group)
    return f"{exact} of {len(group)} ({exact / len(group):.0%})"


if __name__ == "__main__":
    main()

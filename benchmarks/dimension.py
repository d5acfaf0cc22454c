"""How often is the estimate right? Tasks of known dimension, controls, and what one would use otherwise.

python benchmarks/dimension.py                    all reported tasks, on whatever machine this is
python benchmarks/dimension.py --cpu              the 12 named ones
python benchmarks/dimension.py --calibration      the tasks that the settings were chosen by
python benchmarks/dimension.py --summary          the table again, from the results alone

Results go to benchmarks/results/dimension*.json, a row for each task; what is there is not run again.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from dimension_tasks import CALIBRATION, REPORTED, Known

from headcount.engine import run, this_machine
from headcount.engine.files import write_whole
from headcount.engine.machine import versions
from headcount.estimate.study import Study
from headcount.estimate.verdict import Estimate
from headcount.reproduce.reversal import reversal_score
from headcount.tasks import DataSet

RESULTS = Path(__file__).parent / "results"
NAMED = (
    *("directions D2", "directions D4", "directions D6 noise 0.02", "wells D2", "wells D3 noise 0.02"),
    *("subsets D3", "product D2", "vector D3", "directions D3 as 2 labels"),
    *("mean pooling", "last token", "pure noise"),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for option in ("cpu", "calibration", "summary"):
        parser.add_argument(f"--{option}", action="store_true")
    parser.add_argument("--seconds", type=float, default=np.inf, help="begin no task after so long")
    parser.add_argument("--out", type=Path, help="the results file")
    chosen = parser.parse_args()
    tasks: Sequence[Known] = CALIBRATION if chosen.calibration else REPORTED
    ending = "-calibration" if chosen.calibration else "-cpu" if chosen.cpu else ""
    if chosen.cpu:
        tasks = [task for task in tasks if task.name in NAMED]
    path = chosen.out or RESULTS / f"dimension{ending}.json"
    rows = json.loads(path.read_text())["tasks"] if path.exists() else []
    began = time.perf_counter()
    if not chosen.summary:
        for task in tasks:
            if task.name in {row["name"] for row in rows}:
                continue
            if time.perf_counter() - began > chosen.seconds:
                break
            rows.append(row := measured(task))
            write(path, rows)
            told = f"{row['dimension']} in {row['interval']}, {row['seconds']:.0f} s"
            print(f"{task.name:34s} D = {task.dimension}: {told}", file=sys.stderr, flush=True)
    print("\n".join(summary(rows)))


def write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """All rows so far, whole or not at all."""
    found = {"machine": this_machine().name, "versions": versions(), "tasks": rows}
    text = json.dumps(found, indent=1, allow_nan=False) + "\n"
    write_whole(path, lambda file: file.write(text.encode()))


def measured(task: Known) -> dict[str, Any]:
    """The estimate of a task, and what the baselines make of the same data."""
    data = task.data()
    with tempfile.TemporaryDirectory() as folder:
        study = Study.of(data, Path(folder), most_heads=8, positions=True, seed=0)
        began = time.perf_counter()
        _train(study)
        early, found = study.early_estimate(), study.estimate()
        seconds = time.perf_counter() - began
        positions = study.looks(None)[0].positions
        reversal = _reversal(task, study)
    return {
        "name": task.name,
        "family": task.family,
        "true": task.dimension,
        "control": task.control,
        "length": task.length,
        "samples": task.samples,
        "noise": task.noise,
        "labels": task.labels,
        "dimension": found.dimension,
        "interval": found.interval,
        "verdict": found.verdict,
        "early": early.dimension,
        "positions": positions,
        "seconds": round(seconds, 1),
        "errors": {point.heads: point.value for point in found.errors},
        "distances": {point.heads: point.value for point in found.distances},
        "early_distances": {point.heads: point.value for point in early.distances},
        "salience": found.evidence["salience"],
        "baselines": {
            "reversal score": reversal,
            "first h within 10% of the best": _within_a_tenth(found),
            "TwoNN intrinsic dimension": _intrinsic(data),
        },
    }


def _train(study: Study) -> None:
    while (stage := study.next_stage()) is not None:
        for _ in run(stage.trials, study.store, keep_models=True):
            pass


def _within_a_tenth(found: Estimate) -> int:
    lowest = min(point.value for point in found.errors)
    return next(point.heads for point in found.errors if point.value <= 1.1 * lowest)


def _reversal(task: Known, study: Study) -> int | None:
    """The first h whose reversal score over lengths T / 2 and T is positive, as the paper proposes."""
    half = replace(task, length=task.length // 2, name=task.name).data()
    with tempfile.TemporaryDirectory() as folder:
        shorter = replace(study, data=half, store=type(study.store)(Path(folder)))
        stage = shorter.next_stage()
        while stage is not None and not shorter.has_quick_sweep:
            for _ in run(stage.trials, shorter.store, keep_models=True):
                pass
            stage = shorter.next_stage()
        curves = [{p.heads: p.value for p in each.early_estimate().errors} for each in (shorter, study)]
    for heads in sorted(curves[0]):
        if reversal_score(np.array([curve[heads] for curve in curves])) > 0:
            return heads
    return None


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
    for baseline in rows[0]["baselines"] if rows else ():
        exact = sum(row["baselines"][baseline] == row["true"] for row in known)
        yield f"  {baseline}: exact on {exact} of {len(known)}"
    told = [row for row in known if row["interval"]]
    if told:
        covered = sum(row["interval"][0] <= row["true"] <= row["interval"][1] for row in told)
        widths = [row["interval"][1] - row["interval"][0] for row in told]
        yield f"intervals: hold D on {covered} of {len(told)}, median width {np.median(widths):g}"
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


def _share(group: Sequence[dict[str, Any]], column: str) -> str:
    exact = sum(row[column] == row["true"] for row in group)
    return f"{exact} of {len(group)} ({exact / len(group):.0%})"


if __name__ == "__main__":
    main()

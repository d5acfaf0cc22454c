"""Does `hc.inspect` keep its promise? Plans for many models and samples, against a large untouched test set.

    python benchmarks/trained_promise.py --data FOLDER     FOLDER holds CIFAR-10; see convert_data.py

Transformers of 2 or 3 layers learn digits, maxima over tokens, values of keys and images in seconds. Each
is inspected with several draws of labelled samples at a tolerance of 0.5 points of accuracy. A plan breaks
its promise if, on test samples that nothing else has seen, it is further below the whole model than that.
Rows that the results file has are not made again; trained models are kept in --work.
"""

import json
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from promise_models import Samples, Spec, batches_of, drawn, right, trained
from recording import RESULTS, about, parser_of, write_json
from torch import nn

import headcount as hc
from headcount.trained.discovery import prepared
from headcount.trained.effect import Measure
from headcount.trained.plan import SOLUTIONS

TOLERANCE = 0.005
SIZES = (4_000, 6_000)  # samples to inspect with, by draw
TESTS = 18_000
SHAPES = (  # data, layers, heads, width, steps
    ("digits", 2, 4, 32, 400),
    ("digits", 3, 8, 32, 400),
    ("maxima", 2, 4, 32, 600),
    ("maxima", 2, 8, 32, 600),
    ("keys", 2, 4, 32, 600),
    ("keys", 3, 8, 32, 600),
    ("images", 2, 4, 32, 400),
    ("images", 3, 8, 32, 400),
)

Row = dict[str, Any]


def specs(seeds: int) -> Iterator[Spec]:
    """All models, one of each shape first."""
    for seed in range(seeds):
        for data, layers, heads, width, steps in SHAPES:
            yield Spec(data, layers, heads, width, steps, seed)


def measured(spec: Spec, model: nn.Module, draw: int, test: Measure, folder: Path) -> Row:
    """One run: what it promised, and what the test says."""
    samples = drawn(spec.data, "inspect", SIZES[draw % len(SIZES)], seed=draw, folder=folder)
    began = time.process_time()
    found = hc.inspect(model, batches_of(spec.data, samples), metric=right, tolerance=TOLERANCE, seed=draw)
    seconds = time.process_time() - began
    row: Row = {
        "model": spec.name,
        "draw": draw,
        "samples": len(samples),
        "accuracy": float(-test.whole.mean()),
        "heads": found.plan.heads,
        "needed": [layer.needed for layer in found.layers],
        "way": min(found.counted.ways, key=found.counted.ways.__getitem__),
        "processor_seconds": round(seconds, 1),
    }
    for name in SOLUTIONS:
        solution = found.plan.solution(name)
        removed = solution.heads < found.plan.heads
        rises = test.rises(found.apply(name)) if removed else 0 * test.whole
        half_width = 1.96 * float(rises.std(ddof=1)) / np.sqrt(len(rises))
        row[name] = {
            "counts": list(map(len, solution.kept)),
            "judged": solution.judged.to_json() if solution.judged else None,
            "reported": solution.reported.to_json() if solution.reported else None,
            "test": {"rise": float(rises.mean()), "half_width": half_width, "samples": len(rises)},
            "broken": bool(rises.mean() > TOLERANCE),
        }
    return row


def in_short(rows: Sequence[Row]) -> dict[str, Any]:
    """How often the promise was broken, and how much it let go."""
    found: dict[str, Any] = {"runs": len(rows), "models": len({row["model"] for row in rows})}
    for name in SOLUTIONS:
        kept = [sum(row[name]["counts"]) / row["heads"] for row in rows]
        found[name] = {
            "broken": sum(row[name]["broken"] for row in rows),
            "runs_with_heads_removed": sum(share < 1 for share in kept),
            "mean_share_kept": float(np.mean(kept)),
            "mean_test_rise": float(np.mean([row[name]["test"]["rise"] for row in rows])),
        }
    return found


def test_of(spec: Spec, model: nn.Module, folder: Path) -> Measure:
    """The untouched samples, with the whole model's answers."""
    samples: Samples = drawn(spec.data, "test", TESTS, seed=0, folder=folder)
    return Measure.of(prepared(model), batches_of(spec.data, samples), metric=right)


def run(arguments: Namespace) -> None:
    """All rows, draw after draw, so that a part of them is a fair part."""
    path: Path = arguments.out / "trained-promise.json"
    rows: list[Row] = json.loads(path.read_text())["rows"] if path.exists() else []
    done = {(row["model"], row["draw"]) for row in rows}
    tests: dict[str, Measure] = {}
    for draw in range(arguments.draws):
        for spec in specs(arguments.seeds):
            if (spec.name, draw) in done:
                continue
            model = trained(spec, arguments.work, arguments.data)
            if spec.name not in tests:
                tests[spec.name] = test_of(spec, model, arguments.data)
            row = measured(spec, model, draw, tests[spec.name], arguments.data)
            rows.append(row)
            kept = " ".join(
                f"{name} {sum(row[name]['counts'])} ({row[name]['test']['rise']:+.4f})" for name in SOLUTIONS
            )
            print(
                f"{spec.name}, draw {draw}: of {row['heads']} {kept}, {row['processor_seconds']} s",
                flush=True,
            )
            head = {**about(f"torch {torch.__version__}"), "tolerance": TOLERANCE, **in_short(rows)}
            write_json(path, {**head, "rows": rows}, indent=1)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with CIFAR-10")
    parser.add_argument("--work", type=Path, default=Path("runs/trained_promise"), help="for trained models")
    parser.add_argument("--seeds", type=int, default=2, help="of each shape of model")
    parser.add_argument("--draws", type=int, default=7, help="of samples, for each model")
    parser.add_argument("--out", type=Path, default=RESULTS)
    torch.set_num_threads(1)
    run(parser.parse_args())


if __name__ == "__main__":
    main()

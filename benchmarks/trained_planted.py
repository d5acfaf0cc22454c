"""How often `hc.inspect` counts heads as they were planted: 4 real ones, spread over 8 without any change.

    python benchmarks/trained_planted.py

Random models of four families, 2 to 4 layers, without noise on the spread weights and with 0.1%; `planting`
says which change keeps the function. Beside each, the model with the 4 real heads is inspected in the same
way: it needs all 4, or the truth would not be 4. Rows that the results file has are not made again.
"""

import json
import time
from argparse import Namespace
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import torch
from planting import FAMILIES, HEADS, REAL, batches_for, planted
from recording import RESULTS, about, parser_of, write_json

import headcount as hc
from headcount.trained.effect import Measure

LAYERS, NOISES = (2, 3, 4), (0.0, 1e-3)
TOLERANCE = 1e-3  # of the KL divergence
BATCHES = 8  # of 50 samples

Row = dict[str, Any]


def measured(family: str, layers: int, noise: float, seed: int) -> Row:
    """One model: what it is counted as, and what it is counted as without the change."""
    pair = planted(family, layers=layers, seed=seed, noise=noise)
    batches = batches_for(family, count=BATCHES, seed=seed)
    distance = Measure.of(pair.real, batches[:1]).rises(pair.spread).mean()
    began = time.process_time()
    found = hc.inspect(pair.spread, batches, tolerance=TOLERANCE, seed=seed)
    seconds = time.process_time() - began
    before = hc.inspect(pair.real, batches, tolerance=TOLERANCE, seed=seed)
    return {
        "family": family,
        "layers": layers,
        "noise": noise,
        "seed": seed,
        "distance_from_real": float(distance),
        "needed": [layer.needed for layer in found.layers],
        "intervals": [list(layer.interval) for layer in found.layers],
        "needed_by_real": [layer.needed for layer in before.layers],
        "uniform": list(map(len, found.plan.uniform.kept)),
        "free": list(map(len, found.plan.free.kept)),
        "way": min(found.counted.ways, key=found.counted.ways.__getitem__),
        "processor_seconds": round(seconds, 1),
    }


def in_short(rows: Sequence[Row]) -> dict[str, Any]:
    """How many layers and models are counted as planted."""
    found: dict[str, Any] = {}
    for name, some in (
        ("all", rows),
        *((f"noise {noise:g}", [row for row in rows if row["noise"] == noise]) for noise in NOISES),
        *((family, [row for row in rows if row["family"] == family]) for family in FAMILIES),
    ):
        needed = [count for row in some for count in row["needed"]]
        found[name] = {
            "models": len(some),
            "layers": len(needed),
            "layers_counted_as_planted": sum(count == REAL for count in needed),
            "layers_whose_real_heads_are_all_needed": sum(
                count == REAL for row in some for count in row["needed_by_real"]
            ),
            "uniform_plans_as_planted": sum(set(row["uniform"]) == {REAL} for row in some),
            "free_plans_as_planted": sum(set(row["free"]) == {REAL} for row in some),
        }
    return found


def run(arguments: Namespace) -> None:
    """All rows, seed after seed."""
    path: Path = arguments.out / "trained-planted.json"
    rows: list[Row] = json.loads(path.read_text())["rows"] if path.exists() else []
    done = {(row["seed"], row["family"], row["layers"], row["noise"]) for row in rows}
    for seed, family, layers, noise in product(range(arguments.seeds), FAMILIES, LAYERS, NOISES):
        if (seed, family, layers, noise) in done:
            continue
        row = measured(family, layers, noise, seed)
        rows.append(row)
        print(json.dumps(row), flush=True)
        head = about(f"torch {torch.__version__}")
        settings = {"real": REAL, "heads": HEADS, "tolerance": TOLERANCE}
        write_json(path, {**head, **settings, "in_short": in_short(rows), "rows": rows}, indent=1)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS)
    torch.set_num_threads(1)
    run(parser.parse_args())


if __name__ == "__main__":
    main()

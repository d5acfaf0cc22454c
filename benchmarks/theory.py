"""How long the theory takes on this machine: a construction with its error, and a million candidates.

    python benchmarks/theory.py

Writes benchmarks/results/theory.json.
"""

import json
import time
from pathlib import Path

from headcount.engine import this_machine
from headcount.engine.machine import versions
from headcount.models import Architecture, Transformer
from headcount.tasks.library import bowls
from headcount.theory import specialise
from headcount.theory.colliding.pigeonhole import pigeonhole

RESULTS = Path(__file__).parent / "results" / "theory.json"


def main() -> None:
    task = bowls(dimension=4, token_dim=2)
    began = time.perf_counter()
    made = specialise(task, length=64, epsilon=1e-2)
    built = time.perf_counter()
    found = made.measured_error()
    measured = time.perf_counter()
    model = Transformer.initialise(Architecture(token_dim=2, heads=3, head_dim=8), seed=0)
    pair = pigeonhole(model, task, 64, candidates=1_000_000)
    result = {
        "machine": this_machine().name,
        "versions": versions(),
        "specialise": {
            "dimension": 4,
            "token_dim": 2,
            "length": 64,
            "epsilon": made.epsilon,
            "build_seconds": built - began,
            "measure_seconds": measured - built,
            "bound": made.bound.total,
            "measured_error": found.error,
        },
        "pigeonhole": {
            "candidates": pair.candidates,
            "heads": 3,
            "head_dim": 8,
            "length": 64,
            "seconds": time.perf_counter() - measured,
            "epsilon": pair.epsilon,
            "target_gap": pair.target_gap,
            "representation_gap": pair.representation_gap,
        },
    }
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()

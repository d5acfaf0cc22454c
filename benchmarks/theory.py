"""How long the theory takes on this machine, and whether models built by formula can be made to collide.

    python benchmarks/theory.py

Writes benchmarks/results/theory.json.
"""

import time
from dataclasses import replace
from typing import Any

from recording import RESULTS, about, write_json

from headcount.models.architecture import Architecture
from headcount.models.transformer import Transformer
from headcount.tasks.library import bowls, bowls_product, bowls_several, extremes, max_sum
from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.collisions.collide import collide
from headcount.theory.collisions.pigeonhole import pigeonhole
from headcount.theory.constructions.specialise import specialise


def built_to_last(task: RetrievalTask, length: int, epsilon: float) -> dict[str, Any]:
    """The largest target gap at one representation of a model built by formula, next to 2 epsilon."""
    made = specialise(replace(task, distribution="uniform"), length=length, epsilon=epsilon)
    found = collide(made.model, made.task, length=length)
    return {
        "task": task.name,
        "dimension": task.dimension,
        "token_dim": task.token_dim,
        "length": length,
        "twice_epsilon": 2 * epsilon,
        "gap_like_the_data": found.inside.absolute_gap,
        "gap_anywhere": found.anywhere.absolute_gap,
    }


def main() -> None:
    task = bowls(dimension=4, token_dim=2)
    began = time.perf_counter()
    made = specialise(task, length=64, epsilon=1e-2)
    built = time.perf_counter()
    found = made.measured_error()
    measured = time.perf_counter()
    model = Transformer.initialise(Architecture(token_dim=2, heads=3, head_dim=8), seed=0)
    pair = pigeonhole(model, task, 64, candidates=1_000_000)
    binned = time.perf_counter()
    result = {
        **about(),
        "specialise": {
            **{"dimension": 4, "token_dim": 2, "length": 64},
            "epsilon": made.epsilon,
            "build_seconds": built - began,
            "measure_seconds": measured - built,
            "bound": made.error.total,
            "measured_error": found.error,
        },
        "pigeonhole": {
            "candidates": pair.candidates,
            **{"heads": 3, "head_dim": 8, "length": 64},
            "seconds": binned - measured,
            "epsilon": pair.epsilon,
            "target_gap": pair.target_gap,
            "representation_gap": pair.representation_gap,
        },
        "collisions_of_specialised_models": [
            built_to_last(max_sum(dimension=4, token_dim=4), 64, 1e-2),
            built_to_last(bowls(dimension=4, token_dim=2), 64, 1e-2),
            built_to_last(bowls(dimension=2, token_dim=2, positions="first half"), 16, 1e-3),
            built_to_last(extremes(), 16, 1e-2),
            built_to_last(bowls_product(dimension=2, token_dim=2), 16, 5e-2),
            built_to_last(bowls_several(dimension=2, token_dim=2), 16, 5e-2),
        ],
    }
    print(write_json(RESULTS / "theory.json", result), end="")


if __name__ == "__main__":
    main()

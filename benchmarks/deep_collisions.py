"""Whether members of two layers with one head collide beyond their capacity, D = 3, and not at it.

    python benchmarks/deep_collisions.py [--folder FOLDER]

Trains members for D = 3 and D = 4, class token reading in both layers, T = 16, and searches each for two
sequences with one representation (relative gap at most 1e-8), both inside the data's likelihood limits. The
limits allow sequences in which one maximum lies far below nearly all of the data's, and a member is right
only where it was trained. So members are trained in two ways: on the task's own samples, and, longer and on
more of them, on wider ones, whose tokens stand around a random centre. The two ways differ in more than the
width, so they are not to be compared with each other: compare D = 3 with D = 4 within each. The search is the
same for all, and its limits are those of the task.

Writes benchmarks/results/deep_collisions.json. With a folder, what is trained there is not trained again.
"""

import tempfile
import time
from contextlib import closing
from dataclasses import asdict, fields
from pathlib import Path
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from recording import RESULTS, about, parser_of, write_json

from headcount.models.transformer import Transformer
from headcount.results.store import Store
from headcount.running.executor import run
from headcount.tasks.library import max_sum
from headcount.tasks.registry import register_task
from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.capacity import capacity
from headcount.theory.collisions.collide import Collision, collide
from headcount.theory.evaluate import outputs, targets
from headcount.trials.grid import Grid
from headcount.trials.task_choice import TaskChoice
from headcount.trials.training import Training
from headcount.trials.trial import TaskTrial

LAYERS, HEADS, WIDTH, LENGTH, TOKEN_DIM = 2, 1, 24, 16, 10
DIMENSIONS = (3, 4)
SEEDS, RATES = (0, 1, 2), (3e-3, 1e-2)
PAIRS, TOLERANCE, CANDIDATES = 64, 1e-8, 2
MIN_GAP, MIN_RATIO = 0.3, 50
OWN, WIDER = "max_sum", "max_sum around a centre"
TRAININGS = {
    OWN: Training(steps=20_000, batch_size=64, train_samples=50_000, evaluate_every=500),
    WIDER: Training(steps=60_000, batch_size=64, train_samples=200_000, evaluate_every=500),
}
JUDGED = 10_000


class AroundACentre(RetrievalTask):
    """The same target, of tokens c + N(0, I) with a centre c ~ N(0, I) for each sequence."""

    def inputs(self, key: Key[Array, ""], count: int, length: int) -> Float[Array, "count length token_dim"]:
        around, centre = jax.random.split(key)
        centres = jax.random.normal(centre, (count, 1, self.token_dim))
        return super().inputs(around, count, length) + centres


@register_task(WIDER, version="1")
def around_a_centre(*, dimension: int, token_dim: int, directions: str) -> RetrievalTask:
    task = max_sum(dimension=dimension, token_dim=token_dim, directions=directions)
    return AroundACentre(**{field.name: getattr(task, field.name) for field in fields(task)})


def trials_of(name: str, dimension: int) -> tuple[TaskTrial, ...]:
    return Grid(
        TaskChoice.of(name, dimension=dimension, token_dim=TOKEN_DIM, directions="orthonormal"),
        length=LENGTH,
        heads=HEADS,
        width=WIDTH,
        layers=LAYERS,
        seed=SEEDS,
        learning_rate=RATES,
        model={"class_reads": "every", "residual": True},
        training=TRAININGS[name],
    ).trials()


def best_of_each_seed(trials: tuple[TaskTrial, ...], store: Store) -> list[TaskTrial]:
    """The rate with the smaller validation error."""
    by_id = {trial.id: trial for trial in trials}
    frame = store.frame()
    frame = frame[frame["trial"].isin(list(by_id)) & (frame["status"] != "diverged")]
    best = frame.sort_values("validation_error").drop_duplicates("seed").sort_values("seed")
    return [by_id[trial] for trial in best["trial"]]


def error_on_data(model: Transformer, task: RetrievalTask) -> float:
    """NMSE on samples of the task itself, whatever the member was trained on."""
    with jax.enable_x64(True):
        x = task.inputs(jax.random.key(1), JUDGED, LENGTH)
        wanted = np.asarray(targets(task, jnp.asarray(x)))
        found = np.asarray(outputs(jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), model), x))
    return float(((found - wanted) ** 2).mean() / wanted.var())


def numbers(found: Collision) -> dict[str, Any]:
    names = ("target_gap", "typical_gap", "representation_gap", "agreed", "tried")
    return {name: getattr(found, name) for name in names}


def searched(trial: TaskTrial, store: Store) -> dict[str, Any]:
    """One member: how well it was trained, and the largest gap that it cannot see."""
    model = store.model(trial)
    assert isinstance(model, Transformer)
    dimension = trial.task.dimension
    task = max_sum(dimension=dimension, token_dim=TOKEN_DIM, directions="orthonormal")
    began = time.perf_counter()
    found = collide(
        model, task, length=LENGTH, pairs=PAIRS, candidates=CANDIDATES, tolerance=TOLERANCE, seed=0
    )
    row = {
        "seed": trial.seed,
        "learning_rate": trial.learning_rate,
        "test_error": error_on_data(model, task),
        "inside": numbers(found.inside),
        "anywhere": numbers(found.anywhere),
        "seconds": round(time.perf_counter() - began, 1),
    }
    print(f"{trial.task.name}, D = {dimension}: {row}", flush=True)
    return row


def measured(name: str, dimension: int, store: Store) -> dict[str, Any]:
    members = [searched(trial, store) for trial in best_of_each_seed(trials_of(name, dimension), store)]
    inside = [member["inside"] for member in members]
    return {
        "trained_on": name,
        "dimension": dimension,
        "training": asdict(TRAININGS[name]),
        "median_largest_gap": median(each["target_gap"] for each in inside),
        "median_typical_gap": median(each["typical_gap"] for each in inside),
        "agreed": sum(each["agreed"] for each in inside),
        "tried": sum(each["tried"] for each in inside),
        "members": members,
    }


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        store = Store(arguments.folder or scratch)
        trials = [trial for name in TRAININGS for d in DIMENSIONS for trial in trials_of(name, d)]
        with closing(run(trials, store, keep_models=True)) as events:
            for _ in events:
                pass
        found = [measured(name, dimension, store) for name in TRAININGS for dimension in DIMENSIONS]
    ratios = {
        at["trained_on"]: beyond["median_largest_gap"] / at["median_largest_gap"]
        for at, beyond in zip(found[::2], found[1::2], strict=True)
    }
    gaps = {each["trained_on"]: each["median_largest_gap"] for each in found[1::2]}
    result = {
        "layers": LAYERS,
        "heads": HEADS,
        "head_dim": WIDTH,
        "length": LENGTH,
        "token_dim": TOKEN_DIM,
        "capacity": capacity(layers=LAYERS, heads=HEADS, head_dim=WIDTH).constructed,
        "pairs": PAIRS,
        "tolerance": TOLERANCE,
        "asked": {"gap_beyond_capacity": MIN_GAP, "ratio": MIN_RATIO},
        "gap_beyond_capacity": gaps,
        "ratio": ratios,
        "reached": {name: gaps[name] >= MIN_GAP and ratios[name] >= MIN_RATIO for name in gaps},
        "found": found,
        **about(),
    }
    print(write_json(arguments.out / "deep_collisions.json", result), end="")


if __name__ == "__main__":
    main()

"""What the docs quote on questions that the paper leaves open: members of some items, and constructions.

    python benchmarks/open_questions.py FOLDER...          folders of `headcount reproduce`, read as one
    python benchmarks/open_questions.py --train FOLDER     on a GPU: first trains there what the file lacks
    python benchmarks/open_questions.py --train FOLDER --only bounded --part 1/2 --seconds 500

Writes benchmarks/results/open_questions.parquet, a row for each member of a full or a quick run that the
folders or the file hold, and prints how many members each item has, and the verdicts. `--part K/N` trains
every N-th pack from the K-th on; `--seconds` ends training then, and the rows of finished packs are written.
What a kill leaves in FOLDER is read by the next call. Without `--train` open_questions.json is made anew:
constructions before and after they are made to meet Assumption 1, and those of one head.
"""

import argparse
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from recording import RESULTS, about, dealt, parser_of, part, write_json

from headcount.engine.train import plan_all
from headcount.models.bounded import largest_entry
from headcount.reproduce.item import ITEMS
from headcount.reproduce.recipe import FULL, QUICK
from headcount.results.files import write_whole
from headcount.results.store import Store
from headcount.running.executor import FileProblem, run
from headcount.tasks.library import bowls, bowls_product, max_sum
from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.constructions.bounded import bounded
from headcount.theory.constructions.construction import Construction
from headcount.theory.constructions.magnitudes import magnitudes
from headcount.theory.constructions.memorise import memorise
from headcount.theory.constructions.specialise import specialise
from headcount.theory.constructions.tournament import tournament
from headcount.trials.machine import this_machine
from headcount.trials.trial import Trial

PATH = RESULTS / "open_questions.parquet"
NAMES = ("figure4_data", "deep_readout", "bounded", "layer_norm")
SEQUENCES = 256
Builder = Callable[..., Construction]
STEP, STEEP, FIVE = "a step", "ReLU, weights that grow", "ReLU of five layers, entries of at most 1"
ONE_HEAD: dict[str, Builder] = {
    STEP: magnitudes,
    STEEP: partial(magnitudes, readout="relu"),
    FIVE: lambda *given, **more: bounded(memorise(*given, **more)),
}
THREE_BOWLS = bowls(dimension=3, token_dim=2)
LARGE = [(THREE_BOWLS, length, epsilon) for length in (8, 32, 128) for epsilon in (0.2, 0.1, 0.05)]
SMALL = [(bowls(dimension=2, token_dim=1), length, epsilon) for length in (4, 8) for epsilon in (0.2, 0.1)]
ONE_HEAD_CASES = {STEP: LARGE, STEEP: LARGE, FIVE: SMALL}
CASES = [
    *((bowls(dimension=3, token_dim=2), length, 0.01) for length in (8, 16, 32, 64)),
    (bowls(dimension=3, token_dim=2, positions="first half"), 64, 0.01),
    (max_sum(dimension=4, token_dim=4), 64, 0.01),
    (bowls_product(dimension=2, token_dim=2), 16, 0.05),
]


def constructions() -> dict[str, Any]:
    made = [(name, build, *case) for name, build in ONE_HEAD.items() for case in ONE_HEAD_CASES[name]]
    return {
        "rescaled": [rescaled(*case) for case in CASES],
        "one_head": [one_head(*case) for case in made],
        "tournament": [played(length) for length in (8, 16)],
    }


def one_head(name: str, build: Builder, task: RetrievalTask, length: int, epsilon: float) -> dict[str, Any]:
    """One head for D coordinates: how large, and how far from the target at what a search finds."""
    found = build(task, length=length, epsilon=epsilon)
    shape = found.model.architecture
    return {
        **{"kind": name, "task": task.name, "dimension": task.dimension, "length": length},
        **{"epsilon": epsilon, "head_dim": shape.head_dim, "readout_hidden": list(shape.readout_hidden)},
        **_sizes(found.model),
        "error": found.measured_error(starts=40, steps=60).error,
        "bound": found.error.total,
    }


def played(length: int) -> dict[str, Any]:
    """The error of weights that are written into the members of `deep_readout`, on data as they see."""
    task = max_sum(dimension=4, token_dim=4, directions="orthonormal")
    model, random = tournament(task, length=length), np.random.default_rng(0)
    x = jnp.asarray(random.normal(size=(10_000, length, 4)), jnp.float32)
    predicted = jax.vmap(jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), model))(x)
    y = np.asarray(jax.vmap(task.target)(x), np.float64)
    nmse = float(((np.asarray(predicted, np.float64) - y) ** 2).mean() / y.var())
    return {"length": length, "readout_hidden": list(model.architecture.readout_hidden), "nmse": nmse}


def rescaled(task: RetrievalTask, length: int, epsilon: float) -> dict[str, Any]:
    free = specialise(task, length=length, epsilon=epsilon)
    within = bounded(free)
    x = np.random.default_rng(0).uniform(size=(SEQUENCES, length, task.token_dim))
    before, after = ({"beta": made.model.architecture.beta, **_sizes(made.model)} for made in (free, within))
    apart = float(np.abs(within.predict(x) - free.predict(x)).max())
    sizes = {
        "dimension": task.dimension,
        "length": length,
        "epsilon": epsilon,
        "positions": str(task.positions[0].rule),
    }
    return {"task": task.name, **sizes, "before": before, "after": after, "apart": apart}


def _sizes(model: Any) -> dict[str, Any]:
    return {"parameters": model.counted_parameters(), "largest_entry": largest_entry(model)}


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--train", type=Path, metavar="FOLDER", help="where to train what the file lacks")
    parser.add_argument("--only", choices=NAMES, help="the item to train")
    parser.add_argument("--quick", action="store_true", help="train the quick run, for two cores")
    parser.add_argument("--part", type=part, metavar="K/N", help="every N-th pack from the K-th on")
    parser.add_argument("--seconds", type=positive, default=float("inf"), help="end training then")
    chosen = parser.parse_args()
    folders = list(chosen.folders)
    if chosen.train is None:
        write_json(RESULTS / "open_questions.json", {**constructions(), **about()})
    else:
        names = NAMES if chosen.only is None else (chosen.only,)
        train(missing(names, chosen.part, quick=chosen.quick), chosen.train, chosen.seconds)
        folders.append(chosen.train)
    write(folders)


def positive(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise argparse.ArgumentTypeError(f"expected a number > 0, got {text!r}")
    return seconds


def missing(names: Iterable[str], part: str | None, *, quick: bool) -> list[Trial]:
    """The members of these items that the file lacks; a part is that of all packs, on every call."""
    known = set(pd.read_parquet(PATH, columns=["trial"])["trial"]) if PATH.exists() else set()
    recipe = QUICK if quick else FULL
    trials = dict.fromkeys(trial for name in names for trial in ITEMS[name].trials(recipe))
    packs = dealt(plan_all(trials, this_machine()), part)
    return [trial for pack in packs for trial in pack.trials if trial.id not in known]


def train(trials: Sequence[Trial], folder: Path, seconds: float) -> None:
    """Train these until the time is up."""
    print(f"{len(trials)} members to train", flush=True)
    began = time.perf_counter()
    with closing(run(trials, Store(folder))) as events:
        for event in events:
            if isinstance(event, FileProblem):
                print(event.line)
            if time.perf_counter() - began > seconds:
                print(f"stopped after {seconds:g} seconds")
                break
    print(f"{time.perf_counter() - began:.0f} seconds", flush=True)


def write(folders: Iterable[Path]) -> None:
    """The file, and what it says."""
    frames = [pd.read_parquet(PATH)] if PATH.exists() else []
    frames += [Store(folder).frame() for folder in folders]
    if not frames:
        return
    wanted = {(name, recipe): ITEMS[name].trials(recipe) for name in NAMES for recipe in (FULL, QUICK)}
    ids = {trial.id for trials in wanted.values() for trial in trials}
    frame = pd.concat(frames).drop_duplicates("trial")
    kept = frame[frame["trial"].isin(list(ids))].sort_values("trial").reset_index(drop=True)
    write_whole(PATH, lambda file: kept.to_parquet(file, index=False, compression="zstd"))
    for (name, recipe), trials in wanted.items():
        rows = ITEMS[name].rows(kept, recipe)
        run_of = "quick run" if recipe.quick else "full run"
        print(f"{name}, {run_of}: {rows['trial'].nunique()} of {len(trials)} members")
        for verdict in ITEMS[name].judge(rows) if rows["trial"].nunique() == len(trials) else ():
            print(f"  {verdict}")


if __name__ == "__main__":
    main()

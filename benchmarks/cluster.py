"""What Ray costs a sweep, and what a sweep of 100,000 members costs the machine that plans it.

    python benchmarks/cluster.py                     everything, on this machine's cores: about 10 minutes
    python benchmarks/cluster.py overhead            one part: overhead, planning or flat
    python benchmarks/cluster.py --short --out DIR   a quick look, whose numbers mean little

- overhead: one sweep of 50 packs or more by the local engine and by Ray, each in a process of its own with
  nothing compiled yet, by turns. Timed from the plan to the last row on disk; the start of the cluster and of
  its workers comes before and is stated beside it.
- planning: a specification of 100,000 members, from the file to packs that are ready to go.
- flat: 2,000 packs of one trivial member each; the driver's own memory as they come back, and their rate.

Every part runs in a process of its own. Writes benchmarks/results/cluster-<kind>.json.
"""

import argparse
import json
import os
import pickle
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, cast

import numpy as np
from recording import RESULTS, about, parser_of, write_json

from headcount.cluster.connection import connected
from headcount.cluster.run import plan_for, run_on_ray
from headcount.commands.specfile import load
from headcount.results.store import Store
from headcount.running.executor import Finished, GivenUp, Planned, left_to_do, run
from headcount.trials.grid import Grid
from headcount.trials.machine import Machine, this_machine
from headcount.trials.pack import Pack
from headcount.trials.row import Outcome, Row
from headcount.trials.task_choice import TaskChoice
from headcount.trials.training import Training
from headcount.trials.trial import Trial

STEPS = 1_800
STEPS_A_SECOND = 150  # stated: it cuts the sweep into packs of about two members, however many their steps
MAX_MEMBERS = 512
IMAGINED_WORKERS = 64
MANY = """\
[task]
name = "max_sum"
dimension = [2, 3]
token_dim = 4
[model]
heads = [1, 2, 3, 4, 5]
[training]
length = [8, 16, 32, 64, 128]
learning_rate = [1e-3, 3e-3]
seeds = {seeds}
"""


def work(*, steps: int) -> tuple[Trial, ...]:
    """Members that take seconds each, of five shapes."""
    return Grid(
        TaskChoice.of("max_sum", token_dim=4),
        dimension=(3,),
        length=(32,),
        heads=(1, 2, 3, 4, 5),
        learning_rate=(1e-3, 3e-3),
        seed=tuple(range(14)),
        training=Training(steps=steps),
    ).trials()


def timed(engine: str, steps: int) -> dict[str, Any]:
    """One sweep by one engine, from its plan to its last row."""
    trials = work(steps=steps)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HEADCOUNT_CACHE"] = f"{folder}/cache"
        store = Store(Path(folder) / "results")
        if engine == "local":
            this_machine()
            return _timed(run(trials, store), store, began)
        with connected():
            return _timed(run_on_ray(trials, store, pack_seconds=steps / STEPS_A_SECOND), store, began)


def _timed(events: Any, store: Store, began: float) -> dict[str, Any]:
    planned = began
    packs = finished = 0
    for event in events:
        match event:
            case Planned(packs=to_do):
                planned, packs = time.perf_counter(), len(to_do)
            case Finished():
                finished += 1
            case GivenUp(reason=reason):
                raise SystemExit(reason)
    ended = time.perf_counter()
    assert finished == packs
    frame = store.frame()
    return {
        "start_seconds": planned - began,
        "seconds": ended - planned,
        "packs": packs,
        "members": len(frame),
        "errors": dict(zip(frame["trial"], frame["test_error"], strict=True)),
    }


def overhead(*, steps: int, rounds: int) -> dict[str, Any]:
    """Local and Ray by turns, and how much longer Ray takes."""
    runs: dict[str, list[dict[str, Any]]] = {"local": [], "ray": []}
    for _ in range(rounds):
        for engine, found in runs.items():
            found.append(_apart("timed", engine, f"--steps={steps}"))
    local, ray = (median(one["seconds"] for one in found) for found in runs.values())
    errors = [one.pop("errors") for found in runs.values() for one in found]
    return {
        "members": runs["ray"][0]["members"],
        "steps": steps,
        "pack_seconds": steps / STEPS_A_SECOND,
        "runs": runs,
        "local_seconds": local,
        "ray_seconds": ray,
        "overhead": ray / local - 1,
        "same_errors": all(one == errors[0] for one in errors),
    }


def planning(*, short: bool) -> dict[str, Any]:
    """From the specification to packs, and again where half of it is finished."""
    before = _own_memory()
    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder) / "many.toml"
        spec.write_text(MANY.format(seeds=20 if short else 1000))
        began = time.perf_counter()
        trials = load(spec)
        loaded = time.perf_counter()
        packs = plan_for(trials, Machine("cpu", "a core", 1, 1 << 30), IMAGINED_WORKERS, 60.0)
        planned = left_to_do(trials, packs, Store(Path(folder) / "results"), keep_models=False)
        ready = time.perf_counter()
        half = {trial.id: 0.0 for trial in trials[::2]}
        left = [rest for pack in packs if (rest := pack.without(half))]
        again = time.perf_counter()
    return {
        "members": len(trials),
        "packs": len(planned.packs),
        "packs_left": len(left),
        "load_seconds": loaded - began,
        "plan_seconds": ready - loaded,
        "seconds": ready - began,
        "leave_out_seconds": again - ready,
        "bytes_a_member": (_own_memory() - before) / len(trials),
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        **row_sizes(trials[:MAX_MEMBERS]),
    }


def row_sizes(trials: tuple[Trial, ...]) -> dict[str, Any]:
    """What a row takes in the object store and on disk, in a pack of the largest size."""
    machine, errors = this_machine(), np.random.default_rng(0).random(len(trials)).tolist()
    outcomes = [
        Outcome(cast(Any, None), error, error**2, error**3, best_step=10, diverged=False) for error in errors
    ]
    rows = [Row.of(*pair, machine, seconds=1.0) for pair in zip(trials, outcomes, strict=True)]
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        store.write(Pack(trials, trials[0].architecture), rows)
        written = sum(path.stat().st_size for path in store.shards.iterdir())
    return {
        "row_bytes_in_flight": len(pickle.dumps(rows)) / len(rows),
        "row_bytes_on_disk": written / len(rows),
    }


def flat(*, short: bool) -> dict[str, Any]:
    """Trivial packs: what the driver holds as they come back, and how fast they come."""
    training = Training(
        steps=2, batch_size=4, train_samples=8, validation_samples=4, test_samples=4, evaluate_every=1
    )
    trials = Grid(
        TaskChoice.of("max_sum", token_dim=2),
        dimension=(1,),
        length=(2,),
        heads=(1,),
        head_dim=(1,),
        hidden=(2,),
        seed=tuple(range(200 if short else 2_000)),
        training=training,
    ).trials()
    memory, began, packs = [], 0.0, 0
    with tempfile.TemporaryDirectory() as folder, connected():
        store = Store(Path(folder))
        for event in run_on_ray(trials, store, pack_seconds=1e-9):
            if isinstance(event, Planned):
                began = time.perf_counter()
            elif isinstance(event, Finished):
                packs += 1
                if packs % (len(trials) // 10) == 0:
                    memory.append(_own_memory() / 2**20)
        seconds = time.perf_counter() - began
        written = sum(path.stat().st_size for path in store.shards.iterdir())
    return {
        "packs": packs,
        "seconds": seconds,
        "packs_per_second": packs / seconds,
        "driver_mib": memory,
        "growth_mib": memory[-1] - memory[1],
        "shard_bytes": written / packs,
    }


def _own_memory() -> int:
    """Bytes of this process that it shares with no other."""
    _, resident, shared, *_ = map(int, Path("/proc/self/statm").read_text().split())
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


PARTS: dict[str, Callable[..., dict[str, Any]]] = {"planning": planning, "flat": flat}


def _apart(*part: str) -> dict[str, Any]:
    """A part in a process of its own."""
    command = [sys.executable, __file__, "--alone", *part]
    return json.loads(subprocess.check_output(command))


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("parts", nargs="*", default=["overhead", *PARTS])
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--rounds", type=int, default=1, help="of the overhead")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--steps", type=int, help="of the members of the overhead", default=STEPS)
    given = parser.parse_args()
    steps = STEPS // 16 if given.short else given.steps
    if given.alone:
        part, *engine = given.parts
        found = timed(engine[0], steps) if part == "timed" else PARTS[part](short=given.short)
        print(json.dumps(found))
        return
    path = given.out / f"cluster-{this_machine().kind}.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    for part in given.parts:
        if part == "overhead":
            kept[part] = overhead(steps=steps, rounds=1 if given.short else given.rounds)
        else:
            kept[part] = _apart(part, *(["--short"] if given.short else []))
    print(write_json(path, {**kept, **about(f"ray {version('ray')}")}), end="")


if __name__ == "__main__":
    main()

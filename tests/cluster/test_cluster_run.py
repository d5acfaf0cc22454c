"""Sweeps on real Ray nodes, processes on this machine: the same rows as without Ray, whatever is killed."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from cluster.nodes import BIN, Cluster, Place, Running, spec, stop_group, training

from headcount.results.shards import read_shard
from headcount.results.store import read_results

SEEDS = 20  # five packs


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    made = Place()
    (made.folder / "sweep.toml").write_text(spec(seeds=SEEDS))
    yield made
    made.clear()


@pytest.fixture(scope="module")
def undisturbed(place: Place) -> Running:
    """The same sweep without Ray, begun before it is needed."""
    return place.headcount("sweep", place.folder / "sweep.toml", "--out", place.folder / "undisturbed")


@pytest.fixture(scope="module")
def cluster(undisturbed: Running, place: Place) -> Cluster:
    return Cluster(place)


def arguments(cluster: Cluster, out: str, of: str = "sweep.toml") -> tuple[str | Path, ...]:
    """A sweep on the cluster, as a user types it."""
    folder = cluster.place.folder
    return "sweep", folder / of, "--out", folder / out, "--engine", "ray", "--address", cluster.address


def numbers(folder: Path) -> pd.DataFrame:
    return read_results(folder).drop(columns="seconds")


def shards(folder: Path) -> list[Path]:
    return sorted((folder / "shards").glob("*.parquet"))


def said(process: Running) -> list[str]:
    """What it printed, without progress."""
    return [line for line in process.err.splitlines() if "% of the steps" not in line]


def test_ctrl_c_does_not_wait_for_packs_in_training(cluster: Cluster) -> None:
    """A pack would take an hour: however slow the machine, what ends within a minute did not wait for one."""
    (cluster.place.folder / "hours.toml").write_text(spec(seeds=4, steps=5_000_000))
    sweep = cluster.place.headcount(*arguments(cluster, "stopped", "hours.toml"))
    sweep.until(lambda: any(map(training, cluster.nodes)))
    os.killpg(sweep.popen.pid, signal.SIGINT)
    assert sweep.wait(60) == 130
    *_, line = said(sweep)
    assert "what is finished is kept" in line
    assert f"--engine ray --address {cluster.address}" in line
    deadline = time.monotonic() + 60
    while any(map(training, cluster.nodes)):
        assert time.monotonic() < deadline, "its packs are still in training"
        time.sleep(0.1)


OWN_TASKS = """
import headcount as hc
from headcount.tasks.registry import register_task

@register_task("first of all")
def first_of_all(*, flat: bool = False):
    return hc.RetrievalTask(
        name="first of all",
        token_dim=2,
        coordinate_functions=(lambda token: token[0],),
        outer=lambda z: 0 * z[0] if flat else z[0],
    )
"""
OWN_SPEC = """
import headcount as hc
import neighbour  # registers the task

training = hc.Training(
    steps=40, evaluate_every=10, train_samples=64, validation_samples=32, test_samples=32, batch_size=16
)
trials = [
    trial
    for flat, length in ((True, 4), (False, 5))
    for trial in hc.Grid(
        hc.TaskChoice.of("first of all", flat=flat),
        length=(length,),
        heads=(1,),
        seed=(0, 1),
        training=training,
    ).trials()
]
"""


# The command line keeps the connection that it finds: one process does for both, and one set of workers.
OWN_SWEEPS = """
import sys
from pathlib import Path
import numpy as np
from headcount.cluster.connection import connected
from headcount.cluster.run import run_on_ray
from headcount.commands.cli import main
from headcount.running.executor import GivenUp, Planned
from headcount.results.store import Store, read_results
from headcount.trials.task_choice import TaskChoice
from headcount.trials.training import Training
from headcount.trials.trial import Trial
from headcount.models.architecture import Architecture
from headcount.data.arrays import data_set
from reproduce.real.small import ranking_trial

x = np.random.default_rng(0).normal(size=(300, 5, 2))
choice = TaskChoice.of_data(data_set(x, x[:, :, 0].max(axis=1)))
training = Training(
    steps=40, evaluate_every=10, train_samples=128, validation_samples=60, test_samples=100, batch_size=16
)
shape = Architecture(token_dim=2, heads=1, head_dim=2, encoder_hidden=(4,), readout_hidden=(4,))
trials = [Trial(choice, 5, shape, seed=seed, training=training) for seed in (0, 1)]
trials.append(ranking_trial(steps=20))
folder = Path(sys.argv.pop(1))
store = Store(folder)
with connected(sys.argv[-1]):
    for event in run_on_ray(trials, store, keep_models=True):
        assert not isinstance(event, GivenUp), event.reason
    again = [event for event in run_on_ray(trials, store, keep_models=True) if isinstance(event, Planned)]
    assert again[0].packs == (), "something finished is trained again"
    assert all(store.has_kept(trial) for trial in trials)
    assert store.model(trials[0]) is not None
    assert store.test_outputs(trials[0]).shape == (100, 1)
    assert len(read_results(folder)) == 3
    main()
"""


def test_data_and_tasks_of_ones_own_travel_and_a_pack_that_fails_three_times_is_reported(
    cluster: Cluster,
) -> None:
    """Models come back with the rows; one of the tasks cannot be learnt, and the sweep goes on."""
    folder = cluster.place.folder
    (folder / "neighbour.py").write_text(OWN_TASKS)
    (folder / "own.py").write_text(OWN_SPEC)
    sweeps = cluster.place.python(OWN_SWEEPS, folder / "data", *arguments(cluster, "own", "own.py"))
    assert sweeps.wait() == 1, sweeps.err
    *reported, last = said(sweeps)
    assert last.startswith("headcount: error: 2 of 4 members are missing"), sweeps.err
    assert len(reported) in (1, 2)
    reason = " (first of all, h = 1, T = 4) is given up: InvalidInput: "
    assert all(reason in line for line in reported)
    assert read_results(folder / "own")["task"].tolist() == ["first of all"] * 2


OTHER_VERSION = """
import sys
import headcount.version
headcount.version.__version__ = "99.0"
from headcount.commands.cli import main
main()
"""


def refused(process: Running, *fragments: str) -> None:
    """One clear line and exit code 2."""
    assert process.wait(60) == 2, process.err
    (line,) = process.err.splitlines()
    assert line.startswith("headcount: error: ")
    for fragment in fragments:
        assert fragment in line, line


def test_a_cluster_of_another_headcount_is_refused(cluster: Cluster) -> None:
    process = cluster.place.python(OTHER_VERSION, *arguments(cluster, "other"))
    refused(process, "expected headcount 99.0", "got headcount 0.")
    assert not (cluster.place.folder / "other").exists()


# Writes into the cluster what it was started with, as if that had been another Python; then as it was.
OTHER_PYTHON = """
import json, subprocess, sys
import ray
from ray.experimental.internal_kv import _internal_kv_get as get, _internal_kv_put as put
address, *command = sys.argv[1:]
ray.init(address=address, logging_level="critical")
key, shelf = b"CLUSTER_METADATA", b"cluster"
true = get(key, namespace=shelf)
put(key, json.dumps({**json.loads(true), "python_version": "3.9.1"}), overwrite=True, namespace=shelf)
try:
    code = subprocess.run(command).returncode
finally:
    put(key, true, overwrite=True, namespace=shelf)
sys.exit(code)
"""


@pytest.mark.long
def test_a_cluster_of_another_python_is_refused(cluster: Cluster) -> None:
    command = (cluster.address, BIN / "headcount", *arguments(cluster, "other"))
    refused(
        cluster.place.python(OTHER_PYTHON, *command), cluster.address, "a different version", "Python: 3.9.1"
    )


# The last on this cluster, of which one node is left.
def test_what_is_killed_costs_its_packs_and_nothing_else(cluster: Cluster, undisturbed: Running) -> None:
    """The driver goes on where it was; a worker and a node are gone, and not a digit of the rows differs."""
    folder = cluster.place.folder
    out, (one, other) = folder / "disturbed", cluster.nodes
    first = cluster.place.headcount(*arguments(cluster, "disturbed"))
    worker, *_ = first.until(lambda: training(one))
    os.kill(worker, signal.SIGKILL)
    first.until(lambda: shards(out))
    first.popen.kill()
    first.popen.wait()
    finished = {path: path.stat().st_mtime_ns for path in shards(out)}
    assert len(finished) < 4, "too late: it was as good as done"
    again = cluster.place.headcount(*arguments(cluster, "disturbed"))
    again.until(lambda: training(other))
    stop_group(other.popen)
    assert again.wait() == 0, again.err
    news = [line for line in said(first) + said(again) if "waiting for one" not in line]
    assert not news, "a pack that is trained again is no news"
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
    assert not list(out.rglob("*.partial"))
    assert undisturbed.wait() == 0, undisturbed.err
    expected = numbers(folder / "undisturbed")
    assert len(expected) == SEEDS
    pd.testing.assert_frame_equal(numbers(out), expected, check_exact=True)
    in_files = [trial for path in shards(out) for trial in read_shard(path)["trial"].to_pylist()]
    assert len(in_files) == len(set(in_files)) == SEEDS, "something finished was trained again"


@pytest.mark.long
def test_ray_on_this_machine_ends_with_a_killed_driver(place: Place) -> None:
    alone = Place(cache=place.cache)
    try:
        out = alone.folder / "part"
        sweep = alone.headcount("sweep", place.folder / "sweep.toml", "--out", out, "--engine", "ray")
        sweep.until(lambda: shards(out))
        sweep.popen.kill()
        sweep.popen.wait()
        alone.until_nothing_runs()
        assert shards(out), "what was finished before is kept"
    finally:
        alone.clear()

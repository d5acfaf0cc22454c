"""Sweeps on real Ray nodes, processes on this machine: the same rows as without Ray, whatever is killed."""

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from cluster.nodes import BIN, Cluster, Place, Running, spec, stop_group, training

from headcount.results.shards import read_shard
from headcount.results.store import read_results

SEEDS = 12
TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    made = Place()
    made.environment["PYTHONPATH"] = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    yield made
    made.clear()


@pytest.fixture(scope="module")
def undisturbed(place: Place) -> Running:
    """The same sweep without Ray, begun before it is needed."""
    (place.folder / "sweep.toml").write_text(spec(seeds=SEEDS))
    return place.headcount("sweep", place.folder / "sweep.toml", "--out", place.folder / "undisturbed")


@pytest.fixture(scope="module")
def shared_cluster(undisturbed: Running, place: Place) -> Cluster:
    return Cluster(place)


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Cluster:
    """Two nodes, whatever an earlier test did to them."""
    shared_cluster.fill_up(2)
    return shared_cluster


def on(cluster: Cluster, out: Path, *, of: str = "sweep.toml") -> Running:
    options = ("--engine", "ray", "--address", cluster.address)
    return cluster.place.headcount("sweep", cluster.place.folder / of, "--out", out, *options)


def numbers(folder: Path) -> pd.DataFrame:
    return read_results(folder).drop(columns="seconds")


def shards(folder: Path) -> list[Path]:
    return sorted((folder / "shards").glob("*.parquet"))


def same_as_undisturbed(out: Path, undisturbed: Running) -> None:
    """Every trial once, in no file twice, and not a digit differs: the programs are the same."""
    assert undisturbed.wait() == 0, undisturbed.err
    expected = numbers(out.parent / "undisturbed")
    assert len(expected) == SEEDS
    pd.testing.assert_frame_equal(numbers(out), expected, check_exact=True)
    in_files = [trial for path in shards(out) for trial in read_shard(path)["trial"].to_pylist()]
    assert len(in_files) == len(set(in_files)) == SEEDS, "something finished was trained again"


def said(process: Running) -> list[str]:
    """What it printed, without progress."""
    return [line for line in process.err.splitlines() if "% of the steps" not in line]


def test_a_killed_worker_and_a_stopped_node_cost_their_packs_and_nothing_else(
    cluster: Cluster, undisturbed: Running
) -> None:
    out = cluster.place.folder / "disturbed"
    sweep, (one, other) = on(cluster, out), cluster.nodes
    sweep.until(lambda: shards(out) and training(one.popen.pid))
    os.kill(training(one.popen.pid)[0], signal.SIGKILL)
    so_far = len(shards(out))
    sweep.until(lambda: len(shards(out)) > so_far and training(other.popen.pid))
    stop_group(other.popen)
    assert sweep.wait() == 0, sweep.err
    assert not said(sweep), "a pack that is trained again is no news"
    same_as_undisturbed(out, undisturbed)


def test_a_killed_driver_goes_on_where_it_was(cluster: Cluster, undisturbed: Running) -> None:
    out = cluster.place.folder / "interrupted"
    first = on(cluster, out)
    first.until(lambda: len(shards(out)) >= 2)
    first.popen.kill()
    first.popen.wait()
    finished = {path: path.stat().st_mtime_ns for path in shards(out)}
    assert len(finished) < 6, "too late: it was as good as done"
    again = on(cluster, out)
    assert again.wait() == 0, again.err
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
    same_as_undisturbed(out, undisturbed)
    assert not list(out.rglob("*.partial"))


def test_ctrl_c_does_not_wait_for_packs_in_training(cluster: Cluster) -> None:
    """A pack would take an hour: however slow the machine, what ends within a minute did not wait for one."""
    out = cluster.place.folder / "stopped"
    (cluster.place.folder / "hours.toml").write_text(spec(seeds=4, steps=5_000_000))
    sweep = on(cluster, out, of="hours.toml")
    sweep.until(lambda: any(training(node.popen.pid) for node in cluster.nodes))
    os.killpg(sweep.popen.pid, signal.SIGINT)
    assert sweep.wait(60) == 130
    (line,) = said(sweep)
    assert "what is finished is kept" in line
    assert f"--engine ray --address {cluster.address}" in line
    deadline = time.monotonic() + 60
    while any(training(node.popen.pid) for node in cluster.nodes):
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


def test_a_pack_that_fails_three_times_is_reported_and_the_sweep_goes_on(cluster: Cluster) -> None:
    """The tasks are the user's own: they are sent to the workers, and one of them cannot be learnt."""
    folder = cluster.place.folder
    (folder / "neighbour.py").write_text(OWN_TASKS)
    (folder / "own.py").write_text(OWN_SPEC)
    sweep = on(cluster, folder / "own", of="own.py")
    assert sweep.wait() == 1, sweep.err
    assert read_results(folder / "own")["task"].tolist() == ["first of all"] * 2
    *reported, last = said(sweep)
    reason = " (first of all, h = 1, T = 4) is given up: InvalidInput: "
    assert all(reason in line for line in reported)
    assert len(reported) in (1, 2)
    assert last.startswith("headcount: error: 2 of 4 members are missing")


WITH_DATA = """
import sys
from pathlib import Path
import numpy as np
from headcount.cluster.connection import connected
from headcount.cluster.run import run_on_ray
from headcount.running.executor import GivenUp, Planned
from headcount.results.store import Store, read_results
from headcount.trials.task_choice import TaskChoice
from headcount.trials.task_choice import Training
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
store = Store(Path(sys.argv[2]))
with connected(sys.argv[1]):
    for event in run_on_ray(trials, store, keep_models=True):
        assert not isinstance(event, GivenUp), event.reason
    again = [event for event in run_on_ray(trials, store, keep_models=True) if isinstance(event, Planned)]
assert again[0].packs == (), "something finished is trained again"
assert all(store.has_kept(trial) for trial in trials)
assert store.model(trials[0]) is not None
assert store.test_outputs(trials[0]).shape == (100, 1)
print(len(read_results(sys.argv[2])))
"""


def test_data_of_ones_own_travels_and_models_come_back(cluster: Cluster) -> None:
    script = cluster.place.python(WITH_DATA, cluster.address, cluster.place.folder / "data")
    assert script.wait() == 0, script.err
    assert script.out.strip() == "3"


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
    place = cluster.place
    out = place.folder / "other"
    arguments = ("sweep", place.folder / "sweep.toml", "--out", out, "--engine", "ray")
    process = place.python(OTHER_VERSION, *arguments, "--address", cluster.address)
    refused(process, "expected headcount 99.0", "got headcount 0.")
    assert not out.exists()


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
    place = cluster.place
    sweep = (BIN / "headcount", "sweep", place.folder / "sweep.toml", "--out", place.folder / "other")
    options = ("--engine", "ray", "--address", cluster.address)
    process = place.python(OTHER_PYTHON, cluster.address, *sweep, *options)
    refused(process, cluster.address, "a different version", "Python: 3.9.1")


def test_an_address_that_does_not_answer_is_refused(place: Place) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    tiny = place.folder / "tiny.toml"
    tiny.write_text(spec(seeds=1))
    options = ("sweep", tiny, "--out", place.folder / "none", "--engine", "ray", "--address")
    silent, none = place.headcount(*options, address), place.headcount(*options, "nowhere")
    refused(silent, address, "no cluster answers", "refused")
    refused(none, "nowhere", "HOST:PORT")


def test_without_ray_installed_the_extra_is_named(place: Place) -> None:
    blocked = "import sys; sys.modules['ray'] = None\nfrom headcount.commands.cli import main\nmain()"
    tiny = place.folder / "tiny.toml"
    tiny.write_text(spec(seeds=1))
    refused(place.python(blocked, "sweep", tiny, "--engine", "ray"), "pip install 'headcount[ray]'")


@pytest.fixture
def alone(place: Place) -> Iterator[Place]:
    """A place without a cluster."""
    made = Place(cache=place.cache)
    yield made
    made.clear()


@pytest.mark.long
def test_ray_on_this_machine_ends_with_a_killed_driver(alone: Place) -> None:
    part, out = alone.folder / "part.toml", alone.folder / "part"
    part.write_text(spec(seeds=8))
    sweep = alone.headcount("sweep", part, "--out", out, "--engine", "ray")
    sweep.until(lambda: shards(out))
    sweep.popen.kill()
    sweep.popen.wait()
    alone.until_nothing_runs()

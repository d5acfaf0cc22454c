"""Packs for a cluster, addresses that are none, and what the user sees: without any cluster."""

import io
import math
import socket
import sys
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
from jax.random import PRNGKey
from reproduce.real.small import ranking_trial
from rich.console import Console
from tiny import tiny_grid

from headcount.cluster import connection
from headcount.cluster.payload import Payload, unpack
from headcount.cluster.run import plan_for
from headcount.commands.terminal import LiveGrid
from headcount.commands.training import Engine
from headcount.engine.data import forget_tasks
from headcount.engine.train import plan_all
from headcount.errors import InvalidInput
from headcount.running.executor import GivenUp, Planned, WorkerCount
from headcount.tasks.registry import TASKS
from headcount.tasks.retrieval import RetrievalTask
from headcount.trials.machine import Machine
from headcount.trials.pack import Pack, plan, step_seconds
from headcount.trials.task_choice import TaskChoice

CORE = Machine("cpu", "a core", lanes=1, memory=1 << 30)
CARD = Machine("gpu", "a card", lanes=1, memory=32 << 30)


@pytest.mark.parametrize("machine", [CORE, CARD], ids=lambda machine: machine.kind)
@pytest.mark.parametrize("seconds", [5.0, 60.0])
def test_packs_take_about_the_time_that_is_stated(machine, seconds):
    trials = tiny_grid(
        heads=(1, 2, 3), seed=tuple(range(400)), steps=20_000, length=(64,), batch_size=256
    ).trials()
    packs = plan_for(trials, machine, 4, seconds)
    assert Counter(trial.id for pack in packs for trial in pack.trials) == Counter(t.id for t in trials)
    for pack in packs:
        member = pack.trials[0].training.steps * step_seconds(pack.architecture, pack.trials[0], machine)
        assert len(pack.trials) * member <= max(1.5 * seconds, member)


def test_a_small_sweep_is_cut_so_that_nobody_stays_idle():
    trials = tiny_grid(seed=tuple(range(64)), steps=20_000).trials()
    assert len(plan_for(trials, CORE, 8, 3600.0)) >= 32
    assert len(plan_for(trials, CORE, 1, 3600.0)) < 16


def test_packs_fit_the_memory_of_a_worker():
    trials = tiny_grid(seed=tuple(range(100)), steps=20).trials()
    small, roomy = (
        max(len(pack.trials) for pack in plan_for(trials, replace(CORE, memory=memory), 1, 60.0))
        for memory in (1 << 20, 1 << 30)
    )
    assert small < roomy


def test_on_as_many_workers_as_cores_the_shapes_are_those_of_the_local_engine():
    """So that, on a CPU, not a digit differs."""
    trials = tiny_grid(heads=(1, 2, 4, 8), seed=tuple(range(9)), steps=8_000, length=(32,)).trials()
    local = plan(trials, replace(CORE, lanes=4))
    on_ray = plan_for(trials, CORE, 4, 60.0)
    assert {pack.architecture for pack in on_ray} == {pack.architecture for pack in local}


def test_an_address_where_no_cluster_answers_is_refused_in_bounded_time(monkeypatch):
    monkeypatch.setattr(connection, "ANSWER_TIMEOUT", 1.0)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(InvalidInput, match=f"{address}: no cluster answers there .*refused"):
            connection._probe(address)
        silent.listen()
        with pytest.raises(InvalidInput, match="no cluster answers within 1 s"):
            connection._probe(address)


@pytest.mark.parametrize("address", ["", "head", ":6379", "ray://head:10001", "head:70000000"])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(InvalidInput, match=r"--address: expected (HOST:PORT|a port)"):
        connection._probe(address)


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("RuntimeError: Version mismatch: Python: 3.9", "the cluster has a different version: Python: 3.9"),
        ("ConnectionError: no", "no cluster answers there; `ray start --head` starts one"),
        ("", "cannot be used: Ray gave no reason"),
    ],
)
def test_why_a_connection_failed_is_one_clear_line(output, reason):
    assert connection._reason(output) == reason


@pytest.mark.parametrize("address", [None, "head:6379"])
def test_without_ray_installed_the_extra_is_named(address, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InvalidInput, match=r"^--engine ray needs .*: pip install 'headcount\[ray\]'$"):
        Engine("ray", address).prepare()


def test_ray_that_is_imported_but_not_connected_is_refused(monkeypatch):
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: False))
    with pytest.raises(InvalidInput, match=r"call ray\.init\(\) first"):
        connection.imported(None)


def test_members_on_real_data_are_cut_by_time_too():
    trials = [replace(ranking_trial(steps=2_000), seed=seed) for seed in range(40)]
    roomy = replace(CORE, memory=64 << 30)
    packs = [len(plan_all(trials, replace(roomy, pack_seconds=seconds))) for seconds in (1e-3, 2.0, 1e6)]
    assert packs[0] == 40
    assert 40 > packs[1] > packs[2] == 1


def test_a_task_that_was_written_anew_is_the_one_that_workers_train(monkeypatch):
    def task(value: float):
        return lambda: RetrievalTask(
            name="anew",
            token_dim=1,
            coordinate_functions=(lambda token: token[0],),
            outer=lambda z: value + 0 * z[0],
        )

    monkeypatch.setitem(TASKS, "anew", task(0.0))
    targets = []
    for value in (1.0, 2.0):
        unpack(Payload({}, {"anew": task(value)}, {"anew": str(value)}).packed())
        targets.append(TaskChoice.of("anew").build().sample(PRNGKey(0), 1, 2).y.item())
    assert targets == [1.0, 2.0]
    forget_tasks()


def test_an_address_is_for_ray_alone():
    with pytest.raises(InvalidInput, match="--engine ray"):
        Engine("local", "head:6379")


def test_a_pack_that_is_given_up_is_named_by_its_grid_point():
    trials = tiny_grid(heads=(1, 2), seed=(0,)).trials()
    both, alone = (
        GivenUp(Pack(some, some[-1].architecture), "ValueError: no").line for some in (trials, trials[:1])
    )
    assert (
        both == f"pack of 2 members (max_sum, h = 1, 2, T = {trials[0].length}) is given up: ValueError: no"
    )
    assert alone.startswith("pack of 1 member (max_sum, h = 1, T = ")


def test_the_live_grid_shows_workers_packs_and_pace():
    trials = tiny_grid(seed=(0, 1)).trials()
    console = Console(file=io.StringIO(), width=80, force_terminal=True, _environ={})
    view = LiveGrid(trials, console)
    view.show(Planned(tuple(plan(trials, CORE)), {}))
    view.show(WorkerCount(12, 24))
    view.began -= 10
    view.show(Planned((), {trials[0].id: math.nan}))
    console.print(view.draw())
    said = console.file.getvalue()
    assert "12 workers, 24 packs in flight, 0 members per second" in said
    assert "1 of 2 members" in said

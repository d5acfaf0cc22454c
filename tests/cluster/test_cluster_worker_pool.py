"""Which nodes get packs, and what happens to packs that fail: without any cluster."""

from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import jax
import pytest
from ray.exceptions import RayTaskError, TaskUnschedulableError, WorkerCrashedError
from tiny import tiny_grid

from headcount.cluster import connection, run, worker
from headcount.cluster import worker_pool as pool
from headcount.cluster.connection import _set_token
from headcount.cluster.worker import reason_of
from headcount.cluster.worker_pool import here
from headcount.errors import ClusterLost, InvalidInput
from headcount.running.executor import FileProblem, Finished, GivenUp
from headcount.trials.machine import Machine
from headcount.trials.pack import TooLarge, plan

CORE = Machine("cpu", "a core", lanes=1, memory=8 << 30)


def raised(error: Exception) -> RayTaskError:
    return RayTaskError("describe", "Traceback (most recent call last):\n ...", error)


class Stage:
    """Nodes that give the answer set for them, or none."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: dict[str, object] = {}
        self.workers: dict[str, int] = {}
        monkeypatch.setattr(pool, "nodes", lambda: [self._node(name) for name in self.workers])
        monkeypatch.setattr(pool, "Head", lambda: SimpleNamespace(answers=lambda: True))
        monkeypatch.setattr(pool.WorkerPool, "_query", lambda _, node: node)
        monkeypatch.setattr(pool, "_ready", lambda asked, _: [node for node in asked if self.answers[node]])
        monkeypatch.setattr("ray.get", self._answer)
        monkeypatch.setattr(pool, "DISCOVERY_SECONDS", 0.0)

    def node(self, name: str, answer: object = None, *, workers: int = 1) -> None:
        self.workers[name], self.answers[name] = workers, answer

    def _node(self, name: str) -> dict[str, object]:
        return {"NodeID": name, "NodeManagerHostname": name, "Resources": {"CPU": self.workers[name]}}

    def _answer(self, node: str) -> object:
        answer = self.answers[node]
        if isinstance(answer, Exception):
            raise answer
        return answer


def right(machine: Machine = CORE) -> dict[str, object]:
    return {"versions": here(), "machine": machine}


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


def discovered() -> pool.WorkerPool:
    made = pool.WorkerPool("cpu", ())
    assert list(pool.wait_for_nodes(made)) == []
    return made


def test_nodes_that_are_silent_get_no_packs_until_they_answer(stage: Stage) -> None:
    stage.node("good", right(), workers=3)
    stage.node("silent")
    made = discovered()
    assert (list(made.healthy), made.workers) == (["good"], 3)
    stage.answers["silent"] = right()
    made.refresh()
    assert list(made.healthy) == ["good", "silent"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (raised(ImportError("no headcount here")), "cannot run headcount: ImportError: no headcount here"),
        ({"versions": {**here(), "jax": "0.1"}, "machine": None}, "as on the driver, got jax 0.1"),
    ],
)
def test_a_node_that_comes_late_and_is_wrong_is_left_out_in_one_line(stage, answer, reason) -> None:
    stage.node("good", right())
    made = discovered()
    stage.node("late", answer)
    (line,) = made.refresh()
    assert line.startswith("node late is excluded: ")
    assert reason in line
    assert made.refresh() == []
    assert list(made.healthy) == ["good"]


def test_where_all_nodes_are_wrong_the_sweep_is_refused_in_one_line(stage: Stage) -> None:
    stage.node("one", raised(ImportError("no headcount")))
    stage.node("two", raised(ImportError("no headcount")))
    with pytest.raises(InvalidInput, match="no node of the cluster can be used; one: cannot run"):
        list(pool.discover(()))


def test_a_node_whose_workers_crash_is_asked_again_and_then_left_out(stage: Stage) -> None:
    stage.node("good", right())
    stage.node("bad", WorkerCrashedError())
    made = discovered()
    lines = [line for _ in range(9) for line in made.refresh()]
    assert [line for line in lines if not line.startswith("node bad is excluded: no worker can start")] == []
    assert "bad" in made.excluded


def test_a_node_that_comes_late_with_too_little_memory_is_left_out(stage: Stage) -> None:
    stage.node("good", right())
    made = discovered()
    made.planned_memory = CORE.memory
    stage.node("like it", right(replace(CORE, memory=CORE.memory - 1)))
    stage.node("small", right(replace(CORE, memory=1 << 30)))
    (line,) = made.refresh()
    assert line == "node small is excluded: expected 8.0 GiB per worker as planned, got 1.0 GiB"


def test_a_node_too_small_for_a_member_does_not_refuse_the_sweep(stage: Stage) -> None:
    trials = tiny_grid(seed=(0, 1), steps=20).trials()
    stage.node("good", right())
    stage.node("small", right(replace(CORE, memory=1 << 10)))
    made = discovered()
    planning = run.plan_for_pool(trials, made, 60.0)
    assert next(planning).line.startswith("node small is excluded: heads = ")
    with pytest.raises(StopIteration) as ended:
        next(planning)
    assert sum(len(pack.trials) for pack in ended.value.value) == 2
    assert list(made.healthy) == ["good"]
    made.healthy["good"] = replace(CORE, memory=1 << 10)
    with pytest.raises(TooLarge, match="expected a member of at most"):
        list(run.plan_for_pool(trials, made, 60.0))


@pytest.mark.parametrize(
    ("nodes", "failure", "finished", "tries"),
    [
        ({"good": 1, "bad": 1}, run.Failure("DeviceUnavailable: no GPU", of_node=True), 6, range(99)),
        ({"good": 1, "bad": 8}, run.Failure("OSError: no space left"), 6, range(7)),
        ({"bad": 1}, run.Failure("ValueError: no"), 0, [18]),
    ],
    ids=["costs nothing where the node is to blame", "another node", "given up"],
)
def test_a_pack_that_failed_is_tried_again(stage, nodes, failure, finished, tries, monkeypatch) -> None:
    """Packs come back at once, from the node `bad` with a failure."""
    for name, workers in nodes.items():
        stage.node(name, right(), workers=workers)
    failed = []

    def fetched(reference, _):
        if reference[1] == "good":
            return worker.Trained(())
        failed.append(reference)
        return failure

    monkeypatch.setattr(pool.WorkerPool, "submit", lambda _, pack, node, keep_models: (pack, node))
    monkeypatch.setattr(run._Dispatcher, "_finished", lambda flight: list(flight.in_flight)[:1])
    monkeypatch.setattr(run, "REFRESH_SECONDS", 0.0)
    monkeypatch.setattr(run, "fetched", fetched)
    trials = tiny_grid(seed=tuple(range(6)), steps=20).trials()
    store = SimpleNamespace(keep_file=None, write=lambda *_: None)
    dispatcher = run._Dispatcher(discovered(), store, False)
    events = list(dispatcher.run([pack for trial in trials for pack in plan([trial], CORE)]))
    assert [sum(isinstance(event, kind) for event in events) for kind in (Finished, GivenUp)] == [
        finished,
        6 - finished,
    ]
    assert len(failed) in tries
    lines = {event.line for event in events if isinstance(event, FileProblem)}
    assert lines <= {"node bad is excluded: DeviceUnavailable: no GPU"}


def test_a_failure_is_answered_without_the_places_of_a_traceback() -> None:
    text = "it failed.\n\nTraceback (most recent call last):\n  File \"/a/b.py\", line 1\nKeyError: 'x'\n"
    assert reason_of(raised(RuntimeError(text))) == "KeyError: 'x'"
    assert reason_of(ValueError("one\n two")) == "ValueError: one two"


@pytest.mark.parametrize(
    ("error", "of_node"),
    [
        (raised(worker.DeviceUnavailable("no GPU")), True),
        (TaskUnschedulableError("the node is gone"), True),
        (raised(ValueError("no")), False),
        (WorkerCrashedError(), False),
    ],
)
def test_who_is_to_blame_for_a_failure(error, of_node, monkeypatch) -> None:
    monkeypatch.setattr("ray.get", Mock(side_effect=error))
    (pack,) = plan(tiny_grid(seed=(0,), steps=20).trials(), CORE)
    failure = run.fetched(None, pack)
    assert isinstance(failure, run.Failure)
    assert failure.of_node is of_node


@pytest.fixture
def platforms():
    before = jax.config.values["jax_platforms"]
    yield
    jax.config.update("jax_platforms", before)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (CORE, "JAX finds no GPU but a core"),
        (Machine("gpu", "2 × a card", 2, 1 << 30), "JAX finds 2 GPUs"),
        (RuntimeError("no CUDA"), "JAX cannot use its GPU: no CUDA"),
    ],
)
def test_a_worker_without_its_gpu_trains_nothing(found, reason, monkeypatch, platforms) -> None:
    monkeypatch.setattr(worker, "this_machine", Mock(side_effect=[found]))
    monkeypatch.setenv(*worker.AS_NEEDED)
    with pytest.raises(worker.DeviceUnavailable, match=reason):
        worker.machine_of_worker.__wrapped__("gpu")


def test_a_worker_on_a_gpu_leaves_memory_to_the_one_before_it(monkeypatch, platforms) -> None:
    monkeypatch.setattr(worker, "this_machine", lambda: Machine("gpu", "a card", 1, 1 << 30))
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "x")
    monkeypatch.delenv("XLA_PYTHON_CLIENT_PREALLOCATE")
    jax.config.update("jax_platforms", None)
    assert worker.machine_of_worker.__wrapped__("gpu").lanes == 1
    assert worker.os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
    assert jax.config.values["jax_platforms"] == "cuda,cpu"


def test_a_head_that_does_not_come_back_is_lost(monkeypatch) -> None:
    head = connection.Head.__new__(connection.Head)
    head.address, head._last_answer = "head:6379", connection.time.monotonic()
    monkeypatch.setattr(connection, "_reach", Mock(side_effect=ConnectionRefusedError))
    assert not head.answers()
    head._last_answer -= 60
    with pytest.raises(ClusterLost, match="the head of the cluster, head:6379, has not answered for 60 s"):
        head.answers()


def test_a_cluster_of_our_own_has_a_token_that_nobody_keeps():
    """And what the user has chosen stays."""
    ours, by_path = {}, {"RAY_AUTH_TOKEN_PATH": "mine"}
    for environment in (ours, by_path):
        _set_token(environment)
        assert environment["RAY_AUTH_MODE"] == "token"
    assert len(ours["RAY_AUTH_TOKEN"]) >= 32
    assert "RAY_AUTH_TOKEN" not in by_path
    for chosen in ({"RAY_AUTH_MODE": "disabled"}, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "mine"}):
        kept = dict(chosen)
        _set_token(kept)
        assert kept == chosen

import threading
import time
import warnings
from unittest.mock import Mock

import pytest
from tiny import tiny_grid

from headcount.engine.train import PackTraining
from headcount.results.lock import Locked
from headcount.results.store import Store
from headcount.running.executor import Advanced, Finished, Pace, Planned, run
from headcount.running.sweep import sweep
from headcount.trials.machine import Machine

MACHINE = Machine("cpu", "made up", 1, 8 << 30)


def workers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "headcount-run"]


@pytest.fixture
def slow_chunks(monkeypatch):
    """Chunks of one evaluation that take a moment, so that a run is caught within one."""
    chunk = PackTraining.chunk

    def slow(self: PackTraining) -> None:
        self._periods = 1
        chunk(self)
        time.sleep(0.3)

    monkeypatch.setattr(PackTraining, "chunk", slow)


@pytest.mark.usefixtures("slow_chunks")
def test_closing_the_generator_ends_its_worker_and_the_next_run_goes_on(tmp_path):
    store, trials = Store(tmp_path), tiny_grid(steps=80).trials()
    for _ in range(2):
        events = run(trials, store, machine=MACHINE)
        assert any(isinstance(event, Advanced) for event in events)
        events.close()
        assert not workers(), "a worker still writes after the generator was closed"
    steps = [event.step for event in run(trials, store, machine=MACHINE) if isinstance(event, Advanced)]
    assert steps[0] > 10, "it goes on from where it was closed"
    assert len(store.frame()) == len(trials)


@pytest.mark.usefixtures("slow_chunks")
def test_a_second_run_in_one_process_is_refused_and_nothing_is_lost(tmp_path):
    store, trials = Store(tmp_path), tiny_grid().trials()
    events = run(trials, store, machine=MACHINE)
    assert isinstance(next(events), Planned)
    with pytest.raises(Locked, match="an earlier run of this process"):
        list(run(trials, Store(tmp_path), machine=MACHINE))
    assert any(isinstance(event, Finished) for event in events)
    assert len(store.frame()) == len(trials)


def test_what_goes_wrong_in_the_worker_is_raised_to_the_caller(tmp_path, monkeypatch):
    monkeypatch.setattr(Store, "write", Mock(side_effect=ValueError("no luck")))
    with pytest.raises(ValueError, match="no luck"):
        list(run(tiny_grid().trials(), Store(tmp_path), machine=MACHINE))
    assert not workers()


def test_a_run_reports_its_plan_its_progress_and_its_rows(tmp_path):
    trials = tiny_grid(seed=(0, 1)).trials()
    first, *_, last = run(trials, Store(tmp_path), machine=MACHINE)
    assert isinstance(first, Planned) and isinstance(last, Finished)
    assert {row.trial for row in last.rows} == {trial.id for trial in trials}
    (again,) = run(trials, Store(tmp_path), machine=MACHINE)
    assert isinstance(again, Planned)
    assert (again.packs, again.finished.keys()) == ((), {trial.id for trial in trials})


def test_without_its_model_a_trial_is_not_finished_where_models_are_kept(tmp_path):
    trials, store = tiny_grid().trials(), Store(tmp_path)
    for keep_models in (False, True):
        list(run(trials, store, machine=MACHINE, keep_models=keep_models))
        assert store.has_kept(trials[0]) == keep_models
    assert len(store.frame()) == 1


def test_sweep_names_a_damaged_file_in_a_warning(tmp_path):
    trials = tiny_grid().trials()
    whole = sweep(trials, tmp_path)
    (shard,) = (tmp_path / "shards").iterdir()
    shard.write_bytes(b"")
    with pytest.warns(UserWarning, match=f"{shard}: damaged"):
        again = sweep(trials, tmp_path)
    assert again.drop(columns="seconds").equals(whole.drop(columns="seconds"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sweep(trials, str(tmp_path))


def test_saving_takes_no_more_than_its_share_of_the_time():
    pace = Pace(0.1)
    assert pace.due, "the first is due at once"
    with pace:
        time.sleep(0.02)
    assert not pace.due
    pace.ended -= 1.0
    assert pace.due

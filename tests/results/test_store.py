import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from merge_folders import row, write_folder
from tiny import tiny_grid

from headcount.engine.train import initial_state
from headcount.errors import StorageError
from headcount.results import store as module
from headcount.results.files import this_host, write_whole
from headcount.results.lock import LOCK, Holder, Locked
from headcount.results.store import Store
from headcount.trials.machine import this_machine
from headcount.trials.pack import plan

# Files


def test_two_threads_that_write_one_path_never_fail(tmp_path):
    path = tmp_path / "file"

    def write(content: bytes) -> None:
        for _ in range(80):
            write_whole(path, lambda file: file.write(content))

    with ThreadPoolExecutor() as pool:
        list(pool.map(write, (bytes(4096), b"\x01" * 4096)))
    assert path.read_bytes() in (bytes(4096), b"\x01" * 4096)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, OSError])
def test_whatever_goes_wrong_while_writing_nothing_is_left(error, tmp_path):
    def fail(file: object) -> None:
        raise error("no luck")

    with pytest.raises(StorageError if error is OSError else error):
        write_whole(tmp_path / "file", fail)
    assert not list(tmp_path.iterdir())


def test_the_folder_is_flushed_after_the_rename(tmp_path, monkeypatch):
    flushed, flush = [], os.fsync

    def note(descriptor: int) -> None:
        flushed.append((Path(f"/proc/self/fd/{descriptor}").readlink(), (tmp_path / "file").exists()))
        flush(descriptor)

    monkeypatch.setattr("os.fsync", note)
    write_whole(tmp_path / "file", lambda file: file.write(b"1"))
    assert flushed[-1] == (tmp_path.resolve(), True)


# The lock


def test_a_second_writer_in_this_process_is_refused(tmp_path):
    store = Store(tmp_path / "runs")
    with store.writing():
        with pytest.raises(Locked, match="runs: is being written to by an earlier run of this process, "):
            store.writing().__enter__()
        assert (tmp_path / "runs" / LOCK).is_file()
    assert not list((tmp_path / "runs").iterdir())
    with store.writing():
        pass


def test_the_lock_of_another_machine_is_not_broken(tmp_path):
    """Its process cannot be seen from here, and not every network file system shares locks."""
    held = '{"host": "elsewhere", "process": 7, "started": "1", "since": "Monday"}'
    (tmp_path / LOCK).write_text(held)
    with pytest.raises(Locked, match=f"process 7 on elsewhere.*remove {tmp_path / LOCK}"):
        Store(tmp_path).writing().__enter__()
    assert (tmp_path / LOCK).read_text() == held


@pytest.mark.parametrize(
    "held", ["", "{", "[1]", '{"host": 3}', '{"host": "a", "process": "b", "started": "", "since": ""}']
)
def test_a_lock_that_names_nobody_is_taken_over(held, tmp_path):
    (tmp_path / LOCK).write_text(held)
    with Store(tmp_path).writing():
        assert json.loads((tmp_path / LOCK).read_bytes())["process"] == os.getpid()


def test_without_locks_of_the_file_system_the_name_of_the_holder_counts(tmp_path, monkeypatch):
    monkeypatch.setattr("headcount.results.lock.fcntl", None)
    with Store(tmp_path).writing(), pytest.raises(Locked, match="an earlier run of this process"):
        Store(tmp_path).writing().__enter__()
    earlier = Holder(this_host(), os.getpid(), started="long ago", since="Monday")
    assert not earlier.is_alive, "a later process of the same number"
    assert not Holder(this_host(), 2**22 + 1, started="", since="Monday").is_alive


def test_a_file_where_the_folder_should_be_is_named_as_it_was_given(tmp_path):
    (folder := tmp_path / "afile").write_text("precious")
    for prepare in (Store(folder).prepare, Store(folder).writing().__enter__):
        with pytest.raises(StorageError, match=f"^{folder}: "):
            prepare()
    assert folder.read_text() == "precious"


# Rows and models of another version


def test_rows_of_an_earlier_algorithm_are_named_in_one_line_and_finish_nothing(tmp_path, monkeypatch):
    write_folder(tmp_path / "runs", [row(0), row(1), row(2)])
    monkeypatch.setattr(module, "is_current", lambda spec: spec == row(1).spec)
    store = Store(tmp_path / "runs")
    assert set(store.prepare()) == {row(1).trial}
    (line,) = store.problems
    assert "2 trials of an earlier version, kept but not used" in line
    assert len(store.frame()) == 1, "versions are never mixed"


def test_a_checkpoint_of_another_algorithm_is_named_and_set_aside(tmp_path, monkeypatch):
    (pack,) = plan(tiny_grid().trials(), this_machine())
    store = Store(tmp_path)
    store.save(pack, initial_state(pack), seconds=1.0)
    assert store.load(pack) is not None
    monkeypatch.setattr(module, "ALGORITHM", 2)
    assert store.load(pack) is None
    (line,) = store.problems
    assert "of an earlier version, set aside" in line
    (aside,) = store.checkpoints.iterdir()
    assert aside.suffix == ".old"
    np.savez(store.checkpoints / f"{pack.id}.npz", seconds=1.0)  # as before versions were kept
    store.prepare()
    assert len(store.problems) == 2


def test_a_shard_is_never_written_over(tmp_path):
    (pack,) = plan(tiny_grid().trials(), this_machine())
    store = Store(tmp_path)
    for number in range(3):
        store.write(pack, [row(number)])
    held = [pq.read_table(path)["trial"].to_pylist() for path in store.shards.iterdir()]
    assert sorted(held) == [[row(number).trial] for number in range(3)]

import gc
import os
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from robust_support import Command, Result, checkpoints, marks, numbers, same, shards

from headcount.commands.specfile import load
from headcount.engine.train import PackTraining
from headcount.results.store import Store, read_results
from headcount.trials.machine import this_machine
from headcount.trials.pack import Pack, plan

pytestmark = pytest.mark.usefixtures("quick_page")

Damage = Callable[[Path], Path]
HOST = socket.gethostname().partition(".")[0]
DEAD = 2**22 + 1  # above the largest process id that Linux gives


@pytest.fixture
def folder(finished: tuple[Path, Path], tmp_path: Path) -> Path:
    # A path that is long, as real ones are: a line about it must stay one line.
    copy = tmp_path / "results of a long and careful measurement on the machine upstairs" / "runs"
    shutil.copytree(finished[1], copy)
    return copy


def changed(path: Path, change: Callable[[bytes], bytes]) -> Path:
    path.write_bytes(change(path.read_bytes()))
    return path


SHARD_DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "cut short": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "zeros": lambda data: bytes(len(data)),  # as file systems leave blocks that were never written
}


def notes(folder: Path) -> Path:
    (path := folder / "shards" / "notes.txt").write_text("remember the milk")
    return path


def foreign_parquet(folder: Path) -> Path:
    pq.write_table(pa.table({"price": [1.5, 2.5]}), path := folder / "shards" / "prices.parquet")
    return path


def folder_named_like_a_shard(folder: Path) -> Path:
    (path := folder / "shards" / "old.parquet").mkdir()
    return path


def broken_link(folder: Path) -> Path:
    (path := folder / "shards" / "elsewhere.parquet").symlink_to(folder / "nowhere.parquet")
    return path


def check_one_line_names(path: Path, result: Result) -> None:
    assert result.code == 0, result.err
    assert len(result.lines) == 1, f"not one line about one file:\n{result.err}"
    assert str(path) in result.err


@pytest.mark.parametrize("name", SHARD_DAMAGE)
def test_a_damaged_shard_is_named_by_report_and_set_aside_by_sweep(
    name: str, finished: tuple[Path, Path], folder: Path, command: Command
) -> None:
    lost = set(pq.read_table(shards(folder)[0])["trial"].to_pylist())
    path, whole, page = shards(folder)[0], numbers(folder), folder / "report.html"
    remains = changed(path, SHARD_DAMAGE[name]).read_bytes()
    before = marks(folder)
    result = command("report", folder)
    check_one_line_names(path, result)
    assert {**marks(folder), page: None} == {**before, page: None}, "report changes nothing"
    same(numbers(folder), whole[~whole["trial"].isin(lost)].reset_index(drop=True))
    assert f"{len(whole) - len(lost)} members" in result.out

    other = marks(folder)[shards(folder)[1]]
    result = command("sweep", finished[0], "--out", folder, "--json")
    check_one_line_names(path, result)
    assert result.json["members"] == 10
    assert path.with_name(path.name + ".damaged").read_bytes() == remains
    assert marks(folder)[shards(folder)[1]] == other, "a whole shard was written again"
    same(numbers(folder), whole)
    assert command("sweep", finished[0], "--out", folder).err == "", "what is set aside is not named again"


@pytest.mark.parametrize("add", [notes, foreign_parquet, folder_named_like_a_shard, broken_link])
def test_a_foreign_file_is_named_left_alone_and_does_not_matter(
    add: Damage, finished: tuple[Path, Path], folder: Path, command: Command
) -> None:
    path, page = add(folder), folder / "report.html"
    before = marks(folder)
    for arguments in (["report"], ["sweep", finished[0], "--out"]):
        check_one_line_names(path, command(*arguments, folder))
        assert {**marks(folder), page: None} == {**before, page: None}
        assert path.is_symlink() or path.exists()
    same(numbers(folder), numbers(finished[1]))


def test_a_shard_with_other_columns_is_not_written_over(
    finished: tuple[Path, Path], folder: Path, command: Command
) -> None:
    """Another version's shard, under the name that this version gives to the same pack."""
    path = shards(folder)[0]
    pq.write_table(pq.read_table(path).drop_columns(["status"]), path)
    kept = path.read_bytes()
    assert command("sweep", finished[0], "--out", folder).code == 0
    same(numbers(folder), numbers(finished[1]))
    assert kept in [file.read_bytes() for file in folder.rglob("*") if file.is_file()], "its rows are gone"


def test_a_shard_without_values_is_not_believed(
    finished: tuple[Path, Path], folder: Path, command: Command
) -> None:
    path = shards(folder)[0]
    shard = pq.read_table(path)
    place = shard.schema.get_field_index("heads")
    pq.write_table(shard.set_column(place, shard.field(place), pa.nulls(len(shard), pa.int64())), path)
    check_one_line_names(path, command("report", folder))


def test_no_flipped_bit_of_a_shard_goes_unnoticed(folder: Path) -> None:
    path, whole = shards(folder)[0], read_results(folder)
    data = path.read_bytes()
    unnoticed = []
    for place in range(4, len(data), len(data) // 120):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :])
        store = Store(folder)
        if not store.frame().equals(whole) and not any(str(path) in line for line in store.problems):
            unnoticed.append(place)
    assert not unnoticed, f"other numbers, and no word of it: {len(unnoticed)} of 120 flips"


def leftover(folder: Path, process: int, *, more: str = ".89abcdef") -> Path:
    (path := folder / f"0123456789abcdef.parquet.{HOST}.{process}{more}.partial").write_bytes(b"PAR1")
    return path


def test_what_a_dead_process_left_half_written_is_cleared_away_by_sweep_alone(
    finished: tuple[Path, Path], folder: Path, command: Command
) -> None:
    (folder / "checkpoints").mkdir(exist_ok=True)
    left = [leftover(folder / place, DEAD) for place in ("shards", "checkpoints", ".")]
    left.append(leftover(folder / "shards", DEAD, more=""))  # as an earlier version named it
    living = leftover(folder / "shards", os.getppid())
    assert command("report", folder).err == ""
    assert all(path.exists() for path in left), "report never removes"
    assert command("sweep", finished[0], "--out", folder).err == ""
    assert not any(path.exists() for path in left)
    assert living.read_bytes() == b"PAR1"
    same(numbers(folder), numbers(finished[1]))


@pytest.fixture
def halfway(finished: tuple[Path, Path], folder: Path) -> tuple[Pack, Path]:
    """The folder as a kill leaves it: its first pack is under way, a quarter of its steps made."""
    pack = plan(load(finished[0]), this_machine())[0]
    (folder / "shards" / f"{pack.id}.parquet").unlink()
    training = PackTraining(pack, this_machine())
    training.chunk()
    Store(folder).save(pack, training.state, seconds=8000.0)
    return pack, checkpoints(folder)[0]


def test_a_whole_checkpoint_is_gone_on_from(
    halfway: tuple[Pack, Path], finished: tuple[Path, Path], folder: Path, command: Command
) -> None:
    pack, path = halfway
    result = command("sweep", finished[0], "--out", folder)
    assert (result.code, result.err) == (0, "")
    frame = read_results(folder)
    mine = frame["trial"].isin([trial.id for trial in pack.trials])
    assert (frame["seconds"][mine] > 1000.0).all(), "the time spent before the kill counts"
    assert not path.exists()
    same(numbers(folder), numbers(finished[1]))


def last_entry(data: bytes) -> int:
    """Where the list of contents of a zip file speaks of its last file."""
    return data.rindex(b"PK\x01\x02")


def with_byte(data: bytes, place: int, value: int) -> bytes:
    return data[:place] + bytes([value]) + data[place + 1 :]


CHECKPOINT_DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "cut short": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "a number changed": lambda data: with_byte(data, len(data) // 3, data[len(data) // 3] ^ 0x40),
    "encrypted": lambda data: with_byte(data, last_entry(data) + 8, 1),
}


@pytest.mark.parametrize("name", CHECKPOINT_DAMAGE)
def test_a_damaged_checkpoint_is_named_and_set_aside_and_its_pack_starts_again(
    name: str, halfway: tuple[Pack, Path], finished: tuple[Path, Path], folder: Path, command: Command
) -> None:
    path = changed(halfway[1], CHECKPOINT_DAMAGE[name])
    remains = path.read_bytes()
    check_one_line_names(path, command("sweep", finished[0], "--out", folder))
    assert path.with_name(path.name + ".damaged").read_bytes() == remains
    same(numbers(folder), numbers(finished[1]))


def test_no_flipped_bit_of_a_checkpoint_goes_unnoticed(halfway: tuple[Pack, Path], folder: Path) -> None:
    pack, path = halfway
    data, store = path.read_bytes(), Store(folder)
    whole = store.load(pack)
    assert whole is not None
    for place in range(0, len(data), len(data) // 60):
        path.write_bytes(with_byte(data, place, data[place] ^ 0x04))
        loaded = store.load(pack)
        if loaded is None:
            assert str(path) in store.problems.pop()
        else:
            for leaf, expected in zip(jax.tree.leaves(loaded[0]), jax.tree.leaves(whole[0]), strict=True):
                np.testing.assert_array_equal(leaf, expected, strict=True, err_msg=f"byte {place}")


def test_a_damaged_checkpoint_is_closed_again(
    halfway: tuple[Pack, Path], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not whenever Python gets round to it, with a warning."""
    complaints: list[object] = []
    changed(halfway[1], CHECKPOINT_DAMAGE["cut short"])
    with monkeypatch.context() as patch:
        patch.setattr(sys, "unraisablehook", lambda complaint: complaints.append(complaint.exc_value))
        assert Store(folder).load(halfway[0]) is None
        gc.collect()
    assert not complaints


def test_a_checkpoint_of_a_finished_pack_is_cleared_away(
    finished: tuple[Path, Path], folder: Path, command: Command
) -> None:
    """As left by a kill right after the pack's shard was written, before its checkpoint was dropped."""
    pack = plan(load(finished[0]), this_machine())[0]
    Store(folder).save(pack, PackTraining(pack, this_machine()).state, seconds=1.0)
    before = marks(folder / "shards")
    assert command("sweep", finished[0], "--out", folder).code == 0
    assert marks(folder / "shards") == before
    assert not checkpoints(folder)

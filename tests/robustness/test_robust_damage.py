import gc
import os
import sys
from pathlib import Path

import jax
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from robust_support import Result, checkpoints, marks, numbers, same, shards

from headcount.commands.specfile import load
from headcount.engine.train import PackTraining
from headcount.results.files import this_host
from headcount.results.store import Store, read_results
from headcount.trials.machine import this_machine
from headcount.trials.pack import plan

pytestmark = pytest.mark.usefixtures("quick_page")

DEAD = 2**22 + 1  # above the largest process id that Linux gives


def check_one_line_names(path: Path, result: Result) -> None:
    assert result.code == 0, result.err
    assert len(result.lines) == 1, f"not one line about one file:\n{result.err}"
    assert str(path) in result.err


def all_but_the_page(folder: Path) -> dict[Path, object]:
    return {path: mark for path, mark in marks(folder).items() if path.name != "report.html"}


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: data[: len(data) // 2], id="cut short"),
        pytest.param(lambda data: b"", id="empty"),
        pytest.param(lambda data: bytes(len(data)), id="blocks that were never written"),
    ],
)
def test_a_damaged_shard_is_named_by_report_and_set_aside_by_sweep(damage, spec, whole, folder, command):
    path, other = shards(folder)
    lost, complete = set(pq.read_table(path)["trial"].to_pylist()), numbers(whole)
    path.write_bytes(remains := damage(path.read_bytes()))
    before = all_but_the_page(folder)
    result = command("report", folder)
    check_one_line_names(path, result)
    assert all_but_the_page(folder) == before, "report changes nothing"
    same(folder, complete[~complete["trial"].isin(lost)].reset_index(drop=True))
    assert f"{len(complete) - len(lost)} members" in result.out

    result = command("sweep", spec, "--out", folder, "--json")
    check_one_line_names(path, result)
    assert result.json["members"] == 10
    assert path.with_name(path.name + ".damaged").read_bytes() == remains
    assert marks(folder)[other] == before[other], "a whole shard was written again"
    same(folder, whole)
    assert command("sweep", spec, "--out", folder).err == "", "what is set aside is not named again"


@pytest.mark.parametrize(
    ("name", "add"),
    [
        ("notes.txt", lambda path: path.write_text("remember the milk")),
        ("prices.parquet", lambda path: pq.write_table(pa.table({"price": [1.5, 2.5]}), path)),
        ("old.parquet", lambda path: path.mkdir()),
        ("elsewhere.parquet", lambda path: path.symlink_to("nowhere.parquet")),
    ],
)
def test_a_foreign_file_is_named_left_alone_and_does_not_matter(name, add, spec, whole, folder, command):
    add(path := folder / "shards" / name)
    (folder / "notes.txt").write_text("beside the shards, anything may lie")
    before = all_but_the_page(folder)
    for arguments in (["report"], ["sweep", spec, "--out"]):
        result = command(*arguments, folder)
        check_one_line_names(path, result)
        assert "headcount's, left alone" in result.err
        assert all_but_the_page(folder) == before
        assert path.is_symlink() or path.exists()
    same(folder, whole)


def test_a_shard_with_other_columns_is_not_written_over(spec, whole, folder, command):
    """Another version's shard, under the name that this version gives to the same pack."""
    path = shards(folder)[0]
    pq.write_table(pq.read_table(path).drop_columns(["status"]), path)
    kept = path.read_bytes()
    assert command("sweep", spec, "--out", folder).code == 0
    same(folder, whole)
    assert kept in [file.read_bytes() for file in shards(folder)], "its rows are gone"


def test_a_shard_without_values_is_not_believed(folder, command):
    path = shards(folder)[0]
    shard = pq.read_table(path)
    place = shard.schema.get_field_index("heads")
    pq.write_table(shard.set_column(place, shard.field(place), pa.nulls(len(shard), pa.int64())), path)
    check_one_line_names(path, command("report", folder))


def with_flipped_bit(data: bytes, place: int, bit: int) -> bytes:
    return data[:place] + bytes([data[place] ^ bit]) + data[place + 1 :]


def test_no_flipped_bit_of_a_shard_goes_unnoticed(folder):
    path, complete = shards(folder)[0], read_results(folder)
    data = path.read_bytes()
    unnoticed = []
    for place in range(4, len(data), len(data) // 120):
        path.write_bytes(with_flipped_bit(data, place, 0x10))
        store = Store(folder)
        if not store.frame().equals(complete) and not any(str(path) in line for line in store.problems):
            unnoticed.append(place)
    assert not unnoticed, f"other numbers, and no word of it: {len(unnoticed)} of 120 flips"


def test_what_a_dead_process_left_half_written_is_cleared_away_by_sweep_alone(spec, whole, folder, command):
    (folder / "checkpoints").mkdir(exist_ok=True)
    name = f"0123456789abcdef.parquet.{this_host()}."
    left = [folder / place / f"{name}{DEAD}.89abcdef.partial" for place in ("shards", "checkpoints", ".")]
    left.append(folder / "shards" / f"{name}{DEAD}.partial")  # as an earlier version named it
    living = folder / "shards" / f"{name}{os.getppid()}.89abcdef.partial"
    for path in (*left, living):
        path.write_bytes(b"PAR1")
    assert command("report", folder).err == ""
    assert all(path.exists() for path in left), "report never removes"
    assert command("sweep", spec, "--out", folder).err == ""
    assert not any(path.exists() for path in left)
    assert living.read_bytes() == b"PAR1"
    same(folder, whole)


@pytest.fixture
def pack(spec):
    return plan(load(spec), this_machine())[0]


@pytest.fixture
def checkpoint(pack, folder):
    """The folder as a kill leaves it: its first pack is under way, a quarter of its steps made."""
    (folder / "shards" / f"{pack.id}.parquet").unlink()
    training = PackTraining(pack, this_machine())
    training.chunk()
    Store(folder).save(pack, training.state, seconds=8000.0)
    return checkpoints(folder)[0]


def test_a_whole_checkpoint_is_gone_on_from(checkpoint, pack, spec, whole, folder, command):
    result = command("sweep", spec, "--out", folder)
    assert (result.code, result.err) == (0, "")
    frame = read_results(folder)
    mine = frame["trial"].isin([trial.id for trial in pack.trials])
    assert (frame["seconds"][mine] > 1000.0).all(), "the time spent before the kill counts"
    assert not checkpoint.exists()
    same(folder, whole)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: data[: len(data) // 2], id="cut short"),
        pytest.param(lambda data: with_flipped_bit(data, len(data) // 3, 0x40), id="a number changed"),
        pytest.param(lambda data: with_flipped_bit(data, data.rindex(b"PK\x01\x02") + 8, 1), id="encrypted"),
    ],
)
def test_a_damaged_checkpoint_is_named_and_set_aside_and_its_pack_starts_again(
    damage, checkpoint, spec, whole, folder, command
):
    checkpoint.write_bytes(remains := damage(checkpoint.read_bytes()))
    check_one_line_names(checkpoint, command("sweep", spec, "--out", folder))
    assert checkpoint.with_name(checkpoint.name + ".damaged").read_bytes() == remains
    same(folder, whole)


def test_no_flipped_bit_of_a_checkpoint_goes_unnoticed(checkpoint, pack, folder):
    data, store = checkpoint.read_bytes(), Store(folder)
    complete = store.load(pack)
    assert complete is not None
    for place in range(0, len(data), len(data) // 60):
        checkpoint.write_bytes(with_flipped_bit(data, place, 0x04))
        loaded = store.load(pack)
        if loaded is None:
            assert str(checkpoint) in store.problems.pop()
        else:
            jax.tree.map(np.testing.assert_array_equal, loaded[0], complete[0])


def test_a_damaged_checkpoint_is_closed_again(checkpoint, pack, folder, monkeypatch):
    """Not whenever Python gets round to it, with a warning."""
    complaints: list[object] = []
    checkpoint.write_bytes(checkpoint.read_bytes()[:1000])
    with monkeypatch.context() as patch:
        patch.setattr(sys, "unraisablehook", lambda complaint: complaints.append(complaint.exc_value))
        assert Store(folder).load(pack) is None
        gc.collect()
    assert not complaints


def test_a_checkpoint_of_a_finished_pack_is_cleared_away(pack, spec, folder, command):
    """As left by a kill right after the pack's shard was written, before its checkpoint was dropped."""
    Store(folder).save(pack, PackTraining(pack, this_machine()).state, seconds=1.0)
    before = marks(folder / "shards")
    assert command("sweep", spec, "--out", folder).code == 0
    assert marks(folder / "shards") == before
    assert not checkpoints(folder)

import errno
import os
import shutil
from pathlib import Path

import pytest
from robust_support import Command, Disk, Result, marks, numbers, same, shards, write

from headcount.results.store import Store


def check_refused(result: Result, *, names: Path, why: int) -> None:
    assert result.code == 2
    assert len(result.lines) == 1, result.err
    assert result.err.startswith("headcount: error: ")
    assert str(names) in result.err
    assert os.strerror(why) in result.err
    assert result.out == ""


def with_one_shard(finished: Path, folder: Path) -> Path:
    """A folder in which the larger pack is finished and the other is not."""
    (folder / "shards").mkdir(parents=True)
    for shard in shards(finished):
        if shard.stat().st_size == max(path.stat().st_size for path in shards(finished)):
            shutil.copy(shard, folder / "shards")
    return folder


# Room for nothing; for a checkpoint or less; for the shard, but not for the page.
@pytest.mark.parametrize("room", [0, 12 << 10, 80 << 10])
def test_a_full_disk_is_named_and_the_sweep_goes_on_once_there_is_room(
    room: int, disk: Disk, finished: tuple[Path, Path], command: Command
) -> None:
    spec, whole = finished
    folder = with_one_shard(whole, disk.folder / "runs")
    before = marks(folder / "shards")
    disk.fill(leave=room)
    check_refused(command("sweep", spec, "--out", folder), names=folder, why=errno.ENOSPC)
    after = marks(folder / "shards")
    assert {path: after.get(path) for path in before} == before
    assert not [path for path in folder.rglob("*") if path.suffix == ".partial"]
    store = Store(folder)
    assert len(store.frame()) == (10 if room == 80 << 10 else 8)
    assert not store.problems

    disk.empty()
    again = command("sweep", spec, "--out", folder)
    assert (again.code, again.err) == (0, "")
    after = marks(folder / "shards")
    assert {path: after.get(path) for path in before} == before, "a finished shard was written again"
    same(numbers(folder), numbers(whole))


def test_a_full_disk_keeps_the_page_of_before(
    disk: Disk, finished: tuple[Path, Path], command: Command
) -> None:
    folder = with_one_shard(finished[1], disk.folder / "runs")
    page = write(folder / "report.html", "the page of before")
    disk.fill(leave=0)
    check_refused(command("report", folder), names=page, why=errno.ENOSPC)
    assert page.read_text() == "the page of before"


@pytest.mark.usefixtures("quick_page")
def test_a_read_only_disk_is_named_and_works_again_once_it_may_be_written(
    disk: Disk, finished: tuple[Path, Path], command: Command
) -> None:
    spec, whole = finished
    folder = with_one_shard(whole, disk.folder / "runs")
    before = marks(folder)
    disk.remount("ro")
    check_refused(command("sweep", spec, "--out", folder), names=folder, why=errno.EROFS)
    check_refused(command("report", folder), names=folder / "report.html", why=errno.EROFS)
    new = disk.folder / "new"
    check_refused(command("sweep", spec, "--out", new), names=new, why=errno.EROFS)
    assert marks(folder) == before
    disk.remount("rw")
    assert command("sweep", spec, "--out", folder).code == 0
    same(numbers(folder), numbers(whole))


@pytest.mark.usefixtures("quick_page")
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("shards/", errno.EROFS),
        ("checkpoints/", errno.ENOSPC),
        (".parquet", errno.EDQUOT),
        (".npz", errno.EIO),
        ("report.html", errno.ENOSPC),
    ],
)
def test_a_disk_that_fails_at_any_file_is_one_line(
    name: str,
    why: int,
    finished: tuple[Path, Path],
    tmp_path: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For machines on which nobody may mount: the same, pretended where a file is flushed to disk."""
    spec, whole = finished
    folder = with_one_shard(whole, tmp_path / "runs")
    before = marks(folder)
    flush = os.fsync

    def fail(descriptor: int) -> None:
        if name in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
            raise OSError(why, os.strerror(why))
        flush(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", fail)
        check_refused(command("sweep", spec, "--out", folder), names=folder, why=why)
    assert not list(folder.rglob("*.partial"))
    after = marks(folder)
    assert {path: after.get(path) for path in before} == before
    assert command("sweep", spec, "--out", folder).code == 0
    same(numbers(folder), numbers(whole))


@pytest.mark.parametrize("below", ["", "deeper/still"])
def test_a_file_where_the_folder_should_be(
    below: str, finished: tuple[Path, Path], tmp_path: Path, command: Command
) -> None:
    file = write(tmp_path / "taken", "precious")
    check_refused(command("sweep", finished[0], "--out", file / below), names=file, why=errno.ENOTDIR)
    assert file.read_text() == "precious"


def test_report_of_a_file_says_that_it_is_one(tmp_path: Path, command: Command) -> None:
    file = write(tmp_path / "taken", "precious")
    result = command("report", file)
    assert result.code == 2
    assert len(result.lines) == 1
    assert str(file) in result.err
    assert "no such folder" not in result.err, "there is something of that name, and no sweep can replace it"


@pytest.mark.parametrize("part", ["shards", "checkpoints"])
def test_a_file_where_a_part_of_the_folder_should_be(
    part: str, finished: tuple[Path, Path], tmp_path: Path, command: Command
) -> None:
    file = write(tmp_path / "runs" / part, "precious")
    check_refused(command("sweep", finished[0], "--out", tmp_path / "runs"), names=file, why=errno.EEXIST)
    assert file.read_text() == "precious"


@pytest.mark.usefixtures("quick_page")
def test_a_folder_where_the_page_should_be(
    finished: tuple[Path, Path], tmp_path: Path, command: Command
) -> None:
    folder = with_one_shard(finished[1], tmp_path / "runs")
    (folder / "report.html").mkdir()
    check_refused(command("report", folder), names=folder / "report.html", why=errno.EISDIR)


@pytest.mark.parametrize("verb", ["sweep", "report"])
def test_a_name_too_long_for_any_disk(
    verb: str, finished: tuple[Path, Path], tmp_path: Path, command: Command
) -> None:
    folder = tmp_path / ("x" * 300)
    arguments = ["sweep", finished[0], "--out"] if verb == "sweep" else ["report"]
    check_refused(command(*arguments, folder), names=folder, why=errno.ENAMETOOLONG)

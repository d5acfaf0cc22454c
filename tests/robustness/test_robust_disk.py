import errno
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from robust_support import check_refused, marks, same, shards, write

from headcount.results.store import Store


@pytest.fixture
def disk(tmp_path):
    """A small disk of its own, mounted in memory."""
    (folder := tmp_path / "disk").mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "none", folder]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a disk: see the test that pretends")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def with_one_shard(whole: Path, folder: Path) -> Path:
    """A folder in which the larger pack is finished and the other is not, with a page of before."""
    larger = max(shards(whole), key=lambda shard: shard.stat().st_size)
    write(folder / "shards" / larger.name, larger.read_bytes())
    write(folder / "report.html", "the page of before")
    return folder


# Room for nothing; for a checkpoint or less; for the shard, but not for the page.
@pytest.mark.parametrize("room", [0, 12 << 10, 80 << 10])
def test_a_full_disk_is_named_and_the_sweep_goes_on_once_there_is_room(room, disk, spec, whole, command):
    folder = with_one_shard(whole, disk / "runs")
    before = marks(folder)
    with (disk / "filler").open("wb", buffering=0) as filler:
        try:
            while filler.write(bytes(4096)):
                pass
        except OSError:
            filler.truncate(filler.tell() - room)
    check_refused(command("sweep", spec, "--out", folder), folder, os.strerror(errno.ENOSPC))
    assert before.items() <= marks(folder).items(), "the shard and the page of before stay"
    assert not list(folder.rglob("*.partial"))
    store = Store(folder)
    assert len(store.frame()) == (10 if room == 80 << 10 else 8)
    assert not store.problems

    (disk / "filler").unlink()
    again = command("sweep", spec, "--out", folder)
    assert (again.code, again.err) == (0, "")
    del before[folder / "report.html"]
    assert before.items() <= marks(folder).items(), "a finished shard was written again"
    same(folder, whole)


@pytest.mark.usefixtures("quick_page")
def test_a_read_only_disk_is_named_and_works_again_once_it_may_be_written(disk, spec, whole, command):
    folder, new, why = with_one_shard(whole, disk / "runs"), disk / "new", os.strerror(errno.EROFS)
    before = marks(folder)
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    check_refused(command("sweep", spec, "--out", folder), folder, why)
    check_refused(command("report", folder), folder / "report.html", why)
    check_refused(command("sweep", spec, "--out", new), new, why)
    assert marks(folder) == before
    subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
    assert command("sweep", spec, "--out", folder).code == 0
    same(folder, whole)


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
def test_a_disk_that_fails_at_any_file_is_one_line(name, why, spec, whole, tmp_path, command, monkeypatch):
    """For machines on which nobody may mount: the same, pretended where a file is flushed to disk."""
    folder, flush = with_one_shard(whole, tmp_path / "runs"), os.fsync
    before = marks(folder)

    def fail(descriptor: int) -> None:
        if name in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
            raise OSError(why, os.strerror(why))
        flush(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", fail)
        check_refused(command("sweep", spec, "--out", folder), folder, os.strerror(why))
    assert not list(folder.rglob("*.partial"))
    assert before.items() <= marks(folder).items()
    assert command("sweep", spec, "--out", folder).code == 0
    same(folder, whole)


# What is in the way, where the results should go, and what the line about it says of which path.
@pytest.mark.parametrize(
    ("file", "out", "named", "why"),
    [
        ("taken", "taken", "taken", errno.ENOTDIR),
        ("taken", "taken/deeper/still", "taken", errno.ENOTDIR),
        ("runs/shards", "runs", "runs/shards", errno.EEXIST),
        ("runs/checkpoints", "runs", "runs/checkpoints", errno.EEXIST),
        ("other", "x" * 300, "x" * 300, errno.ENAMETOOLONG),
    ],
)
def test_what_is_in_the_way_of_a_sweep_is_named_and_stays(file, out, named, why, spec, tmp_path, command):
    precious = write(tmp_path / file, "precious")
    check_refused(command("sweep", spec, "--out", tmp_path / out), tmp_path / named, os.strerror(why))
    assert precious.read_text() == "precious"


@pytest.mark.usefixtures("quick_page")
def test_what_cannot_be_reported_on_is_named(folder, tmp_path, command):
    file, endless = write(tmp_path / "taken", "precious"), tmp_path / ("x" * 300)
    check_refused(command("report", file), f"{file}: is a file")
    check_refused(command("report", endless), endless, os.strerror(errno.ENAMETOOLONG))
    (folder / "report.html").unlink()
    (folder / "report.html").mkdir()
    check_refused(command("report", folder), folder / "report.html", os.strerror(errno.EISDIR))

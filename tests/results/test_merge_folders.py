from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import BinaryIO

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from merge_folders import check_refused, files, plain_union, row, write_folder, write_shard

from headcount.errors import StorageError
from headcount.results import kept_models as copying
from headcount.results import merge as merging
from headcount.results.files import this_host, write_whole
from headcount.results.lock import Locked
from headcount.results.merge import MERGED, merge
from headcount.results.store import Store, read_results

# Folders that cannot be merged


@pytest.mark.parametrize(
    ("make", "fragment"),
    [
        (lambda path: None, "no such folder; `headcount sweep` makes one"),
        (lambda path: path.mkdir(), "not a results folder: it holds no folder named shards"),
        (lambda path: path.write_text("text"), "not a results folder"),
    ],
)
def test_what_is_no_results_folder_is_refused(make, fragment, folders, tmp_path):
    make(tmp_path / "photos")
    check_refused([*folders, tmp_path / "photos"], tmp_path / "out", f"photos: {fragment}")


def test_folders_without_any_row_are_refused_and_their_damaged_shards_named(tmp_path):
    folder = write_folder(tmp_path / "one", [row(0), row(1)])
    for shard in (folder / "shards").iterdir():
        shard.write_bytes(b"")
    empty = write_folder(tmp_path / "empty", [])
    named = ("pack0.parquet: damaged", "pack1.parquet: damaged")
    check_refused([empty, folder], tmp_path / "out", str(empty), "no finished trial", *named)
    check_refused([empty], tmp_path / "out", "no finished trial")


def test_a_folder_named_twice_counts_once_and_one_without_rows_does_no_harm(folders, tmp_path):
    (tmp_path / "link").symlink_to(folders[0])
    empty = write_folder(tmp_path / "empty", [])
    made = merge([*folders, folders[0] / ".." / "one", tmp_path / "link", empty], tmp_path / "out")
    assert made.members == {folders[0]: 3, folders[1]: 2, empty: 0}
    assert made.shared == 1
    assert made.problems == ("2 of the 5 folders were named before, and count once",)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-9]),
        lambda path: pq.write_table(pa.table({"price": [1.5]}), path),
    ],
)
def test_a_shard_that_cannot_be_used_is_named_and_the_rest_merged(damage, folders, tmp_path):
    path = folders[0] / "shards" / "pack0.parquet"
    damage(path)
    held = path.read_bytes()
    (problem,) = merge(folders, tmp_path / "out").problems
    assert str(path) in problem
    assert path.read_bytes() == held
    assert set(read_results(tmp_path / "out")["seed"]) == {1, 2, 3}


# The folder to write


@pytest.mark.parametrize(
    ("out", "fragment"),
    [
        ("one", "is one of the folders"),
        ("one/shards/../../one", "is one of the folders"),
        ("one/all", "lies in"),
        (".", "holds"),
    ],
)
def test_an_out_that_is_tangled_with_an_input_is_refused(out, fragment, folders, tmp_path):
    check_refused(folders, tmp_path / out, "--out: expected a folder of its own", fragment)


@pytest.mark.parametrize(
    ("make", "fragments"),
    [
        (lambda out: out.write_text("text"), ["out: is a file"]),
        (
            lambda out: write_folder(out, [row(0)], shards=1),
            ["--out: expected a new folder", "other results (pack0.parquet)"],
        ),
        (
            lambda out: pq.write_table(pa.table({"price": [1.5]}), write_folder(out, []) / "shards" / MERGED),
            [MERGED, "not a shard of headcount's"],
        ),
    ],
)
def test_an_out_that_holds_something_else_is_refused(make, fragments, folders, tmp_path):
    make(tmp_path / "out")
    check_refused(folders, tmp_path / "out", *fragments)


def test_an_out_that_is_not_part_of_the_merge_is_refused(folders, tmp_path):
    out = tmp_path / "out"
    merge(folders, out)
    check_refused(folders[:1], out, "other results (1 trial of no folder that is merged)")
    write_shard(folders[1], "pack1", [row(3, test_error=0.5)])
    check_refused(folders, out, row(3).trial, str(out), "test_error (0.5 and 0.075)")


def test_a_damaged_earlier_merge_is_set_aside_and_written_anew(folders, tmp_path):
    merge(folders, tmp_path / "out")
    path = tmp_path / "out" / "shards" / MERGED
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    (line,) = merge(folders, tmp_path / "out").problems
    assert str(path) in line
    assert "set aside" in line
    assert path.read_bytes() == whole
    assert path.with_name(f"{MERGED}.damaged").read_bytes() == whole[:-20]


def test_a_folder_that_has_grown_is_merged_again(folders, tmp_path):
    merge(folders, tmp_path / "out")
    write_shard(folders[0], "pack7", [row(7)])
    merge(folders, tmp_path / "out")
    pd.testing.assert_frame_equal(read_results(tmp_path / "out"), plain_union(folders))


# Kills


DEAD = 2**22 + 1  # above the largest process id that Linux gives


class Killed(BaseException):
    """As if the process had been killed here."""


def killed_at(place: int, *, halfway: bool) -> Callable[..., None]:
    """`write_whole` that dies at its n-th call, before it writes or with half a file written."""
    calls = count()

    def write(path: Path, content: Callable[[BinaryIO], object]) -> None:
        if next(calls) < place:
            return write_whole(path, content)
        if halfway:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.with_name(f"{path.name}.{this_host()}.{DEAD}.partial").write_bytes(b"half")
        raise Killed

    return write


@pytest.mark.parametrize("halfway", [False, True])
@pytest.mark.parametrize("place", [0, 2])
def test_killed_at_any_file_the_next_run_gives_the_whole(place, halfway, folders, tmp_path, monkeypatch):
    merge(folders, tmp_path / "undisturbed")
    with monkeypatch.context() as patch:
        write = killed_at(place, halfway=halfway)
        patch.setattr(merging, "write_whole", write)
        patch.setattr(copying, "write_whole", write)
        with pytest.raises(Killed):
            merge(folders, tmp_path / "out")
    assert not (tmp_path / "out" / "shards" / MERGED).exists(), "rows come last"
    merge(folders, tmp_path / "out")
    assert files(tmp_path / "out") == files(tmp_path / "undisturbed")


def test_a_folder_that_changes_meanwhile_is_noticed(folders, tmp_path, monkeypatch):
    copy = merging.copy_models

    def change(*arguments: object) -> object:
        write_shard(folders[0], "pack0", [row(8)])
        return copy(*arguments)

    monkeypatch.setattr(merging, "copy_models", change)
    with pytest.raises(StorageError, match="changed while it was merged"):
        merge(folders, tmp_path / "out")
    assert {path.suffix for path in (tmp_path / "out").rglob("*")} == {"", ".npz"}


def test_a_folder_that_somebody_writes_to_is_refused(folders, tmp_path):
    with Store(tmp_path / "out").writing(), pytest.raises(Locked, match="out: is being written to"):
        merge(folders, tmp_path / "out")
    assert merge(folders, tmp_path / "out").trials == 4


def test_what_cannot_be_written_is_one_line(folders, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "models").write_text("in the way")
    with pytest.raises(StorageError, match="cannot be written"):
        merge(folders, tmp_path / "out")

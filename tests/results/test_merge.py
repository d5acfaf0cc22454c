import math
import shutil
import socket
from collections.abc import Callable
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from merge_folders import files, keep_model, plain_union, row, write_folder, write_shard
from tiny import tiny_grid

from headcount.errors import HeadcountError, StorageError
from headcount.results import kept_models as carrying
from headcount.results import merge as merging
from headcount.results.files import write_whole
from headcount.results.merge import MERGED, Contradiction, merge
from headcount.results.schema import SCHEMA
from headcount.results.store import Store, read_results
from headcount.results.survey import CIRCUMSTANCES, RESULTS
from headcount.running.executor import run

HOST = socket.gethostname().partition(".")[0]
DEAD = 2**22 + 1  # above the largest process id that Linux gives
FIELDS = {
    "seconds": st.floats(0, 1e6),
    "device": st.sampled_from(["laptop", "node", "card"]),
    "versions": st.sampled_from(["headcount 0.1.0", "headcount 0.2.0"]),
}
# Some machines; each has trained some of ten trials, somewhere and in some time.
MACHINES = st.lists(
    st.dictionaries(st.integers(0, 9), st.fixed_dictionaries(FIELDS)), min_size=1, max_size=4
).filter(any)


class Lab:
    """Results folders in a place of their own."""

    def __init__(self, machines: list[dict[int, dict[str, object]]], place: str) -> None:
        self.place, self.number = Path(place), count()
        self.folders = [
            write_folder(
                self.place / f"machine{number}", [row(trial, **where) for trial, where in held.items()]
            )
            for number, held in enumerate(machines)
        ]

    def merged(self, folders: list[Path]) -> Path:
        out = self.place / f"out{next(self.number)}"
        merge(folders, out)
        return out


@given(MACHINES)
@settings(max_examples=12, deadline=None)
def test_a_merge_is_the_plain_union(machines):
    with TemporaryDirectory() as place:
        lab = Lab(machines, place)
        frame = read_results(lab.merged(lab.folders))
        pd.testing.assert_frame_equal(frame, plain_union(lab.folders))
        assert set(frame["seed"]) == {trial for held in machines for trial in held}


@given(MACHINES, st.randoms(use_true_random=False))
@settings(max_examples=12, deadline=None)
def test_the_order_of_the_folders_does_not_matter(machines, random):
    with TemporaryDirectory() as place:
        lab = Lab(machines, place)
        for folder in lab.folders:
            for trial in range(random.randrange(4)):
                keep_model(folder, trial, fill=random.random(), outputs=random.random() < 0.5)
        one = lab.merged(lab.folders)
        other = lab.merged(random.sample(lab.folders, len(lab.folders)))
        pd.testing.assert_frame_equal(read_results(one), read_results(other))
        models = [
            {name: held for name, held in files(out).items() if "models" in name} for out in (one, other)
        ]
        assert models[0] == models[1]


@given(MACHINES)
@settings(max_examples=8, deadline=None)
def test_merging_again_merging_itself_and_merging_in_steps_change_nothing(machines):
    with TemporaryDirectory() as place:
        lab = Lab(machines, place)
        out = lab.merged(lab.folders)
        whole = files(out)
        merge(lab.folders, out)
        assert files(out) == whole
        shutil.copytree(lab.folders[0], lab.place / "copy")
        for again in ([out], [out, lab.folders[0]], [*lab.folders, lab.place / "copy"]):
            pd.testing.assert_frame_equal(read_results(lab.merged(again)), read_results(out))


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """Two machines with one trial in common, and a kept model each."""
    one = write_folder(tmp_path / "one", [row(0), row(1), row(2)])
    other = write_folder(tmp_path / "other", [row(2, device="card", seconds=0.5), row(3)])
    keep_model(one, 1)
    keep_model(other, 3, outputs=False)
    return [one, other]


def check_refused(folders: list[Path], out: Path, *fragments: str) -> None:
    """One line with the fragments, and nothing anywhere is touched."""
    place = folders[0].parent
    before = files(place)
    with pytest.raises(HeadcountError) as refusal:
        merge(folders, out)
    line = str(refusal.value)
    assert "\n" not in line
    for fragment in fragments:
        assert fragment in line, line
    assert files(place) == before


def test_a_merge_says_what_it_did(folders, tmp_path):
    made = merge(folders, tmp_path / "out")
    assert (made.trials, made.shared, made.models, made.problems) == (4, 1, 2, ())
    assert list(made.members.values()) == [3, 2]


def test_the_inputs_stay_as_they_are(folders, tmp_path):
    before = [files(folder) for folder in folders]
    merge(folders, tmp_path / "out")
    assert [files(folder) for folder in folders] == before


def changed_value(name: str) -> object:
    value = getattr(row(2), name)
    return f"{value}x" if isinstance(value, str) else value + 1


@pytest.mark.parametrize("name", [name for name in RESULTS if name != "trial"])
def test_a_difference_in_any_result_is_a_conflict(name, tmp_path):
    one = write_folder(tmp_path / "one", [row(2), row(0)])
    other = write_folder(tmp_path / "other", [row(2, **{name: changed_value(name)})])
    fragments = [row(2).trial, str(one), str(other), f"differ in {name} (", repr(getattr(row(2), name))]
    check_refused([one, other], tmp_path / "out", *fragments)


@pytest.mark.parametrize("name", CIRCUMSTANCES)
def test_where_and_when_a_member_was_trained_is_no_conflict(name, tmp_path):
    one = write_folder(tmp_path / "one", [row(2)])
    other = write_folder(tmp_path / "other", [row(2, **{name: changed_value(name)})])
    assert merge([one, other], tmp_path / "out").trials == 1


def test_a_difference_in_the_last_digit_is_a_conflict(tmp_path):
    one = write_folder(tmp_path / "one", [row(0, test_error=0.1)])
    other = write_folder(tmp_path / "other", [row(0, test_error=math.nextafter(0.1, 1))])
    check_refused([one, other], tmp_path / "out", "0.1 and 0.10000000000000002")


def test_members_that_diverged_alike_are_equal(tmp_path):
    diverged = {"status": "diverged", "test_error": math.nan, "train_error": math.nan}
    folders = [write_folder(tmp_path / name, [row(0, **diverged)]) for name in ("one", "other")]
    assert merge(folders, tmp_path / "out").trials == 1


def test_every_conflict_is_known_and_the_number_of_trials_is_told(tmp_path):
    one = write_folder(tmp_path / "one", [row(trial) for trial in range(5)])
    other = write_folder(tmp_path / "other", [row(trial, best_step=1) for trial in range(3)])
    with pytest.raises(Contradiction, match="3 trials have different results") as refusal:
        merge([one, other], tmp_path / "out")
    assert {conflict.trial for conflict in refusal.value.conflicts} == {
        row(trial).trial for trial in range(3)
    }
    assert not (tmp_path / "out").exists()


def test_equal_rows_within_a_folder_are_one(tmp_path):
    folder = write_folder(tmp_path / "one", [row(0)], shards=1)
    write_shard(folder, "pack9", [row(0, seconds=9.0), row(1), row(1, device="card")])
    assert merge([folder], tmp_path / "out").trials == 2
    pd.testing.assert_frame_equal(read_results(tmp_path / "out"), read_results(folder))


@pytest.mark.parametrize(
    ("more", "places"),
    [
        ([row(0, test_error=0.7)], ["pack0.parquet and ", "pack9.parquet differ"]),
        ([row(0), row(0, test_error=0.7)], ["pack0.parquet and ", "pack9.parquet differ"]),
        ([row(1, test_error=0.7), row(1)], ["two rows of ", "pack9.parquet differ"]),
    ],
)
def test_a_folder_that_contradicts_itself_is_refused(more, places, tmp_path):
    folder = write_folder(tmp_path / "one", [row(0)], shards=1)
    write_shard(folder, "pack9", more)
    check_refused([folder], tmp_path / "out", "test_error (", "take one of the files away", *places)


def test_an_earlier_versions_shard_is_understood(folders, tmp_path):
    path = folders[0] / "shards" / "pack0.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["scores"]), path)
    assert merge(folders, tmp_path / "out").trials == 4


def test_rows_are_written_in_groups_and_none_is_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(merging, "ROWS_AT_ONCE", 3)
    folder = write_folder(tmp_path / "one", [row(trial) for trial in range(10)], shards=7)
    merge([folder], tmp_path / "out")
    assert pq.ParquetFile(tmp_path / "out" / "shards" / MERGED).num_row_groups > 1
    pd.testing.assert_frame_equal(read_results(tmp_path / "out"), read_results(folder))


# Models


def test_models_are_carried_along_byte_by_byte(folders, tmp_path):
    merge(folders, tmp_path / "out")
    kept = {path.name: path.read_bytes() for folder in folders for path in (folder / "models").iterdir()}
    assert {path.name: path.read_bytes() for path in (tmp_path / "out" / "models").iterdir()} == kept


def test_a_model_with_outputs_is_preferred(folders, tmp_path):
    keep_model(folders[0], 2, outputs=False)
    better = keep_model(folders[1], 2, outputs=True)
    merge(folders, tmp_path / "out")
    assert (tmp_path / "out" / "models" / better.name).read_bytes() == better.read_bytes()


def test_a_damaged_model_is_named_and_a_whole_one_taken_instead(folders, tmp_path):
    damaged, whole = (keep_model(folder, 2) for folder in folders)
    damaged.write_bytes(damaged.read_bytes()[:-40])
    made = merge(folders, tmp_path / "out")
    assert made.problems == (f"{damaged}: damaged, left out",)
    assert (tmp_path / "out" / "models" / whole.name).read_bytes() == whole.read_bytes()


def test_a_model_without_a_row_stays_behind(folders, tmp_path):
    orphan = keep_model(folders[0], 3, fill=7.0)  # whose row only the other folder has
    merge(folders, tmp_path / "out")
    assert (tmp_path / "out" / "models" / orphan.name).read_bytes() != orphan.read_bytes()


def test_a_run_that_keeps_models_finds_them_in_the_merged_folder(tmp_path):
    halves = [tiny_grid(seed=(seed,)).trials() for seed in (0, 1)]
    for trials, name in zip(halves, ("one", "other"), strict=True):
        list(run(trials, Store(tmp_path / name), keep_models=True))
    merge([tmp_path / "one", tmp_path / "other"], tmp_path / "out")
    store = Store(tmp_path / "out")
    assert all(store.has_kept(trial) for trials in halves for trial in trials)
    planned = next(iter(run([*halves[0], *halves[1]], store, keep_models=True)))
    assert planned.packs == ()


# Folders that cannot be merged


def test_a_missing_folder_is_refused(folders, tmp_path):
    check_refused([*folders, tmp_path / "none"], tmp_path / "out", "none: no such folder", "headcount sweep")


def test_a_folder_without_shards_is_refused(folders, tmp_path):
    (tmp_path / "photos").mkdir()
    check_refused([*folders, tmp_path / "photos"], tmp_path / "out", "photos: not a results folder", "shards")


def test_a_file_is_refused(folders, tmp_path):
    (tmp_path / "file").write_text("text")
    check_refused([*folders, tmp_path / "file"], tmp_path / "out", "file: not a results folder")


def test_folders_without_any_row_are_refused(tmp_path):
    empty = write_folder(tmp_path / "empty", [])
    check_refused([empty], tmp_path / "out", str(empty), "no finished trial")


def test_damaged_shards_are_named_where_nothing_else_is_left(tmp_path):
    folder = write_folder(tmp_path / "one", [row(0)], shards=1)
    write_shard(folder, "pack9", [row(1)]).write_bytes(b"")
    (folder / "shards" / "pack0.parquet").write_bytes(b"junk")
    check_refused([folder], tmp_path / "out", "no finished trial", "pack0.parquet: damaged", "pack9.parquet")


def test_a_machine_that_has_finished_nothing_yet_does_no_harm(folders, tmp_path):
    empty = write_folder(tmp_path / "empty", [])
    assert merge([*folders, empty], tmp_path / "out").members[empty] == 0


def test_a_folder_named_twice_counts_once(folders, tmp_path):
    (tmp_path / "link").symlink_to(folders[0])
    made = merge([*folders, folders[0] / ".." / "one", tmp_path / "link"], tmp_path / "out")
    assert made.members == {folders[0]: 3, folders[1]: 2}
    assert made.shared == 1
    assert made.problems == ("2 of the 4 folders were named before, and count once",)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-9]),
        lambda path: path.write_bytes(b""),
        lambda path: pq.write_table(pa.table({"price": [1.5]}), path),
    ],
)
def test_a_shard_that_cannot_be_used_is_named_and_the_rest_merged(damage, folders, tmp_path):
    path = folders[0] / "shards" / "pack0.parquet"
    damage(path)
    held = path.read_bytes()
    made = merge(folders, tmp_path / "out")
    assert len(made.problems) == 1
    assert str(path) in made.problems[0]
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
    check_refused(folders, tmp_path / out, "--out = ", fragment, "allowed is a folder of its own")


def test_an_out_that_is_a_file_is_refused(folders, tmp_path):
    (tmp_path / "out").write_text("text")
    check_refused(folders, tmp_path / "out", "out: is a file")


def test_an_out_with_results_of_its_own_is_refused(folders, tmp_path):
    out = write_folder(tmp_path / "out", [row(0)], shards=1)
    check_refused(folders, out, "--out = ", "other results (pack0.parquet)", "allowed is a new folder")


def test_an_out_with_trials_that_no_folder_holds_is_refused(folders, tmp_path):
    merge(folders, tmp_path / "out")
    check_refused(folders[:1], tmp_path / "out", "holds 1 trial that is in none of the folders")


def test_an_out_that_contradicts_the_folders_is_refused(folders, tmp_path):
    merge(folders, tmp_path / "out")
    write_shard(folders[1], "pack1", [row(3, best_step=5)])
    check_refused(folders, tmp_path / "out", row(3).trial, str(tmp_path / "out"), "best_step (5 and 90)")


def test_an_out_that_is_no_shard_of_ours_is_refused(folders, tmp_path):
    (tmp_path / "out" / "shards").mkdir(parents=True)
    pq.write_table(pa.table({"price": [1.5]}), tmp_path / "out" / "shards" / MERGED)
    check_refused(folders, tmp_path / "out", MERGED, "not a shard of headcount's")


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


def test_a_sweep_goes_on_in_the_merged_folder(tmp_path):
    halves = [tiny_grid(seed=(seed,)).trials() for seed in (0, 1)]
    for trials, name in zip(halves, ("one", "other"), strict=True):
        list(run(trials, Store(tmp_path / name)))
    merge([tmp_path / "one", tmp_path / "other"], tmp_path / "out")
    events = list(run([*halves[0], *halves[1]], Store(tmp_path / "out")))
    assert len(events) == 1, "nothing is left to train"


# Kills


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
            path.with_name(f"{path.name}.{HOST}.{DEAD}.partial").write_bytes(b"half")
        raise Killed

    return write


@pytest.mark.parametrize("halfway", [False, True])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_killed_at_any_file_the_next_run_gives_the_whole(place, halfway, folders, tmp_path, monkeypatch):
    merge(folders, tmp_path / "undisturbed")
    with monkeypatch.context() as patch:
        write = killed_at(place, halfway=halfway)
        patch.setattr(merging, "write_whole", write)
        patch.setattr(carrying, "write_whole", write)
        with pytest.raises(Killed):
            merge(folders, tmp_path / "out")
    assert not (tmp_path / "out" / "shards" / MERGED).exists(), "rows come last"
    merge(folders, tmp_path / "out")
    assert files(tmp_path / "out") == files(tmp_path / "undisturbed")


def test_a_folder_that_changes_meanwhile_is_noticed(folders, tmp_path, monkeypatch):
    carry = merging.carry_models

    def change(*arguments: object) -> object:
        write_shard(folders[0], "pack0", [row(8)])
        return carry(*arguments)

    monkeypatch.setattr(merging, "carry_models", change)
    with pytest.raises(StorageError, match="changed while it was merged"):
        merge(folders, tmp_path / "out")
    assert not list((tmp_path / "out" / "shards").iterdir())


def test_what_cannot_be_written_is_one_line(folders, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "models").write_text("in the way")
    with pytest.raises(StorageError, match="cannot be written"):
        merge(folders, tmp_path / "out")


def test_results_and_circumstances_are_all_columns():
    assert {*RESULTS, *CIRCUMSTANCES} == set(SCHEMA.names)
    assert not {*RESULTS} & {*CIRCUMSTANCES}

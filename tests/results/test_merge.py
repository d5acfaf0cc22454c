import math
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from merge_folders import check_refused, files, keep_model, plain_union, row, write_folder, write_shard
from tiny import tiny_grid

from headcount.results import merge as merging
from headcount.results.agreement import CIRCUMSTANCES
from headcount.results.merge import MERGED, Contradiction, merge
from headcount.results.store import Store, read_results
from headcount.running.executor import run

FIELDS = {
    "seconds": st.floats(0, 1e6),
    "device": st.sampled_from(["laptop", "node", "card"]),
    "versions": st.sampled_from(["headcount 0.1.0", "headcount 0.2.0"]),
}
# Some machines; each has trained some of ten trials, somewhere and in some time.
MACHINES = st.lists(
    st.dictionaries(st.integers(0, 9), st.fixed_dictionaries(FIELDS)), min_size=1, max_size=4
).filter(any)


def write_machines(machines: list[dict[int, dict[str, object]]], place: Path) -> list[Path]:
    return [
        write_folder(place / f"machine{number}", [row(trial, **where) for trial, where in held.items()])
        for number, held in enumerate(machines)
    ]


@given(MACHINES, st.randoms(use_true_random=False))
@settings(max_examples=12)
def test_a_merge_is_the_plain_union_in_any_order_of_the_folders(machines, random):
    with TemporaryDirectory() as name:
        folders = write_machines(machines, place := Path(name))
        for folder in folders:
            for trial in range(random.randrange(4)):
                keep_model(folder, trial, fill=random.random(), outputs=random.random() < 0.5)
        models = []
        for out, order in ((place / "one", folders), (place / "other", random.sample(folders, len(folders)))):
            merge(order, out)
            pd.testing.assert_frame_equal(read_results(out), plain_union(folders))
            models.append({name: held for name, held in files(out).items() if "models" in name})
        assert models[0] == models[1]


@given(MACHINES)
@settings(max_examples=8)
def test_merging_again_merging_itself_and_merging_in_steps_change_nothing(machines):
    with TemporaryDirectory() as name:
        folders = write_machines(machines, place := Path(name))
        merge(folders, out := place / "out")
        whole = files(out)
        merge(folders, out)
        assert files(out) == whole
        copy = shutil.copytree(folders[0], place / "copy")
        for number, again in enumerate(([out], [out, folders[0]], [*folders, copy])):
            merge(again, place / f"again{number}")
            pd.testing.assert_frame_equal(read_results(place / f"again{number}"), read_results(out))


def changed_value(name: str) -> object:
    value = getattr(row(2), name)
    return f"{value}x" if isinstance(value, str) else value + 1


@pytest.mark.parametrize("name", ["steps", "spec", "status", "train_error", "test_error", "scores"])
def test_a_difference_in_any_result_is_a_conflict(name, tmp_path):
    one = write_folder(tmp_path / "one", [row(2), row(0)])
    other = write_folder(tmp_path / "other", [row(2, **{name: changed_value(name)})])
    fragments = [row(2).trial, str(one), str(other), f"differ in {name} (", repr(getattr(row(2), name))]
    check_refused([one, other], tmp_path / "out", *fragments)


DIVERGED = {"status": "diverged", "test_error": math.nan, "train_error": math.nan}


@pytest.mark.parametrize("both", [{}, DIVERGED], ids=["done", "diverged"])
@pytest.mark.parametrize("name", CIRCUMSTANCES)
def test_where_and_when_a_member_was_trained_is_no_conflict(name, both, tmp_path):
    one = write_folder(tmp_path / "one", [row(2, **both)])
    other = write_folder(tmp_path / "other", [row(2, **both, **{name: changed_value(name)})])
    assert merge([one, other], tmp_path / "out").trials == 1


def test_the_same_trial_of_two_packs_is_one_and_with_strict_a_conflict(tmp_path):
    """The numbers that one trial came to in two different packs."""
    one = write_folder(tmp_path / "one", [row(0, test_error=0.0568570009)])
    other = write_folder(tmp_path / "other", [row(0, test_error=0.0568569984, best_step=80, seconds=0.5)])
    merge([one, other], tmp_path / "out")
    assert read_results(tmp_path / "out")["test_error"].tolist() == [0.0568569984], "the quicker one is kept"
    with pytest.raises(Contradiction, match=r"best_step \(80 and 90\)") as refusal:
        merge([one, other], tmp_path / "strict", strict=True)
    assert len(refusal.value.conflicts) == 1
    assert merge([one], tmp_path / "strict", strict=True).trials == 1


# Rows of one trial in three folders, from all alike to a chain whose ends disagree.
CHAINS = st.lists(
    st.tuples(st.sampled_from([0.1, 0.10005, 0.1001, 0.10015]), st.integers(1, 3)), min_size=2, max_size=4
)


@given(CHAINS, st.randoms(use_true_random=False))
@settings(max_examples=25)
def test_in_any_order_the_same_row_is_kept_or_the_same_trial_refused(chain, random):
    with TemporaryDirectory() as place:
        machines = [{0: {"test_error": error, "seconds": float(seconds)}} for error, seconds in chain]
        folders = write_machines(machines, Path(place))
        answers = []
        for attempt, order in enumerate((folders, random.sample(folders, len(folders)))):
            try:
                merge(order, Path(place) / f"out{attempt}")
            except Contradiction as refusal:
                answers.append([each.trial for each in refusal.conflicts])
            else:
                answers.append(read_results(Path(place) / f"out{attempt}")["test_error"].tolist())
        assert answers[0] == answers[1]


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
    check_refused([folder], tmp_path / "out", "test_error (", "remove one of the files", *places)


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


def test_models_are_copied_byte_by_byte_and_the_inputs_stay_as_they_are(folders, tmp_path):
    before = [files(folder) for folder in folders]
    merge(folders, tmp_path / "out")
    assert [files(folder) for folder in folders] == before
    kept = {name: held for folder in before for name, held in folder.items() if "models" in name}
    assert {name: held for name, held in files(tmp_path / "out").items() if "models" in name} == kept


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
    trials = tiny_grid(seed=(0, 1)).trials()
    folders = [tmp_path / trial.id for trial in trials]
    for trial, folder in zip(trials, folders, strict=True):
        list(run([trial], Store(folder), keep_models=True))
    merge(folders, tmp_path / "out")
    store = Store(tmp_path / "out")
    assert all(map(store.has_kept, trials))
    assert next(run(trials, store, keep_models=True)).packs == ()

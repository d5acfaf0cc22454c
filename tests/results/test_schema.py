"""Rows of earlier versions: found again under the keys of today, or named as old."""

import hashlib
import json

import pyarrow as pa
import pytest
from merge_folders import keep_model, row, write_folder
from reproduce.real.small import image_trial, ranking_trial
from tiny import tiny_grid

from headcount.results.merge import merge
from headcount.results.shards import as_now, is_current, renamed_trials, upgraded
from headcount.results.store import Store
from headcount.version import ALGORITHM

LATER = (
    ("training", "polish_steps", 0),
    ("training", "loss", "squared"),
    ("architecture", "class_reads", "last"),
    ("architecture", "positions_start", "drawn"),
    ("architecture", "reader", "class token"),
    ("architecture", "causal", False),
    ("architecture", "window", None),
    ("architecture", "stride", None),
    ("architecture", "global_tokens", 0),
    ("architecture", "residual_width", None),
    ("architecture", "bounded", False),
)
TRIALS = {
    "task": tiny_grid().trials()[0],
    "polished": tiny_grid(polish_steps=3).trials()[0],
    "images": image_trial(dropout=0.1),
    "passages": ranking_trial(),
    "words": ranking_trial(joined=True),
}


def shard(*specs, key=None):
    keys = [key or hashlib.sha256(spec.encode()).hexdigest()[:16] for spec in specs]
    return pa.table({"trial": keys, "error": [0.5] * len(keys), "spec": list(specs)})


def as_once(trial, **changes):
    """The spec as the first version wrote it: no algorithm, and no later options at their defaults."""
    written = {**json.loads(trial.to_json()), **changes}
    del written["algorithm"]
    for part, option, usual in LATER:
        if "token_dim" in written["architecture"] and written[part][option] == usual:
            del written[part][option]
    return json.dumps(written, sort_keys=True)


def test_the_first_versions_key_is_known():
    assert shard(as_once(TRIALS["task"]))["trial"].to_pylist() == ["fe0a787cebf2dc95"]


@pytest.mark.parametrize("trial", TRIALS.values(), ids=TRIALS)
def test_rows_without_an_algorithm_get_the_keys_of_today(trial):
    old = shard(as_once(trial))
    now = upgraded(old)
    assert now["trial"].to_pylist() == [trial.id] and now["spec"].to_pylist() == [trial.to_json()]
    assert now["error"] == old["error"] and is_current(now["spec"][0].as_py())
    assert renamed_trials(old) == {old["trial"][0].as_py(): trial.id}
    assert upgraded(now) is now and not renamed_trials(now)


def test_data_was_once_known_by_its_file_as_well():
    tasks = [
        {"name": "data", "options": [["file", name], ["fingerprint", "0" * 16]]} for name in ("one", "two")
    ]
    keys = upgraded(shard(*(as_once(TRIALS["task"], task=task) for task in tasks)))["trial"]
    assert keys[0] == keys[1]


@pytest.mark.parametrize(
    ("spec", "key"),
    [
        (as_once(TRIALS["task"], task={"name": "own", "options": [], "fingerprint": "0" * 16}), None),
        (as_once(TRIALS["task"], colour=1), None),
        ("[1]", None),
        ("not JSON", None),
        (as_once(TRIALS["task"]), "0" * 16),
    ],
    ids=["a user's task", "unknown field", "a list", "text", "a key that is not of its spec"],
)
def test_what_cannot_be_converted_keeps_its_key_and_is_not_current(spec, key):
    old = shard(spec, key=key)
    assert upgraded(old) is old and not is_current(spec)


def test_rows_of_another_algorithm_are_not_of_today():
    assert is_current(TRIALS["task"].to_json())
    assert not is_current(TRIALS["task"].to_json().replace(f'"algorithm": {ALGORITHM}', '"algorithm": 99'))


def test_a_table_without_keys_stays_as_it_is():
    assert "scores" in as_now(pa.table({"number": [1]})).column_names


def test_models_of_an_earlier_version_are_read_and_merged(tmp_path):
    old = shard(as_once(TRIALS["task"]))["trial"][0].as_py()
    early = row(0, trial=old, spec=as_once(TRIALS["task"]))
    folder = write_folder(tmp_path / "old", [early], shards=1)
    before = keep_model(folder, int(old, 16))
    assert Store(folder).model_path(TRIALS["task"].id) == before
    assert merge([folder], tmp_path / "all").models == 1
    assert (tmp_path / "all" / "models" / f"{TRIALS['task'].id}.npz").read_bytes() == before.read_bytes()

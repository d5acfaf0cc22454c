"""What a study trains next: it follows from what its store holds, whatever happened before."""

import os
import shutil
from dataclasses import replace

import numpy as np
import pytest
from small_study import SMALL, small_study, train, train_all

from headcount.data.arrays import data_set
from headcount.errors import InvalidInput
from headcount.estimate import study
from headcount.estimate.evidence import attention, estimate_of
from headcount.estimate.members import Stage
from headcount.estimate.study import Study
from headcount.estimate.verdict import Estimate
from headcount.results.store import Store

pytestmark = pytest.mark.usefixtures("compiled_quickly")


def test_a_study_resumes_wherever_it_was_stopped(tmp_path):
    def asked():
        return small_study(tmp_path / "one", positions=True)

    stages, numbers = [], []
    while (stage := asked().next_stage()) is not None:  # one member at a time, a fresh look after each
        stages.append(stage.name)
        numbers.append(stage.number)
        assert stage.reason
        for trial in stage.trials:
            train(asked(), Stage(stage.name, (trial,)))
    whole = small_study(tmp_path / "two", positions=True)
    train_all(whole)
    assert len(set(stages)) == len(stages), "two stages have one name"
    assert numbers == sorted(numbers) and numbers[-1] <= len(asked().kinds_of_stages)
    assert stages[:2] == ["With and without positions", "A first look at all head counts"]
    assert "A closer look at 1, 2 and 3 heads" in stages
    apart, together = estimate_of(asked()), estimate_of(whole)
    ratios = [a.value / b.value for a, b in zip(apart.errors, together.errors, strict=True)]
    np.testing.assert_allclose(ratios, 1, atol=0.2)


def test_one_head_less_must_fail_from_other_starts_before_d_is_reported(tmp_path, monkeypatch):
    asked = small_study(tmp_path)
    three = Estimate(3, (3, 3), "retrieval", 3, {}, (), (), ())
    monkeypatch.setattr(study, "decide", lambda curve, **_: three)
    train_all(asked)
    assert {trial.seed for trial in asked.sweep().trials if trial.architecture.heads == 2} == {0, 1}


def first_stage_trained(folder):
    asked = small_study(folder)
    stage = asked.next_stage()
    train(asked, stage)
    assert asked.next_stage() != stage
    return stage


def lose_rows(folder):
    """Weights are written first; without its row a member is not finished."""
    shutil.rmtree(folder / "shards")


def damage_rows(folder):
    os.truncate(next((folder / "shards").iterdir()), 50)


def lose_outputs(folder):
    path = next((folder / "models").iterdir())
    with np.load(path) as file:
        parts = {name: file[name] for name in file.files if name != "test_outputs"}
    np.savez(path, **parts)


@pytest.mark.parametrize("damage", [lose_rows, damage_rows, lose_outputs])
def test_what_was_lost_is_trained_again_once(damage, tmp_path):
    stage = first_stage_trained(tmp_path)
    damage(tmp_path)
    assert small_study(tmp_path).next_stage() == stage
    assert first_stage_trained(tmp_path) == stage
    assert small_study(tmp_path).next_stage() != stage


def test_a_stage_that_leaves_nothing_behind_is_not_asked_for_again(tmp_path):
    with pytest.raises(InvalidInput, match="cannot be read back"):
        list(small_study(tmp_path).stages())


def test_with_both_kinds_of_positions_in_one_program_the_helpful_kind_is_taken(tmp_path):
    x = np.random.default_rng(0).normal(size=(600, 4, 1))
    data = data_set(x, x[:, 2, 0])  # the third token
    asked = Study(data, Store(tmp_path), replace(SMALL, more_starts=()), thorough=True)
    for stage, size in zip(asked.stages(), (6, 3), strict=True):  # both kinds quickly, then the helpful one
        train(asked, stage)
        assert len(stage.trials) == size
    found = estimate_of(asked)
    assert [point.heads for point in found.errors] == [1, 2, 3] and found.errors[0].value < 0.5
    assert attention(asked, 1)[0].positions == "both"

"""The recorded runs keep what is promised of `hc.inspect`, recomputed from their rows."""

import json
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def recorded(name):
    return json.loads((RESULTS / name).read_text())


@pytest.mark.parametrize("solution", ["uniform", "free"])
def test_plans_keep_their_tolerance_on_untouched_samples(solution):
    found = recorded("trained-promise.json")
    rises = [row[solution]["test"]["rise"] for row in found["rows"]]
    broken = sum(rise > found["tolerance"] for rise in rises)
    assert len(rises) >= 100 and len({row["model"] for row in found["rows"]}) >= 8
    assert broken <= 9 and found[solution]["broken"] == broken
    removed = [sum(row[solution]["counts"]) < row["heads"] for row in found["rows"]]
    assert found[solution]["runs_with_heads_removed"] == sum(removed) > len(rises) / 3


@pytest.mark.parametrize("noise", [0.0, 1e-3])
def test_planted_heads_are_counted(noise):
    found = recorded("trained-planted.json")
    rows = [row for row in found["rows"] if row["noise"] == noise]
    assert len({row["family"] for row in rows}) == 4 and len({row["seed"] for row in rows}) >= 2
    needed = [count for row in rows for count in row["needed"]]
    as_planted = sum(count == found["real"] for count in needed)
    assert as_planted >= 0.95 * len(needed)
    assert found["in_short"][f"noise {noise:g}"]["layers_counted_as_planted"] == as_planted
    real = [count for row in rows for count in row["needed_by_real"]]
    assert sum(count == found["real"] for count in real) >= 0.95 * len(real)


def test_a_shrunk_vision_transformer_keeps_its_accuracy():
    found = recorded("inspect-vit.json")
    assert found["solutions"]["free"]["heads"] < found["solutions"]["uniform"]["heads"] < found["heads"]
    lost = [model["lost"] for model in found["models"].values()]
    assert len(lost) == 3 and max(lost) <= 100 * found["tolerance"]
    by_accuracy = [100 * (found["accuracy"] - model["accuracy"]) for model in found["models"].values()]
    assert lost == pytest.approx(by_accuracy)

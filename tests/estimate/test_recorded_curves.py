"""What falls say, held against the recorded curves of tasks of known D: never against the truth."""

import json
from pathlib import Path

import pytest

from headcount.estimate.curve import Point
from headcount.estimate.verdict import falls_far, little_left

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
TASKS = {
    f"{name}, {row['name']}": row
    for name in ("dimension", "dimension-cpu")
    for row in json.loads((RESULTS / f"{name}.json").read_text())["tasks"]
    if row["true"]
}


def points(curve):
    return [
        Point(int(heads), value, value, value)
        for heads, value in sorted(curve.items(), key=lambda p: int(p[0]))
    ]


@pytest.mark.parametrize("row", TASKS.values(), ids=TASKS)
def test_a_far_fall_is_never_beyond_d_and_little_is_left_only_from_d_on(row):
    errors, distances, labels = points(row["errors"]), points(row["distances"]), bool(row["labels"])
    heads = [point.heads for point in distances]
    far = [count for count in heads if falls_far(errors, distances, count, labels=labels)]
    assert all(count <= row["true"] for count in far)
    enough = [count for count, done in zip(heads, little_left(distances), strict=False) if done]
    assert all(count >= row["true"] for count in enough)


def test_the_two_decide_most_recorded_tasks():
    """So that the test above can fail: both rules speak of many of these curves."""
    spoken = [
        any(
            falls_far(points(row["errors"]), points(row["distances"]), int(h), labels=bool(row["labels"]))
            for h in row["errors"]
        )
        for row in TASKS.values()
    ]
    assert sum(spoken) >= len(TASKS) / 3
    assert sum(any(little_left(points(row["distances"]))) for row in TASKS.values()) >= len(TASKS) / 3

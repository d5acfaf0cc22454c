import json

import numpy as np
import pytest
from tiny import tiny_grid

from headcount.errors import InvalidInput
from headcount.trials.grid import Grid
from headcount.trials.task_choice import TaskChoice
from headcount.trials.training import Training


def test_a_grid_is_every_combination_once():
    trials = tiny_grid(
        heads=(1, 2, 2), length=(4, 8), seed=(0, 1, 2), learning_rate=(1e-3, 1e-2), width=5
    ).trials()
    assert len({trial.id for trial in trials}) == len(trials) == 2 * 2 * 3 * 2
    assert {(trial.architecture.heads, trial.architecture.head_dim) for trial in trials} == {(1, 5), (2, 3)}
    assert len(Grid("extremes").trials()) == 9, "defaults are usable"


def test_options_in_another_order_are_the_same_task():
    one, other = {"token_dim": 2, "dimension": 3}, {"dimension": 3, "token_dim": 2}
    assert TaskChoice.of("bowls", **one) == TaskChoice.of("bowls", **other)
    assert hash(TaskChoice.of("max_sum", directions=[[1.0, 0.0], [0.0, 1.0]])) is not None


def test_sizes_follow_the_task_and_the_length():
    (trial,) = tiny_grid(
        task="bowls_several", options={"token_dim": 2}, model=(("positions", "one_hot"),)
    ).trials()
    assert trial.architecture.token_dim == 2 and trial.architecture.length == trial.length
    assert trial.architecture.output_dim == trial.task.build().output_dim > 1


def test_warm_up_is_never_most_of_a_short_run():
    assert [Training(steps=steps).warmup for steps in (1000, 30_000)] == [100, 500]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heads": 0}, "heads: expected an integer >= 1, got 0"),
        ({"heads": 0, "width": 8}, "heads: expected an integer >= 1, got 0"),
        ({"heads": "many"}, "heads: expected an integer >= 1, got 'many'"),
        ({"heads": []}, "heads: expected a value or a list of one value or more, got []"),
        ({"heads": [[1, 2]]}, "heads: expected an integer >= 1, got [1, 2]"),
        ({"learning_rate": float("nan")}, "learning_rate: expected a finite number > 0, got nan"),
        ({"learning_rate": True}, "learning_rate: expected a finite number > 0, got True"),
        ({"seed": -1}, "seed: expected an integer from 0 to 2147483647, got -1"),
        ({"width": 1}, "width: expected an integer >= 2, got 1"),
        ({"steps": 45}, "steps: expected a multiple of evaluate_every = 10, got 45"),
        ({"warmup": 40}, "warmup: expected an integer from 0 to 39, got 40"),
        ({"clip": 0.0}, "clip: expected a finite number > 0, got 0.0"),
        ({"validation_samples": 1}, "validation_samples: expected an integer >= 2, got 1"),
        ({"train_samples": 10**9}, "train_samples: expected at most 4 GiB"),
        ({"loss": "hinge"}, "loss: expected one of squared, cross_entropy, got 'hinge'"),
        ({"loss": "cross_entropy"}, "loss: expected squared for a task without labels"),
        ({"loss": "cross_entropy", "polish_steps": 1}, "polish_steps: expected 0"),
        ({"model": {"colour": 1}}, "model: expected one of readout_hidden"),
        ({"dimension": 0}, "dimension"),
        ({"options": {"token_dim": 3, "positions": [[7]]}}, "7"),
    ],
)
def test_bad_values_are_named(change, message):
    with pytest.raises(InvalidInput) as raised:
        tiny_grid(**change).trials()
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_trial_as_json_holds_all_of_it_in_plain_values():
    wells = np.array([[0.25], [0.75]], np.float32)
    (trial,) = tiny_grid(task="bowls", options={"token_dim": 1, "wells": wells}).trials()
    written = json.loads(trial.to_json())
    assert written["architecture"]["heads"] == 2
    assert dict(written["task"]["options"]) == {"dimension": 2, "token_dim": 1, "wells": [[0.25], [0.75]]}


@pytest.mark.parametrize("heads", [[1, 2], range(1, 3), np.arange(1, 3), tuple(np.arange(1, 3))])
def test_axes_however_written_are_the_same_grid(heads):
    plain = tiny_grid(heads=(1, 2), learning_rate=(0.5,), model=(("beta", 2.0),))
    other = tiny_grid(heads=heads, learning_rate=np.float64(0.5), model={"beta": 2.0})
    assert other == plain and hash(other) == hash(plain)
    assert [trial.id for trial in other.trials()] == [trial.id for trial in plain.trials()]


def test_a_task_by_its_name_is_that_task():
    assert Grid("max_sum", heads=3) == Grid(TaskChoice.of("max_sum"), heads=[3])
    with pytest.raises(InvalidInput, match="did you mean 'max_sum'"):
        Grid("max_sun").trials()

import json
from dataclasses import replace

import numpy as np
import pytest
from tiny import tiny_grid

from headcount.errors import InvalidInput
from headcount.tasks.registry import TASKS, register_task
from headcount.tasks.retrieval import RetrievalTask
from headcount.trials.grid import Grid
from headcount.trials.task_choice import TaskChoice, _built, _fingerprint
from headcount.trials.training import Training
from headcount.trials.trial import Trial


def test_a_grid_is_every_combination_once():
    grid = tiny_grid(heads=(1, 2, 2), length=(4, 8), seed=(0, 1, 2), learning_rate=(1e-3, 1e-2))
    trials = grid.trials()
    assert len(trials) == 2 * 2 * 3 * 2
    assert len({trial.id for trial in trials}) == len(trials)


def test_the_hash_depends_on_every_field_and_on_nothing_else():
    (trial,) = tiny_grid().trials()
    again = tiny_grid().trials()[0]
    assert trial.id == again.id
    changed = [
        replace(trial, seed=1),
        replace(trial, learning_rate=1e-4),
        replace(trial, length=7),
        replace(trial, task=trial.task.at(3)),
        replace(trial, architecture=replace(trial.architecture, beta=2.0)),
        replace(trial, training=replace(trial.training, clip=2.0)),
    ]
    assert len({trial.id, *(other.id for other in changed)}) == len(changed) + 1


def test_the_hash_of_a_trial_never_changes():
    """Results on disk are keyed by it: a change of this value orphans every results folder."""
    (trial,) = tiny_grid().trials()
    assert trial.id == "fe0a787cebf2dc95"


def test_options_in_another_order_are_the_same_task():
    one, other = (
        TaskChoice.of("bowls", token_dim=2, dimension=3),
        TaskChoice.of("bowls", dimension=3, token_dim=2),
    )
    assert one == other
    assert hash(TaskChoice.of("max_sum", directions=[[1.0, 0.0], [0.0, 1.0]])) is not None


def test_a_fixed_width_sets_the_head_dimension():
    trials = tiny_grid(heads=(1, 2, 3, 4, 5), width=32).trials()
    assert [trial.architecture.head_dim for trial in trials] == [32, 16, 11, 8, 7]


def test_dimensions_follow_the_task():
    (trial,) = tiny_grid(task="bowls_several", options={"token_dim": 2}).trials()
    assert trial.architecture.token_dim == 2
    assert trial.architecture.output_dim == trial.task.build().output_dim > 1


def test_one_hot_positions_know_the_length():
    (trial,) = tiny_grid(model=(("positions", "one_hot"),)).trials()
    assert trial.architecture.length == trial.length


def test_a_trial_as_json_holds_all_of_it():
    (trial,) = tiny_grid().trials()
    written = json.loads(trial.to_json())
    assert written["architecture"]["heads"] == 2
    assert dict(written["task"]["options"]) == {"dimension": 2, "token_dim": 3}


def test_warm_up_is_never_most_of_a_short_run():
    assert Training(steps=1000).warmup == 100
    assert Training(steps=30_000).warmup == 500


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heads": (0,)}, "heads = 0"),
        ({"length": (0,)}, "length = 0"),
        ({"heads": ()}, "heads = ()"),
        ({"heads": 3}, "heads = 3"),
        ({"head_dim": (0,)}, "head_dim = 0"),
        ({"learning_rate": (-1e-3,)}, "learning_rate = -0.001"),
        ({"learning_rate": (float("nan"),)}, "learning_rate = nan"),
        ({"learning_rate": (float("inf"),)}, "learning_rate = inf"),
        ({"learning_rate": (True,)}, "learning_rate = True"),
        ({"seed": (-1,)}, "seed = -1"),
        ({"width": 1}, "width = 1"),
        ({"steps": 0}, "steps = 0"),
        ({"steps": 45}, "steps = 45"),
        ({"warmup": 40}, "warmup = 40"),
        ({"weight_decay": -1.0}, "weight_decay = -1.0"),
        ({"clip": 0.0}, "clip = 0.0"),
        ({"validation_samples": 1}, "validation_samples = 1"),
        ({"dimension": (0,)}, "dimension"),
        ({"options": {"token_dim": 3, "positions": [[7]]}}, "7"),
    ],
)
def test_bad_values_are_named(change, message):
    with pytest.raises(InvalidInput) as raised:
        tiny_grid(**change).trials()
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_defaults_are_usable():
    assert len(Grid(TaskChoice.of("extremes")).trials()) == 9


def test_a_task_of_ones_own_is_known_by_what_it_computes():
    """A changed task under an old name must not find the old results."""

    def trial_of(factor: float) -> Trial:
        @register_task("scaled")
        def scaled(*, token_dim: int = 2) -> RetrievalTask:
            return RetrievalTask(
                name="scaled",
                token_dim=token_dim,
                coordinate_functions=(lambda token: token[0],),
                outer=lambda z: factor * z[0],
            )

        try:
            _built.cache_clear()
            _fingerprint.cache_clear()
            (trial,) = tiny_grid(task="scaled", options={}, dimension=None).trials()
            assert trial.id
            return trial
        finally:
            del TASKS["scaled"]

    assert trial_of(1.0).id == trial_of(1.0).id
    assert trial_of(1.0).id != trial_of(2.0).id


def test_options_from_numpy_are_plain_values():
    wells = np.array([[0.25], [0.75]], np.float32)
    (trial,) = tiny_grid(task="bowls", options={"token_dim": 1, "wells": wells}).trials()
    assert json.loads(trial.to_json())["task"]["options"][-1] == ["wells", [[0.25], [0.75]]]


def test_axes_from_numpy_are_the_same_trials():
    plain = tiny_grid(heads=(1, 2), learning_rate=(0.5,)).trials()
    numpy = tiny_grid(heads=tuple(np.arange(1, 3)), learning_rate=(np.float64(0.5),)).trials()
    assert [trial.id for trial in numpy] == [trial.id for trial in plain]

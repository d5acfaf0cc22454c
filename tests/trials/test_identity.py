"""What a trial is known by: what changes its key, and what does not."""

import functools
from dataclasses import field, fields, make_dataclass, replace

import jax.numpy as jnp
import numpy as np
import pytest
from reproduce.real.small import image_trial, ranking_trial
from tiny import tiny_grid

from headcount.data.arrays import data_set
from headcount.engine.data import data_of
from headcount.models.architecture import Architecture
from headcount.reproduce.real.trial import RealData
from headcount.tasks.registry import TASKS, register_task
from headcount.tasks.retrieval import RetrievalTask
from headcount.tasks.source import code_version
from headcount.trials import trial as module
from headcount.trials.task_choice import Task, TaskChoice, forget_built
from headcount.trials.training import Training
from headcount.trials.trial import Trial, essential, filled, written

(TRIAL,) = tiny_grid().trials()
X, Y = np.random.default_rng(0).normal(size=(200, 3, 2)), np.arange(200.0)
IMAGES, PASSAGES = (RealData.of(name, fingerprint="0" * 16) for name in ("cifar10", "msmarco"))
DATA = data_set(X, Y, name="mine.npz")


def on_data(data):
    return Trial(TaskChoice.of_data(data), 3, Architecture(token_dim=2, heads=1, head_dim=2))


def test_every_field_changes_the_key():
    changes = {"seed": 1, "learning_rate": 1e-4, "length": 7, "task": TRIAL.task.at(3)}
    changes["architecture"] = replace(TRIAL.architecture, beta=2.0)
    changes["training"] = replace(TRIAL.training, clip=2.0)
    assert set(changes) == {part.name for part in fields(Trial)}
    assert tiny_grid().trials()[0].id == TRIAL.id
    keys = {replace(TRIAL, **{name: value}).id for name, value in changes.items()}
    assert len(keys) == len(changes) and TRIAL.id not in keys


@pytest.mark.parametrize(
    ("trial", "key"),
    [
        (TRIAL, "62bed76974351020"),
        (replace(TRIAL, task=TaskChoice.of("data", fingerprint="0" * 16)), "2141b828020aa47a"),
        (replace(image_trial(), task=IMAGES), "b1ac63a00c6dc6c3"),
        (replace(ranking_trial(), task=PASSAGES), "8dffc003c06b08e5"),
        (replace(ranking_trial(joined=True), task=PASSAGES), "c6fb1d871d54dec1"),
    ],
    ids=["task", "data", "images", "passages", "words"],
)
def test_the_key_of_a_trial_never_changes(trial, key):
    """Results on disk are found by it: a change of this value orphans every results folder."""
    assert trial.id == key


def test_another_algorithm_changes_every_key(monkeypatch):
    for trial in (TRIAL, image_trial(), on_data(DATA)):
        before = trial.id
        with monkeypatch.context() as patched:
            patched.setattr(module, "ALGORITHM", module.ALGORITHM + 1)
            assert replace(trial).id != before and '"algorithm": 2' in replace(trial).to_json()


def later(kind, name, value):
    """The dataclass as a later version may have it, with one more field that has a default."""
    more = [(name, type(value), field(default=value))]
    return make_dataclass(kind.__name__, more, bases=(kind,), frozen=True)


def test_a_later_field_with_a_default_changes_no_key():
    shape, training = later(Architecture, "gated", False), later(Training, "momentum", 0.9)
    sizes = {part: getattr(TRIAL.architecture, part) for part in written(TRIAL.architecture)}
    trial = replace(TRIAL, architecture=shape(**sizes))
    assert '"gated": false' in trial.to_json() and trial.id == TRIAL.id
    assert replace(trial, architecture=shape(**sizes, gated=True)).id != TRIAL.id
    now, then = written(TRIAL.training), written(training(**written(TRIAL.training)))
    assert essential(training, then) == essential(Training, now) and "momentum" in then


def test_spelling_does_not_change_the_key():
    spelt = replace(TRIAL.training, warmup=None), replace(TRIAL.training, warmup=TRIAL.training.warmup)
    assert {replace(TRIAL, training=training).id for training in spelt} == {TRIAL.id}
    assert replace(TRIAL, learning_rate=1).id == replace(TRIAL, learning_rate=np.float64(1.0)).id


def test_a_spec_of_an_earlier_version_is_filled_with_the_defaults_of_today():
    values = written(TRIAL)
    early = {**values, "training": {**values["training"]}}
    del early["training"]["loss"]
    assert filled(Trial, early, task=Task, architecture=Architecture) == values
    with pytest.raises(KeyError, match="colour"):
        filled(Training, {"colour": 1})


def test_data_is_known_by_its_content_and_not_by_its_file():
    renamed, other = data_set(X, Y, name="renamed.npz"), data_set(X, Y**2, name="mine.npz")
    assert on_data(renamed).id == on_data(DATA).id != on_data(other).id
    assert on_data(renamed).task == on_data(DATA).task and "mine.npz" not in repr(on_data(DATA))


TEXT = """
SCALE = {scale}
TABLE = jnp.array([{entry}, 2.0])
def outer(z):{comment}
    return helper(SCALE * z[0])
def helper(value):
    return {helper}
def builder(*, token_dim: int = {default}):
    {doc}
    entry = lambda token: token[0] + TABLE[0]
    return RetrievalTask(name="own", token_dim=token_dim, coordinate_functions=(entry,), outer=outer)
"""
USUAL = {"scale": 0.5, "entry": 1.0, "comment": "", "helper": "value", "default": 2, "doc": "'About it.'"}


def key_of_own(*, version=None, **changes):
    """The key of a trial on a task whose module has this text."""
    names = {"__name__": "own_module", "RetrievalTask": RetrievalTask, "jnp": jnp}
    exec(TEXT.format(**{**USUAL, **changes}), names)
    register_task("own", version=version)(names["builder"])
    forget_built()
    try:
        return tiny_grid(task="own", options={}, dimension=None).trials()[0].id
    finally:
        del TASKS["own"]


def test_a_users_task_is_known_by_its_code_and_constants():
    """A changed task under an old name must not find the old results, however small the change."""
    changes = [{"scale": 0.5001}, {"entry": 1.0001}, {"helper": "-value"}, {"default": 3}]
    assert len({key_of_own(), *(key_of_own(**change) for change in changes)}) == len(changes) + 1
    assert key_of_own() == key_of_own(comment="  # why", doc="'Other words.'") == key_of_own(doc="pass")
    # ... unless it has a version, which it is known by.
    assert key_of_own(version="1") == key_of_own(version="1", scale=0.7) != key_of_own(version="2")


def test_a_constant_that_changes_while_python_runs_makes_another_task():
    """In a notebook the builder stays and a cell changes what it refers to: neither key nor data is stale."""
    names = {"__name__": "own_module", "RetrievalTask": RetrievalTask, "jnp": jnp}
    exec(TEXT.format(**USUAL), names)
    register_task("own")(names["builder"])
    try:
        before = tiny_grid(task="own", options={}, dimension=None).trials()[0]
        (spread,) = data_of([before])[0].deviation[0]
        names["SCALE"] = 5.0
        after = tiny_grid(task="own", options={}, dimension=None).trials()[0]
        assert after.id != before.id
        assert data_of([after])[0].deviation[0] == pytest.approx([10 * spread])
    finally:
        del TASKS["own"]


def test_a_decorator_is_a_part_of_the_task():
    def scaled(factor):
        def decorated(builder):
            @functools.wraps(builder)
            def built():
                return factor * builder()

            return built

        return decorated

    once, again, other = (code_version("own", scaled(factor)(lambda: 1.0)) for factor in (1.0, 1.0, 5.0))
    assert once == again != other

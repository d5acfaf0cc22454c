"""A user's data in larger arrays: the same training, and the programs of another data set."""

from dataclasses import replace
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from headcount.data.arrays import data_set
from headcount.engine import lanes
from headcount.engine.train import PackTraining
from headcount.estimate.members import MemberRecipe
from headcount.models.padding import pad, unpad
from headcount.trials import sizes
from headcount.trials.machine import Machine
from headcount.trials.pack import plan

CPU = Machine("cpu", "a cpu", lanes=2, memory=4 << 30)
GPU = Machine("gpu", "the vmapped program, on whatever device there is", lanes=1, memory=4 << 30)
MACHINES = pytest.mark.parametrize("machine", [CPU, GPU], ids=["cpu", "gpu"])

pytestmark = pytest.mark.usefixtures("compiled_quickly")


def own_data(*, samples=410, length=9, token_dim=3, labels=False, masked=False):
    random = np.random.default_rng(0)
    x = random.normal(size=(samples, length, token_dim))
    mask = random.random((samples, length)) < 0.6
    mask[:, 2] = True
    y = np.where(mask[..., None], x, -np.inf).max(axis=1)[:, :3]
    return data_set(x, y.argmax(axis=1) if labels else y, mask if masked else None)


def trials_on(data, **changes):
    recipe = MemberRecipe(
        steps=200, batch_size=32, width=8, hidden=8, starts=((2.0**-6, 0),), label_decay=0.1
    )
    return replace(recipe, **changes).trials(data, (1, 4))


def in_double(tree):
    leaves = jax.tree.map(np.asarray, tree)
    return jax.tree.map(lambda leaf: leaf.astype(np.float64) if leaf.dtype.kind == "f" else leaf, leaves)


def trained_in_double(trials, machine):
    """The pack trainings of the trials, and every member's model and best validation error, by trial."""
    found = {}
    with jax.enable_x64(True):
        for pack in plan(trials, machine):
            training = PackTraining(pack, machine)
            training.state, training.data = in_double(training.state), in_double(training.data)
            training.conditions = in_double(training.conditions)
            training.finish()
            for place, trial in enumerate(pack.trials):
                model = jax.tree.map(lambda leaf, place=place: np.asarray(leaf)[place], training.state.model)
                found[trial.id] = model, training.errors[place], training.outcomes()[place].test_error
    return found


DATA = {
    "numbers": lambda: trials_on(own_data()),
    "one output": lambda: trials_on(own_data(token_dim=1)),
    "masked labels": lambda: trials_on(own_data(labels=True, masked=True)),
    "positions": lambda: trials_on(own_data(), positions="both", weight_decay=0.1),
}


@MACHINES
@pytest.mark.parametrize("trials", DATA.values(), ids=DATA)
def test_larger_arrays_change_no_result_in_double_precision(trials, machine, monkeypatch):
    monkeypatch.setattr(lanes, "_cores", lambda _: SimpleNamespace(map=map))  # other threads have no float64
    trials = trials()
    rounded = trained_in_double(trials, machine)
    monkeypatch.setattr(sizes, "MAX_ROUNDED_BYTES", 0)
    exact = trained_in_double(trials, machine)
    for trial in trials:
        (larger, *errors), (model, *expected) = rounded[trial.id], exact[trial.id]
        np.testing.assert_allclose(errors, expected, rtol=1e-9)
        held, plain = (unpad(each, trial.architecture) for each in (larger, model))
        for leaf, other in zip(jax.tree.leaves(held), jax.tree.leaves(plain), strict=True):
            np.testing.assert_allclose(leaf, other, rtol=1e-7, atol=1e-9)
        for leaf, filled in zip(
            jax.tree.leaves(larger), jax.tree.leaves(pad(held, larger.architecture)), strict=True
        ):
            np.testing.assert_array_equal(leaf, filled)  # what is added stayed zero


@MACHINES
@pytest.mark.parametrize("positions", ["none", "both"])
def test_a_data_set_of_about_the_same_size_needs_no_other_program(machine, positions, monkeypatch):
    monkeypatch.setattr(lanes, "_programs", lanes.Programs(lanes.MAX_PROGRAMS))
    counts = []
    others = {"samples": 430, "length": 10, "token_dim": 4, "masked": True}
    for data, steps in ((own_data(), 200), (own_data(**others), 300)):
        for pack in plan(trials_on(data, positions=positions, steps=steps), machine):
            PackTraining(pack, machine).compile()
        counts.append(len(lanes._programs))
    assert counts[0] == counts[1] > 0


def test_large_data_keeps_its_size(monkeypatch):
    (trial, *_) = trials_on(own_data())
    assert sizes.array_sizes(trial).length == 10
    monkeypatch.setattr(sizes, "MAX_ROUNDED_BYTES", 1 << 10)
    assert sizes.array_sizes(trial).length == 9
    assert sizes.array_shape(trial.architecture, trial) == trial.architecture


def test_on_two_cores_the_program_of_a_head_count_depends_on_nothing_else():
    """So later stages, with fewer head counts and more steps, find the programs of earlier ones."""
    recipe = MemberRecipe(steps=200)
    data = own_data()

    def shapes(trials):
        return {pack.trials[0].architecture.heads: pack.architecture for pack in plan(trials, CPU)}

    probe = [*recipe.trials(data, (8,)), *replace(recipe, positions="both").trials(data, (8,))]
    look = shapes(recipe.trials(data, range(1, 9)))
    closer = shapes(replace(recipe, steps=8_000).trials(data, (2, 3, 8)))
    assert [architecture.heads for architecture in look.values()] == list(look) == list(range(1, 9))
    assert closer.items() <= look.items()
    assert look[8] in {pack.architecture for pack in plan(probe, CPU)}
    assert len(plan(recipe.trials(data, range(1, 9)), replace(CPU, lanes=8))) == 2

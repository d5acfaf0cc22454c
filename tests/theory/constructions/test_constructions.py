"""Definition, plain reference, construction and model class agree; what is promised is kept."""

import json
from dataclasses import replace
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from construction_cases import (
    CASES,
    GRID,
    both,
    defined,
    distance,
    made,
    own,
    plain_targets,
    sequences,
    unfolded,
)
from models.model_references import reference
from scipy.special import lambertw

from headcount.errors import InvalidInput
from headcount.tasks.library import Projection, bowls, bowls_product, extremes, max_sum
from headcount.theory.constructions.memorise import memorise
from headcount.theory.constructions.specialise import specialise

pytestmark = pytest.mark.usefixtures("compiled_quickly", "one_answer")

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.key)


def test_every_case_of_the_table_can_be_built_and_has_a_name_of_its_own():
    assert len({case.key for case in GRID}) == len(GRID) and set(CASES) <= set(GRID)
    for case in {(case.task, case.dimension, case.token_dim, case.positions): case for case in GRID}.values():
        task = case.build()
        assert (task.dimension, task.token_dim) == (case.dimension, case.token_dim)
        assert task.distribution == "uniform"


@every_case
def test_definition_reference_construction_and_model_class_agree(case):
    construction = made(case)
    model, x = construction.model, sequences(construction.task, case.length)
    definition, predicted = defined(construction.task, x), construction.predict(x)
    assert all(leaf.dtype == np.float64 for leaf in jax.tree.leaves(model))
    np.testing.assert_allclose(plain_targets(case, x), definition, rtol=1e-13, atol=1e-14)
    assert np.abs(predicted - definition).max() <= construction.error.total < case.epsilon
    with jax.enable_x64(True):
        plainly = jax.jit(jax.vmap(lambda sequence: model(sequence)))(jnp.asarray(x))
    np.testing.assert_allclose(plainly, predicted, rtol=1e-10, atol=1e-10)
    # The formula one head, one token and one unit at a time.
    some = [0, 1, 9, 17, 25]
    np.testing.assert_allclose(unfolded(model, x[some]), predicted[some], rtol=1e-10, atol=1e-10)


@every_case
def test_no_ascent_leaves_the_bound(case):
    construction = made(case)
    found = construction.measured_error(starts=20, steps=40)
    assert found.error <= construction.error.total < case.epsilon
    assert found.error == pytest.approx(distance(construction, found.x[None]), abs=1e-10)
    assert found.x.min() >= 0 and found.x.max() <= 1


def test_the_search_finds_an_error_planted_at_a_corner():
    task = bowls(dimension=1, token_dim=2, wells=[[0.7, 0.2]])
    construction = specialise(task, length=4, epsilon=0.1)
    steps = construction.model.architecture.encoder_hidden[0] // 2
    last = steps - 1  # the unit relu(x_0 − (1 − 1/steps)): nothing but a last stretch of the first axis
    weight = construction.model.encoder.weights[1]
    more = 0.3 * steps * (np.arange(weight.size) == last).reshape(weight.shape)
    tampered = eqx.tree_at(lambda model: model.encoder.weights[1], construction.model, weight + more)
    corner = np.broadcast_to([1.0, 0.0], (1, 4, 2))
    broken = replace(construction, model=tampered)
    assert distance(broken, corner) == pytest.approx(0.3, abs=0.03)
    assert distance(broken, np.full((1, 4, 2), 1 - 1.1 / steps)) < 0.1
    assert broken.measured_error().error > 0.25


def test_the_search_finds_a_gate_that_is_too_weak():
    # Tokens must be at opposite ends on and off S_i, and those of one head so that they spare the other.
    task = extremes(positions=["first half", "second half"])
    construction = specialise(task, length=16, epsilon=0.01, gate=-1.0)
    assert construction.measured_error().error > 0.25


def test_the_search_reaches_the_true_worst_case_of_a_soft_minimum():
    # sup_u n u e^(−βu) / (1 + n e^(−βu)) = W(n/e) / β with n = T − 1: all tokens but one tie.
    task = own(Projection((1.0,)), token_dim=1)
    construction = specialise(task, length=16, epsilon=0.05)
    worst = float(lambertw(15 / np.e).real) / construction.model.architecture.beta
    assert 0.99 * worst <= construction.measured_error().error <= 1.0001 * worst
    assert worst <= construction.error.parts["softened minimum"]


def with_outer(outer):
    return replace(bowls(dimension=3, token_dim=1), outer=outer, extrema=("max", "min", "max"))


# Coordinates and outer functions of a user's own
OWN = {
    "indices": bowls(dimension=2, token_dim=1, positions=[[0, 2], [1]]),
    "upside down": replace(bowls(dimension=2, token_dim=1), extrema=("max", "min"), positions=("odd", "all")),
    "lines and none": own(
        *map(Projection, [(0.0, 0.0), (1.0, -1.0), (-3.0, 0.5)]), extrema=("min", "max", "min")
    ),
    "constants": own(
        lambda x: 0.3 + 0 * x[0],
        lambda x: jnp.sin(x[0]) ** 2 + jnp.cos(x[0]) ** 2,
        lambda x: x[1],
        extrema=("min", "max", "max"),
    ),
    "kink and wave": own(
        lambda x: jnp.abs(x[0] - 0.37),
        lambda x: 0.5 + 0.5 * jnp.sin(64 * jnp.pi * x[0]),
        token_dim=1,
        extrema=("max", "min"),
    ),
    "far from 0 and 1": own(
        lambda x: 10 + 3 * x[0], lambda x: -7 * x[1] ** 2, extrema=("max", "min"), positions=("odd", "all")
    ),
    "not additive": own(lambda x: jnp.sin(3 * x[0]) * x[1], extrema=("max",), positions=("first half",)),
    "constant outer": with_outer(lambda z: 3.0 + 0 * z[0]),
    "sum by another name": with_outer(lambda z: z[0] + z[1] + z[2]),
    "squares": with_outer(lambda z: jnp.stack([jnp.sum(z**2), z[1], 2.0 + 0 * z[2]])),
    "cone": with_outer(jnp.linalg.norm),
    "corner": with_outer(lambda z: jax.nn.relu(jnp.sum(z) - 2.5)),
}


@cache
def built(make, name):
    return make(OWN[name], length=4, epsilon=0.4)


@both
@pytest.mark.parametrize("name", OWN)
def test_any_coordinates_and_any_outer_function_are_met(make, name):
    construction = built(make, name)
    x = sequences(construction.task, 4)
    assert distance(construction, x) <= construction.error.total < 0.4


def test_a_fitted_coordinate_is_cut_by_a_second_hidden_layer():
    construction = built(specialise, "not additive")
    hidden = construction.model.architecture.encoder_hidden
    assert len(hidden) == 2 and hidden[1] == 3  # psi, psi − 1, and the gate
    for push in (-1.0, 1.0):
        # However far psi is pushed out of [0, 1], what is read lies inside, and the gates still hold.
        bias = construction.model.encoder.biases[1] + np.array([push, 0.0, push])
        pushed = eqx.tree_at(lambda model: model.encoder.biases[1], construction.model, bias)
        for reading in (reference(pushed, sequence) for sequence in sequences(construction.task, 4)):
            assert reading.representation[0] == pytest.approx(float(push > 0), abs=0.05)
            assert reading.weights[0, 2:].max() < 1e-9


@pytest.mark.parametrize(("dimension", "positions"), [(1, "all"), (3, "first half")])
def test_specialise_has_a_head_of_two_numbers_for_every_coordinate(dimension, positions):
    task = bowls(dimension=dimension, token_dim=2, positions=positions)
    architecture = specialise(task, length=6, epsilon=0.1).model.architecture
    assert (architecture.heads, architecture.head_dim, architecture.layers) == (dimension, 2, 1)
    assert len(architecture.encoder_hidden) == len(architecture.readout_hidden) == 1
    assert architecture.positions == ("none" if positions == "all" else "one_hot")
    assert not architecture.layer_norm and not architecture.residual


def test_specialise_represents_what_its_labels_say():
    task = max_sum(dimension=3, token_dim=3, directions="orthonormal", positions=["all", "odd", "first half"])
    construction = specialise(task, length=6, epsilon=1e-3)
    assert construction.labels == ("psi_0", "1", "psi_1", "0", "psi_2", "0")
    x = sequences(task, 6)
    read = np.array([reference(construction.model, sequence).representation for sequence in x])
    coordinates = [x[:, :, 0].max(axis=1), x[:, 1::2, 1].max(axis=1), x[:, :3, 2].max(axis=1)]
    np.testing.assert_allclose(read[:, ::2], 1 - np.stack(coordinates, axis=1), atol=1e-3)
    np.testing.assert_allclose(read[:, 1::2], np.broadcast_to([1.0, 0.0, 0.0], (len(x), 3)), atol=1e-12)


@pytest.mark.parametrize("token_dim", [1, 2])
def test_memorise_hands_the_whole_sequence_to_the_readout(token_dim):
    task = bowls(dimension=2, token_dim=token_dim, positions=["first half", "odd"])
    construction = memorise(task, length=5, epsilon=0.2)
    architecture = construction.model.architecture
    assert (architecture.heads, architecture.head_dim) == (1, 5 * token_dim)
    assert len(architecture.readout_hidden) == 4
    for sequence in sequences(task, 5):
        reading = reference(construction.model, sequence)
        np.testing.assert_allclose(reading.weights, np.full((1, 5), 1 / 5), rtol=1e-15)
        np.testing.assert_allclose(reading.representation, sequence.ravel() / 5, atol=1e-15)
    assert construction.labels[token_dim] == "x(1)_0 / 5"


@both
def test_parts_add_up_and_travel_as_json(make):
    construction = make(extremes(), length=4, epsilon=0.1)
    loaded = json.loads(json.dumps(construction.to_json(), allow_nan=False))
    assert sum(loaded["parts"].values()) == loaded["bound"] == construction.error.total
    assert loaded["counted_parameters"] == construction.model.counted_parameters()
    assert loaded["proven"] is True and loaded["estimate"] is None


def test_the_same_seed_gives_the_same_weights():
    task = bowls_product(dimension=2, token_dim=1)
    one, other = (specialise(task, length=4, epsilon=0.5).model for _ in range(2))
    assert eqx.tree_equal(one, other)


def test_any_number_of_sequences_is_predicted():
    construction = specialise(extremes(), length=4, epsilon=0.1)
    x = np.random.default_rng(0).uniform(size=(2, 3, 4, 1))
    assert construction.predict(x).shape == (2, 3, 1)
    assert construction.predict(x[0, 0]).shape == (1,)
    assert construction.predict(x[:0]).shape == (0, 3, 1)
    with pytest.raises(InvalidInput, match=r"x: expected the shape \(\.\.\., 4, 1\), got \(2, 3, 5, 1\)"):
        construction.predict(np.zeros((2, 3, 5, 1)))


@pytest.mark.parametrize("epsilon", [1e-1, 1e-3, 1e-6])
def test_a_gate_of_minus_one_ties_whatever_the_sharpness(epsilon):
    # S = {0}. There psi = 1, the largest it can be; off it psi = 0, the smallest.
    task = own(Projection((1.0,)), token_dim=1, positions=([0],))
    tie = np.array([[1.0], [0.0]])
    weak = specialise(task, length=2, epsilon=epsilon, gate=-1.0)
    right = specialise(task, length=2, epsilon=epsilon)
    assert right.model.architecture.beta == weak.model.architecture.beta >= 2 / epsilon
    assert defined(task, tie) == pytest.approx(1.0)
    assert reference(weak.model, tie).output == pytest.approx(0.5)
    assert reference(right.model, tie).output == pytest.approx(1.0, abs=epsilon)
    np.testing.assert_allclose(reference(weak.model, tie).weights, [[0.5, 0.5]])

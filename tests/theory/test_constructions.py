"""Definition, plain reference, construction and model class agree; what is promised is kept, or refused."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from construction_cases import CASES, GRID, TABLE, made, plain_targets, sequences
from models.model_references import reference
from scipy.special import lambertw

from headcount.errors import InvalidInput
from headcount.tasks import RetrievalTask, bowls, bowls_product, bowls_several, extremes, max_sum
from headcount.tasks.coordinates import Projection
from headcount.theory import Construction, memorise, specialise

FloatArray = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
Maker = Callable[..., Construction]

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.key)
both = pytest.mark.parametrize("make", [specialise, memorise])


def defined(task: RetrievalTask, x: FloatArray) -> FloatArray:
    """The target by its definition, in float64."""
    with jax.enable_x64(True):
        return np.asarray(jax.jit(task.target)(jnp.asarray(x)))


def distance(made: Construction, x: FloatArray) -> float:
    return float(np.abs(made.predict(x) - defined(made.task, x)).max())


def own(*functions: Callable[..., Any], **options: Any) -> RetrievalTask:
    options = {"name": "own", "token_dim": 2, "outer": jnp.sum} | options
    return RetrievalTask(coordinate_functions=functions, **options)


# The table


def test_every_case_of_the_table_can_be_built_and_has_a_name_of_its_own() -> None:
    assert len({case.key for case in GRID}) == len(GRID)
    for case in {(case.task, case.dimension, case.token_dim, case.positions): case for case in GRID}.values():
        task = case.build()
        assert (task.dimension, task.token_dim) == (case.dimension, case.token_dim)
        assert task.distribution == "uniform"


def test_the_part_that_is_tested_has_every_kind() -> None:
    for field in ("construction", "task", "positions"):
        assert {getattr(case, field) for case in CASES} == {getattr(case, field) for case in GRID}
    assert {case.length for case in CASES} == set(TABLE.LENGTHS)


@every_case
def test_definition_reference_and_construction_agree(case: Any) -> None:
    construction = made(case)
    x = sequences(construction.task, case.length)
    definition = defined(construction.task, x)
    np.testing.assert_allclose(plain_targets(case, x), definition, rtol=1e-13, atol=1e-14)
    assert np.abs(construction.predict(x) - definition).max() <= construction.bound.total < case.epsilon


@every_case
def test_the_construction_is_a_member_of_the_model_class(case: Any) -> None:
    construction = made(case)
    model, x = construction.model, sequences(construction.task, case.length, count=2)
    assert all(leaf.dtype == np.float64 for leaf in jax.tree.leaves(model))
    assert sum(leaf.size for part in (model.encoder, model.readout) for leaf in jax.tree.leaves(part)) == (
        model.counted_parameters()
    )
    with jax.enable_x64(True):
        plainly = np.asarray(jax.vmap(model)(jnp.asarray(x)))
    predicted = construction.predict(x)
    np.testing.assert_allclose(plainly, predicted, rtol=1e-10, atol=1e-10)
    # The formula one head, one token and one unit at a time; the largest models would take it minutes.
    if model.counted_parameters() < 50_000:
        unfolded = [reference(model, sequence).output for sequence in x[[0, 3, 5]]]
        np.testing.assert_allclose(unfolded, predicted[[0, 3, 5]], rtol=1e-10, atol=1e-10)


@every_case
def test_no_ascent_leaves_the_bound(case: Any) -> None:
    construction = made(case)
    found = construction.measured_error(starts=20, steps=40)
    assert found.error <= construction.bound.total < case.epsilon
    assert found.error == pytest.approx(distance(construction, found.x[None]), abs=1e-12)
    assert found.x.min() >= 0 and found.x.max() <= 1


# The search for the worst case


def test_the_search_finds_an_error_planted_at_a_corner() -> None:
    task = bowls(dimension=1, token_dim=2, wells=[[0.7, 0.2]])
    construction = specialise(task, length=4, epsilon=0.1)
    steps = construction.model.architecture.encoder_hidden[0] // 2
    last = steps - 1  # the unit relu(x_0 − (1 − 1/steps)): nothing but a last stretch of the first axis
    tampered = eqx.tree_at(
        lambda model: model.encoder.weights[1],
        construction.model,
        replace_fn=lambda weight: (
            weight + 0.3 * steps * (np.arange(weight.size) == last).reshape(weight.shape)
        ),
    )
    corner = np.broadcast_to([1.0, 0.0], (1, 4, 2))
    broken = replace(construction, model=tampered)
    assert distance(broken, corner) == pytest.approx(0.3, abs=0.03)
    assert distance(broken, np.full((1, 4, 2), 1 - 1.1 / steps)) < 0.1
    assert broken.measured_error().error > 0.25


@pytest.mark.parametrize("positions", ["first half", ["first half", "second half"]], ids=str)
def test_the_search_finds_a_gate_that_is_too_weak(positions: Any) -> None:
    # Tokens must be at opposite corners on and off S_i: among random sequences that is one in 2^16.
    construction = specialise(extremes(positions=positions), length=16, epsilon=0.01, gate=-1.0)
    assert construction.measured_error().error > 0.25
    assert replace(construction, model=specialise(extremes(), length=16, epsilon=0.01).model)


@pytest.mark.parametrize("length", [2, 16])
def test_the_search_reaches_the_true_worst_case_of_a_soft_minimum(length: int) -> None:
    # sup_u n u e^(−βu) / (1 + n e^(−βu)) = W(n/e) / β with n = T − 1: all tokens but one tie.
    task = own(Projection((1.0,)), token_dim=1)
    construction = specialise(task, length=length, epsilon=0.05)
    beta = construction.model.architecture.beta
    worst = float(lambertw((length - 1) / np.e).real) / beta
    assert 0.99 * worst <= construction.measured_error().error <= 1.0001 * worst
    assert worst <= construction.bound.parts["softened minimum"]


# What a task may bring along


def wave(x: Any) -> Any:
    return 0.5 + 0.5 * jnp.sin(64 * jnp.pi * x[0])


OWN: dict[str, tuple[RetrievalTask, float]] = {
    "indices": (bowls(dimension=2, token_dim=1, positions=[[0, 2], [1]]), 0.1),
    "one position": (bowls(dimension=2, token_dim=1, positions=[["all"], [3]][1]), 0.1),
    "vector": (bowls_several(dimension=2, token_dim=1), 0.2),
    "min and max": (
        own(lambda x: (x[0] - 0.3) ** 2, lambda x: x[0] + 2 * x[1], extrema=("max", "min")),
        0.2,
    ),
    "bowl upside down": (replace(bowls(dimension=2, token_dim=1), extrema=("max", "min")), 0.1),
    "not additive": (own(lambda x: jnp.sin(3 * x[0]) * x[1], extrema=("max",)), 0.4),
    "far from 0 and 1": (own(lambda x: 100 + 30 * x[0], lambda x: -7 * x[1] ** 2), 3.0),
    "constant": (own(lambda x: 0.3 + 0 * x[0], lambda x: x[1]), 0.2),
    "constant up to rounding": (own(lambda x: jnp.sin(x[0]) ** 2 + jnp.cos(x[0]) ** 2, lambda x: x[1]), 0.2),
    "a projection of nothing": (own(Projection((0.0, 0.0)), Projection((1.0, -1.0))), 0.2),
    "kink": (own(lambda x: abs(x[0] - 0.37), token_dim=1, extrema=("max",)), 0.2),
    "wave": (own(wave, token_dim=1), 0.2),
    "constant F_0": (replace(bowls(dimension=2, token_dim=1), outer=lambda z: 3.0 + 0 * z[0]), 0.1),
    "F_0 of two constants": (own(lambda x: 1.0 + 0 * x[0], outer=lambda z: jnp.stack([z[0], -z[0]])), 0.1),
    "squares": (replace(bowls(dimension=2, token_dim=1), outer=lambda z: jnp.sum(z**2)), 0.2),
    "cone": (replace(bowls(dimension=2, token_dim=1), outer=jnp.linalg.norm), 0.4),
    "corner": (
        replace(bowls(dimension=3, token_dim=1), outer=lambda z: jax.nn.relu(jnp.sum(z) - 2.5)),
        0.3,
    ),
}


@both
@pytest.mark.parametrize("name", OWN)
def test_any_task_is_met(make: Maker, name: str) -> None:
    task, epsilon = OWN[name]
    construction = make(task, length=4, epsilon=epsilon)
    x = sequences(task, 4, count=64)
    assert distance(construction, x) <= construction.bound.total < epsilon
    assert construction.measured_error(starts=20, steps=20).error <= construction.bound.total


def test_a_fitted_coordinate_is_cut_by_a_second_hidden_layer() -> None:
    task, epsilon = OWN["not additive"]
    architecture = specialise(task, length=4, epsilon=epsilon).model.architecture
    assert len(architecture.encoder_hidden) == 2
    assert architecture.encoder_hidden[1] == 3 * task.dimension


def test_a_cut_keeps_what_lies_between_and_the_gates() -> None:
    task, epsilon = OWN["not additive"]
    task = replace(task, positions=("first half",))
    construction = specialise(task, length=4, epsilon=epsilon)
    # A model whose psi is pushed out of [0, 1] by one on either side still reads values inside.
    for push in (-1.0, 1.0):
        pushed = eqx.tree_at(
            lambda model: model.encoder.biases[1],
            construction.model,
            replace_fn=lambda bias, push=push: bias + np.array([push, 0.0, push]),
        )
        with jax.enable_x64(True):
            x = jnp.asarray(sequences(task, 4))
            read = np.asarray(jax.vmap(pushed.representation)(x))[:, 0]
        assert read.min() >= 0 and read.max() <= 1 + 1e-12
        np.testing.assert_allclose(read, float(push > 0), atol=0.1)
    assert distance(construction, sequences(task, 4, count=64)) <= construction.bound.total


# The shape of both


@pytest.mark.parametrize("dimension", [1, 3])
@pytest.mark.parametrize("positions", ["all", "first half"])
def test_specialise_has_a_head_of_two_numbers_for_every_coordinate(dimension: int, positions: str) -> None:
    task = bowls(dimension=dimension, token_dim=2, positions=positions)
    architecture = specialise(task, length=6, epsilon=0.1).model.architecture
    assert (architecture.heads, architecture.head_dim, architecture.layers) == (dimension, 2, 1)
    assert len(architecture.encoder_hidden) == len(architecture.readout_hidden) == 1
    assert architecture.positions == ("none" if positions == "all" else "one_hot")
    assert not architecture.layer_norm and not architecture.residual


def test_specialise_represents_what_its_labels_say() -> None:
    task = max_sum(dimension=3, token_dim=3, directions="orthonormal", positions=["all", "odd", "first half"])
    construction = specialise(task, length=6, epsilon=1e-3)
    assert construction.labels == ("psi_0", "1", "psi_1", "0", "psi_2", "0")
    x = sequences(task, 6)
    with jax.enable_x64(True):
        read = np.asarray(jax.vmap(construction.model.representation)(jnp.asarray(x)))
    coordinates = [x[:, :, 0].max(axis=1), x[:, 1::2, 1].max(axis=1), x[:, :3, 2].max(axis=1)]
    np.testing.assert_allclose(read[:, ::2], 1 - np.stack(coordinates, axis=1), atol=1e-3)
    np.testing.assert_allclose(read[:, 1::2], np.broadcast_to([1.0, 0.0, 0.0], (len(x), 3)), atol=1e-12)


@pytest.mark.parametrize("token_dim", [1, 2])
def test_memorise_hands_the_whole_sequence_to_the_readout(token_dim: int) -> None:
    task = bowls(dimension=2, token_dim=token_dim, positions=["first half", "odd"])
    construction = memorise(task, length=5, epsilon=0.2)
    architecture = construction.model.architecture
    assert (architecture.heads, architecture.head_dim) == (1, 5 * token_dim)
    assert len(architecture.readout_hidden) == 4
    x = sequences(task, 5)
    with jax.enable_x64(True):
        weights = jax.vmap(construction.model.attention_weights)(jnp.asarray(x))
        read = jax.vmap(construction.model.representation)(jnp.asarray(x))
    np.testing.assert_array_equal(weights, np.full((len(x), 1, 5), 1 / 5))
    np.testing.assert_allclose(read, x.reshape(len(x), -1) / 5, atol=1e-15)
    assert construction.labels[token_dim] == "x(1)_0 / 5"


@both
def test_a_smaller_epsilon_costs_parameters_and_pays_in_error(make: Maker) -> None:
    task = bowls(dimension=2, token_dim=1)
    loose, tight = (make(task, length=4, epsilon=epsilon) for epsilon in (0.2, 0.02))
    assert loose.model.counted_parameters() < tight.model.counted_parameters()
    assert tight.measured_error().error < 0.3 * loose.measured_error().error


@both
def test_parts_add_up_and_travel_as_json(make: Maker) -> None:
    construction = make(extremes(), length=4, epsilon=0.1)
    told = json.loads(json.dumps(construction.to_json(), allow_nan=False))
    assert sum(told["bound_parts"].values()) == pytest.approx(told["bound"]) == construction.bound.total
    assert told["counted_parameters"] == construction.model.counted_parameters()
    assert told["bound_proven"] is construction.bound.proven is True


@both
def test_the_same_seed_gives_the_same_weights(make: Maker) -> None:
    task = bowls_product(dimension=2, token_dim=1)
    one, other = (make(task, length=4, epsilon=0.2).model for _ in range(2))
    assert eqx.tree_equal(one, other)


@both
def test_any_number_of_sequences_is_predicted(make: Maker) -> None:
    construction = make(extremes(), length=4, epsilon=0.1)
    x = np.random.default_rng(0).uniform(size=(2, 3, 4, 1))
    assert construction.predict(x).shape == (2, 3, 1)
    assert construction.predict(x[0, 0]).shape == (1,)
    assert construction.predict(x[:0]).shape == (0, 3, 1)
    with pytest.raises(InvalidInput, match=r"x of shape \(2, 3, 5, 1\): allowed is \(\.\.\., 4, 1\)"):
        construction.predict(np.zeros((2, 3, 5, 1)))


# The gate


@pytest.mark.parametrize("epsilon", [1e-1, 1e-3, 1e-6])
def test_a_gate_of_minus_one_ties_whatever_the_sharpness(epsilon: float) -> None:
    # S = {0}. There psi = 1, the largest it can be; off it psi = 0, the smallest.
    task = own(Projection((1.0,)), token_dim=1, positions=([0],))
    tie = np.array([[1.0], [0.0]])
    weak = specialise(task, length=2, epsilon=epsilon, gate=-1.0)
    right = specialise(task, length=2, epsilon=epsilon)
    assert right.model.architecture.beta == weak.model.architecture.beta >= 2 / epsilon
    assert defined(task, tie) == pytest.approx(1.0)
    assert weak.predict(tie) == pytest.approx(0.5)
    assert right.predict(tie) == pytest.approx(1.0, abs=epsilon)
    with jax.enable_x64(True):
        np.testing.assert_allclose(weak.model.attention_weights(jnp.asarray(tie)), [[0.5, 0.5]])


# What is refused, and how


def message(make: Maker, task: RetrievalTask, **options: Any) -> str:
    with pytest.raises(InvalidInput) as raised:
        make(task, **options)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def proposed(text: str) -> float:
    found = re.search(r"epsilon = (\S+) would", text)
    assert found is not None, text
    return float(found[1])


@both
@pytest.mark.parametrize("epsilon", [0, -1e-3, np.nan, np.inf, -np.inf, "0.1", None, True])
def test_epsilon_is_a_positive_number(make: Maker, epsilon: Any) -> None:
    assert message(make, extremes(), length=4, epsilon=epsilon).startswith("epsilon = ")


@both
@pytest.mark.parametrize("length", [0, -1, 2.0, None, True])
def test_a_length_is_a_whole_number(make: Maker, length: Any) -> None:
    assert message(make, extremes(), length=length, epsilon=0.1).startswith("length = ")


@both
def test_positions_must_exist_at_this_length(make: Maker) -> None:
    task = bowls(dimension=1, token_dim=1, positions=[0, 5])
    assert "position 5" in message(make, task, length=4, epsilon=0.1)


@both
@pytest.mark.parametrize(
    ("task", "reason"),
    [
        (own(lambda x: jnp.log(x[0] - 0.5)), "coordinate function 0 is not finite"),
        (own(lambda x: x[0], lambda x: jnp.log(x[1])), "coordinate function 1 is not finite"),
        (own(lambda x: x[0], outer=lambda z: jnp.log(z[0] - 0.5)), "F_0 is not finite"),
        (own(lambda x: x[0], outer=lambda z: jnp.sqrt(z[0])), "F_0 is infinitely steep"),
    ],
)
def test_values_and_slopes_must_be_finite(make: Maker, task: RetrievalTask, reason: str) -> None:
    assert message(make, task, length=4, epsilon=0.1).startswith(reason)


@pytest.mark.parametrize("epsilon", [1e-30, 1e-320])
@pytest.mark.parametrize(
    ("task", "reason"),
    [
        (extremes(), "float64"),
        (replace(extremes(), outer=lambda z: 1e6 + jnp.sum(z)), "float64"),
        (bowls(dimension=2, token_dim=1), "knots"),
        (own(lambda x: jnp.exp(x[0]), token_dim=1), "knots"),
    ],
)
def test_an_epsilon_out_of_reach_comes_with_one_within(
    task: RetrievalTask, reason: str, epsilon: float
) -> None:
    refused = message(specialise, task, length=4, epsilon=epsilon)
    assert reason in refused
    possible = proposed(refused)
    construction = specialise(task, length=4, epsilon=possible)
    x = sequences(task, 4)
    assert distance(construction, x) <= construction.bound.total + possible / 100 < 1.01 * possible


@pytest.mark.parametrize("epsilon", [1e-30, 1e-2])
@pytest.mark.parametrize(
    "task", [extremes(), bowls(dimension=2, token_dim=2), bowls_product(dimension=2, token_dim=1)], ids=str
)
def test_what_memory_cannot_hold_comes_with_an_epsilon_that_fits(task: RetrievalTask, epsilon: float) -> None:
    options: dict[str, Any] = {"length": 16, "memory_gib": 2e-3}
    refused = message(memorise, task, epsilon=epsilon, **options)
    if epsilon == 1e-2:
        assert re.search(r"at length 16 the weights take \S+ GiB, more than memory_gib = 0\.002;", refused)
    construction = memorise(task, epsilon=proposed(refused), **options)
    assert construction.bound.total < proposed(refused)
    leaves = jax.tree.leaves(construction.model)
    assert sum(leaf.nbytes for leaf in leaves) <= 1.01 * 2e-3 * 2**30


def test_where_no_epsilon_fits_a_length_is_to_blame() -> None:
    refused = message(memorise, extremes(), length=64, epsilon=0.1, memory_gib=1e-5)
    assert "no epsilon fits" in refused and "length" in refused


@pytest.mark.parametrize("memory", [0, -1, np.nan, np.inf])
def test_memory_is_a_positive_number(memory: float) -> None:
    assert "memory_gib = " in message(memorise, extremes(), length=4, epsilon=0.1, memory_gib=memory)


# What is said about the assumptions


def told(make: Maker, task: RetrievalTask, epsilon: float = 0.2) -> str:
    return "\n".join(make(task, length=4, epsilon=epsilon).guarantees)


@both
def test_the_domain_is_named_where_tokens_leave_it(make: Maker) -> None:
    normal = max_sum(dimension=2, token_dim=2)
    assert "domain fails" in told(make, normal)
    assert "domain fails" not in told(make, replace(normal, distribution="uniform"))


@both
def test_a_range_that_is_rescaled_is_named(make: Maker) -> None:
    assert "range fails" in told(make, own(lambda x: 3 * x[0]), epsilon=1.0)
    assert "range fails" not in told(make, extremes())


@both
def test_what_was_measured_is_not_called_proven(make: Maker) -> None:
    fitted, exact = bowls_product(dimension=2, token_dim=1), bowls(dimension=2, token_dim=1)
    assert "measured, not proven" in told(make, fitted) and "assumption 3 unknown" in told(make, fitted)
    assert "measured" not in told(make, exact) and "assumption 3: explicit knots" in told(make, exact)
    assert not make(fitted, length=4, epsilon=0.2).bound.proven
    assert make(exact, length=4, epsilon=0.2).bound.proven

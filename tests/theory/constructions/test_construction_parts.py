"""The parts that constructions are made of: networks by knots, fitted networks, and the maximum."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headcount.theory.constructions import structure
from headcount.theory.constructions.memorise import maximum
from headcount.theory.constructions.shallow import (
    MAX_KNOTS,
    OutOfReach,
    additive,
    along_axes,
    evaluated,
    linear,
    non_negative,
    parabolas,
    rounded_up,
    within_reach,
)
from headcount.theory.constructions.structure import fit, is_additive, network_of, ridge
from headcount.theory.search import largest

quickly = settings(max_examples=60)
signed = st.floats(-5, 5)
seeds = st.integers(0, 2**32 - 1)
ROUNDING = 1e-10


def points(inputs, seed, count=400):
    """Random points of the cube, half of them with some entries on its faces."""
    random = np.random.default_rng(seed)
    x = random.uniform(size=(count, inputs))
    faces = random.uniform(size=x.shape) < 0.4
    faces[: count // 2] = False
    return np.where(faces, x.round(), x)


def off(net, function, x):
    return np.abs(net(x) - evaluated(function, x)).max()


centres = st.lists(st.floats(-0.5, 1.5), min_size=1, max_size=4).map(np.array)


@given(centres, signed, signed, st.floats(1e-5, 1.0), seeds)
@quickly
def test_parabolas_keep_to_their_error_and_range_with_no_more_knots_than_needed(
    centre, curvature, constant, tolerance, seed
):
    net = parabolas(centre, curvature, constant, tolerance)
    x = points(len(centre), seed)
    values = net(x)[:, 0]
    bowl = curvature * ((x - centre) ** 2).sum(axis=1) + constant
    assert np.abs(values - bowl).max() <= net.error + ROUNDING
    assert net.error <= tolerance * (1 + 1e-12) and net.points == 0
    nearest = ((centre - centre.clip(0, 1)) ** 2).sum()
    farthest = (np.maximum(abs(centre), abs(1 - centre)) ** 2).sum()
    low, high = sorted([curvature * nearest + constant, curvature * farthest + constant])
    assert values.min() >= low - ROUNDING and values.max() <= high + ROUNDING
    steps = net.units // len(centre)
    assert steps == 1 or len(centre) * abs(curvature) / (4 * (steps - 1) ** 2) > tolerance


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 9), seeds)
@quickly
def test_along_axes_is_straight_between_knots(inputs, outputs, steps, seed):
    values = np.random.default_rng(seed).normal(size=(steps + 1, inputs, outputs))
    net = along_axes(values, error=0.0)
    x, knots = points(inputs, seed), np.linspace(0, 1, steps + 1)
    expected = [
        sum(np.interp(x[:, j], knots, values[:, j, output]) for j in range(inputs))
        for output in range(outputs)
    ]
    np.testing.assert_allclose(net(x), np.stack(expected, axis=1), atol=ROUNDING)
    assert net.units == steps * inputs


@given(st.integers(1, 3), st.floats(3e-2, 1.0), seeds)
@settings(max_examples=12)
def test_additive_keeps_to_its_error(inputs, tolerance, seed):
    random = np.random.default_rng(seed)
    height, kink = random.normal(size=(2, 2, inputs))
    speed, place = 40 * random.uniform(size=(2, inputs)), random.uniform(size=(2, inputs))

    def function(x):
        """Waves and kinks along each axis, with two outputs."""
        x = x[:, None]
        return (height * jnp.sin(speed * x) + kink * abs(x - place)).sum(axis=2)

    net = additive(function, inputs, tolerance)
    assert off(net, function, points(inputs, seed, count=4000)) <= net.error <= tolerance
    assert net.points > 0


@pytest.mark.parametrize("waves", [32, 64, 1024])
def test_a_wave_cannot_hide_between_the_places_that_are_looked_at(waves):
    net = additive(lambda x: jnp.sin(2 * np.pi * waves * x), 1, tolerance=0.2)
    x = points(1, 0)
    assert np.abs(net(x) - np.sin(2 * np.pi * waves * x)).max() <= 0.2


@given(st.integers(1, 4), seeds)
@quickly
def test_a_line_from_0_to_1_is_a_single_unit(inputs, seed):
    direction = np.random.default_rng(seed).normal(size=inputs)
    low, high = np.minimum(direction, 0).sum(), np.maximum(direction, 0).sum()
    net = non_negative(direction / (high - low), -low / (high - low))
    x = points(inputs, seed)
    np.testing.assert_allclose(net(x)[:, 0], (x @ direction - low) / (high - low), atol=1e-12)
    assert net.units == 1 and net.inside
    assert net(x).min() >= 0 and net(x).max() <= 1 + 1e-12


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: (x**2).sum(axis=1, keepdims=True), True),
        (lambda x: jnp.stack([x.sum(axis=1), abs(x - 0.3).sum(axis=1)], axis=1), True),
        (lambda x: jnp.zeros((len(x), 1)), True),
        (lambda x: x.prod(axis=1, keepdims=True), False),
        (lambda x: jnp.stack([x.sum(axis=1), 1e-3 * x[:, 0] * x[:, 2]], axis=1), False),
        (lambda x: jnp.maximum(x.sum(axis=1, keepdims=True) - 2.9, 0), False),
    ],
)
def test_inputs_that_act_on_each_other_are_seen(function, expected):
    assert is_additive(function, 3) is expected


@given(st.integers(1, 12), st.integers(1, 40), seeds)
@quickly
def test_the_maximum_is_met_from_above_to_one_level(count, steps, seed):
    u = points(count, seed)
    above = maximum(count, steps)(u) - u.max(axis=1)
    assert above.min() >= -1e-12
    assert above.max() <= (1 - 1 / count) / steps + 1e-12


WITHOUT_STRUCTURE = {
    "saddle": (2, 0.04, lambda x: jnp.sin(3 * x[:, :1]) * x[:, 1:]),
    "cone": (2, 0.03, lambda x: jnp.linalg.norm(x - 0.4, axis=1, keepdims=True)),
    "two outputs": (2, 0.05, lambda x: jnp.stack([x.prod(axis=1), 1 / (1 + x.sum(axis=1))], axis=1)),
    "three inputs": (3, 0.15, lambda x: (1 + x).prod(axis=1, keepdims=True)),
}


@pytest.mark.parametrize("name", WITHOUT_STRUCTURE)
def test_a_fit_keeps_to_its_tolerance_at_points_it_never_saw(name):
    inputs, tolerance, function = WITHOUT_STRUCTURE[name]
    net = fit(function, inputs, tolerance)
    assert off(net, function, points(inputs, seed=12345, count=40_000)) <= net.error <= tolerance
    assert net.points > 0


@pytest.mark.parametrize(
    ("build", "why"),
    [
        (
            lambda tolerance: fit(WITHOUT_STRUCTURE["saddle"][2], 2, tolerance),
            "32 units; .* would be possible",
        ),
        (
            lambda tolerance: parabolas(np.array([0.3, 0.6]), 2.0, 0.0, tolerance),
            f"more than {MAX_KNOTS} knots",
        ),
        (lambda tolerance: additive(lambda x: x**2, 1, tolerance), f"more than {MAX_KNOTS} knots"),
    ],
    ids=["fit", "parabolas", "additive"],
)
@pytest.mark.parametrize("tolerance", [1e-12, 1e-300])
def test_a_tolerance_out_of_reach_comes_with_one_that_works(build, why, tolerance, monkeypatch):
    monkeypatch.setattr(structure, "MAX_UNITS", 32)
    with pytest.raises(OutOfReach, match=f"tolerance = {tolerance:g}: .*{why}") as raised:
        build(tolerance)
    assert build(raised.value.possible).error <= raised.value.possible


def test_the_possible_epsilon_serves_every_network():
    def needs(least):
        def build(tolerance):
            if tolerance < least:
                raise OutOfReach("tolerance", tolerance, least, f"least is {least}")
            return linear(np.eye(1), np.zeros(1))

        return build

    builders = [(needs(1e-3), 0.5), (needs(3e-3), 0.25), (needs(1e-9), 1.0)]
    words = r"epsilon = 1e-30: least is 0\.003; epsilon = 0\.013 would"
    with pytest.raises(OutOfReach, match=words) as raised:
        within_reach(1e-30, builders, finest=1e-12)
    assert len(within_reach(raised.value.possible, builders, finest=1e-12)) == 3
    with pytest.raises(OutOfReach, match=r"float64 .* epsilon = 0\.1 would"):
        within_reach(0.05, builders, finest=0.1)


@given(st.floats(1e-300, 1e300))
@quickly
def test_rounding_up_never_falls_short(value):
    rounded = rounded_up(value)
    assert value <= rounded <= 1.101 * value
    assert rounded_up(rounded) == rounded == float(f"{rounded:g}")


@given(st.integers(1, 4), seeds)
@settings(max_examples=10)
def test_the_largest_value_is_found_in_small_cubes(inputs, seed):
    centre = np.random.default_rng(seed).uniform(size=inputs)
    assert -1e-6 <= largest(lambda x: -jnp.linalg.norm(x - centre, axis=1), inputs=inputs) <= 0


directions = st.lists(st.floats(-1, 1), min_size=2, max_size=3).map(np.array)


@given(directions, st.sampled_from([jnp.sin, jnp.exp, jnp.tanh]), seeds)
@settings(max_examples=4)
def test_a_function_of_one_direction_is_built_by_knots_along_it(direction, shape, seed):
    assume(np.abs(direction).max() > 0.1)

    def function(x):
        return jnp.stack([shape(x @ direction), shape(x @ direction + 1)], axis=1)

    net = ridge(function, len(direction), 0.02)
    assert net is not None
    assert off(net, function, points(len(direction), seed)) - ROUNDING <= net.error <= 0.02
    assert np.linalg.matrix_rank(net.inner, tol=1e-6 * np.abs(net.inner).max()) == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x[:, :1] - 0.3) * (x[:, 1:2] - 0.6),
        lambda x: jnp.sin(x @ np.array([[1.0], [2.0]])) + x[:, :1],
        lambda x: jnp.zeros((len(x), 1)),
    ],
)
def test_a_function_of_two_directions_or_none_is_no_ridge(function):
    assert ridge(function, 2, 1e-2) is None


def test_a_network_takes_the_structure_that_is_there():
    sum_of_axes = network_of(lambda x: (x**2).sum(axis=1, keepdims=True), 2, 1e-2)
    assert set(map(tuple, sum_of_axes.inner)) == {(1.0, 0.0), (0.0, 1.0)}
    one_direction = network_of(lambda x: jnp.exp(x @ np.array([[1.0], [-1.0]])), 2, 1e-2)
    assert np.allclose(one_direction.inner[:, 0], -one_direction.inner[:, 1])
    neither = network_of(lambda x: x[:, :1] * x[:, 1:2], 2, 1e-1)
    assert np.linalg.matrix_rank(neither.inner) == 2

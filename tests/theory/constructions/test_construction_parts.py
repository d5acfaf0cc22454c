"""The parts that constructions are made of: networks by knots, fitted networks, and the maximum."""

from collections.abc import Callable

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
    Shallow,
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

FloatArray = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
Function = Callable[[FloatArray], FloatArray]

quickly = settings(max_examples=60, deadline=None)
unit = st.floats(0, 1)
signed = st.floats(-5, 5)
seeds = st.integers(0, 2**32 - 1)
ROUNDING = 1e-10


def points(inputs: int, seed: int, count: int = 400) -> FloatArray:
    """Random points of the cube, half of them with some entries on its faces."""
    random = np.random.default_rng(seed)
    x = random.uniform(size=(count, inputs))
    faces = random.uniform(size=x.shape) < 0.4
    faces[: count // 2] = False
    return np.where(faces, x.round(), x)


@st.composite
def bowls(draw: st.DrawFn) -> tuple[FloatArray, float, float]:
    centre = np.array(draw(st.lists(st.floats(-0.5, 1.5), min_size=1, max_size=4)))
    return centre, draw(signed), draw(signed)


def bowl(x: FloatArray, shape: tuple[FloatArray, float, float]) -> FloatArray:
    centre, curvature, constant = shape
    return curvature * ((x - centre) ** 2).sum(axis=1) + constant


@given(bowls(), st.floats(1e-5, 1.0), seeds)
@quickly
def test_parabolas_keep_to_their_error(
    shape: tuple[FloatArray, float, float], tolerance: float, seed: int
) -> None:
    net = parabolas(*shape, tolerance)
    x = points(len(shape[0]), seed)
    assert np.abs(net(x)[:, 0] - bowl(x, shape)).max() <= net.error + ROUNDING
    assert net.error <= tolerance * (1 + 1e-12) and net.proven


@given(bowls(), st.floats(1e-3, 1.0), seeds)
@quickly
def test_parabolas_stay_inside_the_range(
    shape: tuple[FloatArray, float, float], tolerance: float, seed: int
) -> None:
    centre, curvature, constant = shape
    values = parabolas(*shape, tolerance)(points(len(centre), seed))
    nearest = ((centre - centre.clip(0, 1)) ** 2).sum()
    farthest = (np.maximum(abs(centre), abs(1 - centre)) ** 2).sum()
    low, high = sorted([curvature * nearest + constant, curvature * farthest + constant])
    assert values.min() >= low - ROUNDING and values.max() <= high + ROUNDING


@given(bowls(), st.floats(1e-4, 1.0))
@quickly
def test_parabolas_take_no_more_knots_than_they_need(
    shape: tuple[FloatArray, float, float], tolerance: float
) -> None:
    centre, curvature, _ = shape
    steps = parabolas(*shape, tolerance).units // len(centre)
    assert steps == 1 or len(centre) * abs(curvature) / (4 * (steps - 1) ** 2) > tolerance


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 9), seeds)
@quickly
def test_along_axes_is_straight_between_knots(inputs: int, outputs: int, steps: int, seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=(steps + 1, inputs, outputs))
    net = along_axes(values, error=0.0, proven=True)
    x = points(inputs, seed)
    knots = np.linspace(0, 1, steps + 1)
    expected = [
        sum(np.interp(x[:, j], knots, values[:, j, output]) for j in range(inputs))
        for output in range(outputs)
    ]
    np.testing.assert_allclose(net(x), np.stack(expected, axis=1), atol=ROUNDING)
    assert net.units == steps * inputs


@st.composite
def sums(draw: st.DrawFn) -> tuple[int, Function]:
    """Waves and kinks along each axis, with two outputs."""
    inputs = draw(st.integers(1, 3))
    random = np.random.default_rng(draw(seeds))
    height, kink = random.normal(size=(2, 2, inputs))
    speed, place = 40 * random.uniform(size=(2, inputs)), random.uniform(size=(2, inputs))

    def function(x: FloatArray) -> FloatArray:
        waves = [(height[i] * jnp.sin(speed[i] * x)).sum(axis=1) for i in range(2)]
        return jnp.stack([w + (kink[i] * abs(x - place[i])).sum(axis=1) for i, w in enumerate(waves)], axis=1)

    return inputs, function


@given(sums(), st.floats(3e-2, 1.0), seeds)
@settings(max_examples=12, deadline=None)
def test_additive_keeps_to_its_error(case: tuple[int, Function], tolerance: float, seed: int) -> None:
    inputs, function = case
    net = additive(function, inputs, tolerance)
    x = points(inputs, seed, count=4000)
    assert np.abs(net(x) - evaluated(function, x)).max() <= net.error <= tolerance
    assert not net.proven


@pytest.mark.parametrize("waves", [32, 64, 1024])
def test_a_wave_cannot_hide_between_the_places_that_are_looked_at(waves: int) -> None:
    net = additive(lambda x: jnp.sin(2 * np.pi * waves * x), 1, tolerance=0.2)
    x = points(1, 0)
    assert np.abs(net(x) - np.sin(2 * np.pi * waves * x)).max() <= 0.2


@given(st.integers(1, 4), seeds)
@quickly
def test_a_line_from_0_to_1_is_a_single_unit(inputs: int, seed: int) -> None:
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
def test_inputs_that_act_on_each_other_are_seen(function: Function, expected: bool) -> None:
    assert is_additive(function, 3) is expected


numbers = st.integers(1, 12)
levels = st.integers(1, 40)


@given(numbers, levels, seeds)
@quickly
def test_the_maximum_is_met_from_above_to_one_level(count: int, steps: int, seed: int) -> None:
    net = maximum(count, steps)
    u = points(count, seed)
    above = net(u) - u.max(axis=1)
    assert above.min() >= -1e-12
    assert above.max() <= (1 - 1 / count) / steps + 1e-12 < 1 / steps + 2e-12


@given(st.integers(50, 100), levels, st.integers(0, 39))
@quickly
def test_the_error_of_one_level_is_nearly_taken(count: int, steps: int, level: int) -> None:
    # All numbers clear a level by so little that only together they clear it by a whole step.
    u = np.full((1, count), (level % steps + 1 / count) / steps)
    above = maximum(count, steps)(u) - u.max(axis=1)
    assert above == pytest.approx((1 - 1 / count) / steps)
    assert above > 0.97 / steps


WITHOUT_STRUCTURE: dict[str, tuple[int, float, Function]] = {
    "saddle": (2, 0.04, lambda x: jnp.sin(3 * x[:, :1]) * x[:, 1:]),
    "cone": (2, 0.03, lambda x: jnp.linalg.norm(x - 0.4, axis=1, keepdims=True)),
    "two outputs": (2, 0.05, lambda x: jnp.stack([x.prod(axis=1), 1 / (1 + x.sum(axis=1))], axis=1)),
    "three inputs": (3, 0.15, lambda x: (1 + x).prod(axis=1, keepdims=True)),
}


@pytest.mark.parametrize("name", WITHOUT_STRUCTURE)
def test_a_fit_keeps_to_its_tolerance_at_points_it_never_saw(name: str) -> None:
    inputs, tolerance, function = WITHOUT_STRUCTURE[name]
    net = fit(function, inputs, tolerance)
    x = points(inputs, seed=12345, count=40_000)
    assert np.abs(net(x) - evaluated(function, x)).max() <= net.error <= tolerance
    assert not net.proven


def test_a_fit_out_of_reach_names_a_tolerance_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structure, "MAX_UNITS", 32)
    inputs, _, function = WITHOUT_STRUCTURE["saddle"]
    with pytest.raises(OutOfReach, match=r"tolerance = 1e-06: .*32 units; tolerance = .* would be possible"):
        fit(function, inputs, 1e-6)
    with pytest.raises(OutOfReach) as raised:
        fit(function, inputs, 1e-6)
    net = fit(function, inputs, raised.value.possible)
    x = points(inputs, seed=12345, count=40_000)
    assert np.abs(net(x) - evaluated(function, x)).max() <= net.error <= raised.value.possible


@pytest.mark.parametrize("tolerance", [1e-12, 1e-300])
def test_knots_out_of_reach_name_a_tolerance_that_works(tolerance: float) -> None:
    centre = np.array([0.3, 0.6])
    with pytest.raises(OutOfReach, match=f"more than {MAX_KNOTS} knots") as raised:
        parabolas(centre, 2.0, 0.0, tolerance)
    assert parabolas(centre, 2.0, 0.0, raised.value.possible).error <= raised.value.possible
    with pytest.raises(OutOfReach, match=f"more than {MAX_KNOTS} knots") as raised:
        additive(lambda x: x**2, 1, tolerance)
    assert additive(lambda x: x**2, 1, raised.value.possible).error <= raised.value.possible


def test_the_possible_epsilon_serves_every_network() -> None:
    def needs(least: float) -> Callable[[float], Shallow]:
        def build(tolerance: float) -> Shallow:
            if tolerance < least:
                raise OutOfReach("tolerance", tolerance, least, f"least is {least}")
            return linear(np.eye(1), np.zeros(1))

        return build

    builders = [(needs(1e-3), 0.5), (needs(3e-3), 0.25), (needs(1e-9), 1.0)]
    with pytest.raises(
        OutOfReach, match=r"epsilon = 1e-30: least is 0\.003; epsilon = 0\.013 would"
    ) as raised:
        within_reach(1e-30, builders, finest=1e-12)
    assert len(within_reach(raised.value.possible, builders, finest=1e-12)) == 3
    with pytest.raises(OutOfReach, match=r"float64 .* epsilon = 0\.1 would"):
        within_reach(0.05, builders, finest=0.1)


@given(st.floats(1e-300, 1e300))
@quickly
def test_rounding_up_never_falls_short(value: float) -> None:
    rounded = rounded_up(value)
    assert value <= rounded <= 1.101 * value
    assert rounded_up(rounded) == rounded == float(f"{rounded:g}")


@given(st.integers(1, 4), seeds)
@settings(max_examples=10, deadline=None)
def test_the_largest_value_is_found_in_small_cubes(inputs: int, seed: int) -> None:
    centre = np.random.default_rng(seed).uniform(size=inputs)
    found = largest(lambda x: -jnp.linalg.norm(x - centre, axis=1), inputs=inputs)
    assert -1e-6 <= found <= 0


@given(
    st.lists(st.floats(-1, 1), min_size=2, max_size=3), st.sampled_from([jnp.sin, jnp.exp, jnp.tanh]), seeds
)
@settings(max_examples=4, deadline=None)
def test_a_function_of_one_direction_is_built_by_knots_along_it(
    direction: list[float], shape: Function, seed: int
) -> None:
    w = np.array(direction)
    assume(np.abs(w).max() > 0.1)

    def function(x: FloatArray) -> FloatArray:
        return jnp.stack([shape(x @ w), shape(x @ w + 1)], axis=1)

    net = ridge(function, len(w), 0.02)
    assert net is not None and net.error <= 0.02
    x = points(len(w), seed)
    assert np.abs(net(x) - evaluated(function, x)).max() <= net.error + ROUNDING
    assert np.linalg.matrix_rank(net.inner, tol=1e-6 * np.abs(net.inner).max()) == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x[:, :1] - 0.3) * (x[:, 1:2] - 0.6),
        lambda x: jnp.sin(x @ np.array([[1.0], [2.0]])) + x[:, :1],
        lambda x: jnp.zeros((len(x), 1)),
    ],
)
def test_a_function_of_two_directions_or_none_is_no_ridge(function: Function) -> None:
    assert ridge(function, 2, 1e-2) is None


def test_a_network_takes_the_structure_that_is_there() -> None:
    sum_of_axes = network_of(lambda x: (x**2).sum(axis=1, keepdims=True), 2, 1e-2)
    assert set(map(tuple, sum_of_axes.inner)) == {(1.0, 0.0), (0.0, 1.0)}
    one_direction = network_of(lambda x: jnp.exp(x @ np.array([[1.0], [-1.0]])), 2, 1e-2)
    assert np.allclose(one_direction.inner[:, 0], -one_direction.inner[:, 1])
    neither = network_of(lambda x: x[:, :1] * x[:, 1:2], 2, 1e-1)
    assert np.linalg.matrix_rank(neither.inner) == 2

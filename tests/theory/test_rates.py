"""Measured exponents: right on lines that are known, near the theory's on bowls, and counted honestly."""

import numpy as np
import pytest

from headcount.errors import InvalidInput
from headcount.tasks.library import bowls, max_sum
from headcount.theory.constructions.memorise import memorise, plan_memorise
from headcount.theory.rates import GapRate, Rate, gap_rates, parameter_rates

pytestmark = pytest.mark.usefixtures("compiled_quickly")


@pytest.mark.parametrize("exponent", [-1.0, 0.5, 2.0])
def test_the_exponent_of_a_power_is_found(exponent):
    epsilons = (0.1, 0.03, 0.001)
    values = tuple(7 * epsilon**-exponent for epsilon in epsilons)
    assert Rate("", epsilons, values, 0.0).exponent == pytest.approx(exponent)
    assert GapRate("", epsilons, values, 0.0).exponent == pytest.approx(-exponent)


def test_parameters_grow_as_the_formula_of_the_knots_says_and_below_the_theorem():
    units, specialised, connected, dense = parameter_rates(bowls(dimension=2, token_dim=2), length=8)
    for rate, formula, theorem in ((units, 0.5, 2), (specialised, 0.5, 2), (connected, 1.5, 3)):
        assert (rate.formula, rate.theorem) == (formula, theorem)
        assert rate.exponent == pytest.approx(formula, abs=0.05)
    assert connected.exponent < dense.exponent < 2.05
    assert (dense.formula, dense.theorem) == (2, 3)
    assert units.from_measured_gamma is None  # it is the measurement
    assert specialised.from_measured_gamma == units.exponent
    assert connected.from_measured_gamma == 1 + units.exponent


def test_exact_networks_do_not_grow():
    units, specialised, connected, _ = parameter_rates(max_sum(dimension=2, token_dim=2), length=8)
    assert [units.exponent, specialised.exponent] == pytest.approx([0, 0])
    assert [units.formula, connected.formula] == [0, 1]
    assert connected.exponent == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("positions", ["all", "first half"])
def test_connections_are_the_weights_that_are_not_zero(positions):
    task = bowls(dimension=2, token_dim=1, wells=[[0.3], [0.8]], positions=positions)
    plan = plan_memorise(task, length=4, epsilon=0.1)
    model = memorise(task, length=4, epsilon=0.1).model
    weights = (*model.encoder.weights, *model.readout.weights)
    assert plan.connections == sum(np.count_nonzero(weight) for weight in weights)


def test_the_closest_gap_falls_faster_than_the_proof_needs():
    for rate in gap_rates(lengths=(5, 6), points=(2, 4, 8), candidates=5_000):
        assert rate.exponent > rate.theorem
        assert rate.candidates == tuple(count ** (rate.length - 2) for count in (2, 4, 8))


def test_one_epsilon_has_no_exponent():
    with pytest.raises(InvalidInput, match="at least two"):
        parameter_rates(bowls(dimension=2), length=4, epsilons=(0.1, 0.1))

"""What no construction can be made for is refused in one line, with what could be."""

import re
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from construction_cases import both, defined, own

from headcount.errors import InvalidInput
from headcount.tasks.library import bowls, bowls_product, extremes
from headcount.theory.constructions import shallow, structure
from headcount.theory.constructions.bound import Estimate
from headcount.theory.constructions.memorise import memorise
from headcount.theory.constructions.specialise import specialise

pytestmark = pytest.mark.usefixtures("compiled_quickly", "one_answer")


def message(make, task, **options):
    with pytest.raises(InvalidInput) as raised:
        make(task, **options)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def proposed(text):
    found = re.search(r"epsilon = (\S+) would", text)
    assert found is not None, text
    return float(found[1])


@both
@pytest.mark.parametrize(
    ("task", "changed", "reason"),
    [
        (extremes(), {"epsilon": 0}, "epsilon: "),
        (extremes(), {"epsilon": np.nan}, "epsilon: "),
        (extremes(), {"length": 0}, "length: "),
        (bowls(dimension=1, token_dim=1, positions=[0, 5]), {}, "positions: expected indices from 0 to 3"),
        (own(lambda x: jnp.log(x[0] - 0.5)), {}, "coordinate function 0 is not finite"),
        (own(lambda x: x[0], outer=lambda z: jnp.log(z[0] - 0.5)), {}, "F_0: expected finite values"),
        (own(lambda x: x[0], outer=lambda z: jnp.sqrt(z[0])), {}, "F_0: expected finite derivatives"),
    ],
)
def test_invalid_input_is_named(make, task, changed, reason):
    assert message(make, task, **{"length": 4, "epsilon": 0.1} | changed).startswith(reason)


@pytest.mark.parametrize(
    ("task", "epsilon", "reason"),
    [
        (extremes(), 1e-30, "float64"),
        (replace(extremes(), outer=lambda z: 1e6 + jnp.sum(z)), 1e-9, "float64"),
        (bowls(dimension=2, token_dim=1), 1e-320, "knots"),
        (own(lambda x: jnp.exp(x[0]), token_dim=1), 1e-30, "knots"),
        (bowls_product(dimension=2, token_dim=1), 1e-30, "the widest network"),
    ],
)
def test_an_epsilon_out_of_reach_comes_with_one_within(task, epsilon, reason, monkeypatch):
    monkeypatch.setattr(structure, "MAX_UNITS", 64)
    monkeypatch.setattr(shallow, "MAX_KNOTS", 256)
    refused = message(specialise, task, length=4, epsilon=epsilon)
    assert reason in refused
    assert specialise(task, length=4, epsilon=proposed(refused)).error.total < proposed(refused)


@pytest.mark.parametrize(
    ("task", "epsilon", "reason"),
    [
        (extremes(), 1e-30, ""),
        (
            bowls(dimension=2, token_dim=2),
            1e-2,
            r"length 16 the weights take \S+ GiB, more than memory_gib = 0\.002;",
        ),
        (bowls_product(dimension=2, token_dim=1), 1e-2, ""),
    ],
)
def test_what_memory_cannot_hold_comes_with_an_epsilon_that_fits(task, epsilon, reason, monkeypatch):
    monkeypatch.setattr(structure, "MAX_UNITS", 64)
    options = {"length": 16, "memory_gib": 2e-3}
    refused = message(memorise, task, epsilon=epsilon, **options)
    assert re.search(reason, refused)
    construction = memorise(task, epsilon=proposed(refused), **options)
    assert construction.error.total < proposed(refused)
    assert sum(leaf.nbytes for leaf in jax.tree.leaves(construction.model)) <= 1.01 * 2e-3 * 2**30


def test_where_no_epsilon_fits_a_length_is_to_blame():
    refused = message(memorise, extremes(), length=64, epsilon=0.1, memory_gib=1e-5)
    assert "no epsilon fits" in refused and "length" in refused


@pytest.mark.parametrize(
    "outer",
    [lambda z: 2e9 * jnp.sum(z) + z[0] * z[1], lambda z: jnp.stack([2e9 * jnp.sum(z), z[0] * z[1]])],
    ids=["beside a large sum", "beside a large output"],
)
def test_a_product_too_small_to_see_among_large_numbers_is_not_passed_over(outer, monkeypatch):
    monkeypatch.setattr(structure, "MAX_UNITS", 64)
    with pytest.raises(InvalidInput, match=r"would (be possible|fit)"):
        specialise(replace(extremes(), outer=outer), length=4, epsilon=0.1)


def dip(width):
    return lambda x: 0.6 + 0.3 * jnp.sin(9 * x[0]) - 0.5 * jnp.exp(-jnp.sum(((x - 0.61803) / width) ** 2))


@pytest.mark.parametrize("width", [3e-4, 2e-5])
def test_a_dip_too_narrow_for_any_knots_is_seen_on_one_axis(width):
    task = own(dip(width), token_dim=1)
    refused = message(specialise, task, length=2, epsilon=0.01)
    assert "knots" in refused
    made, x = specialise(task, length=2, epsilon=proposed(refused)), np.full((1, 2, 1), 0.61803)
    assert np.abs(made.predict(x) - defined(task, x)).max() <= made.error.total < proposed(refused)


def test_a_dip_that_cannot_be_found_enters_the_estimate_once_its_place_is_given():
    made = specialise(own(dip(2e-5)), length=2, epsilon=0.05)
    assert isinstance(made.error, Estimate) and made.error.total < 0.05
    missed = made.measured_error(starts=5, steps=5)
    found = made.measured_error(starts=5, steps=5, tokens=[[0.61803, 0.61803]])
    assert missed.error < 0.05 and found.error > 0.4
    reported = made.error.including(missed).including(found)
    assert reported.total == reported.to_json()["estimate"] == found.error
    assert reported.to_json()["bound"] is None
    assert reported.points == made.error.points + 5 * 6 + 6 * 6
    assert str(reported).endswith(f"bound not proven: measured on {reported.points:,} points")
    with pytest.raises(InvalidInput, match="tokens: expected entries from 0 to 1"):
        made.measured_error(tokens=[[0.5, 1.5]])

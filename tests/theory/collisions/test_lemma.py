"""What the lemma asks of a readout, and of which models."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from theory.collisions.references import (
    BOWLS,
    LENGTH,
    double,
    quickly,
    small,
)

from headcount.models.architecture import Architecture
from headcount.models.network import Network
from headcount.models.transformer import Transformer
from headcount.theory.collisions.collide import broken_clauses, lemma_for

# The lemma.


@st.composite
def readouts(draw: st.DrawFn) -> Network:
    inputs, hidden, many = draw(st.integers(1, 6)), draw(st.integers(1, 8)), draw(st.integers(1, 3))
    entries = partial(arrays, np.float64, elements=st.floats(-1, 1))
    return Network(
        (draw(entries((hidden, inputs))), draw(entries((many, hidden)))),
        (draw(entries(hidden)), draw(entries(many))),
        draw(st.sampled_from(["relu", "tanh"])),
    )


@quickly
@given(readouts(), st.data())
def test_a_readout_moves_by_at_most_p_root_e_times_the_distance(
    readout: Network, more: st.DataObject
) -> None:
    hidden, inputs = readout.weights[0].shape
    one, other = (more.draw(arrays(np.float64, inputs, elements=st.floats(-5, 5))) for _ in range(2))
    activation = np.tanh if readout.activation == "tanh" else partial(np.maximum, 0)
    (inner, outer), (offset, _) = readout.weights, readout.biases
    moved = np.abs(outer @ (activation(inner @ one + offset) - activation(inner @ other + offset))).max()
    assert moved <= hidden * math.sqrt(inputs) * np.linalg.norm(one - other) + 1e-12


def test_the_lemma_cannot_promise_less() -> None:
    readout = Network((np.ones((5, 4)), np.ones((1, 5))), (np.zeros(5), np.zeros(1)), "relu")
    moved = float(readout(np.full(4, 2.0))[0] - readout(np.full(4, 1.0))[0])
    assert moved == 5 * math.sqrt(4) * np.linalg.norm(np.ones(4))


def bounded(**options: Any) -> Transformer:
    model = double(small(BOWLS, **({"readout_activation": "relu"} | options)))
    return jax.tree.map(lambda leaf: 0.5 * leaf, model)


BROKEN: dict[str, Callable[[], Transformer]] = {
    "F has 2 hidden layers, not 1": lambda: bounded(readout_hidden=(5, 4)),
    "gelu is steeper than 1": lambda: bounded(readout_activation="gelu"),
    "the largest entry of F is 1.5, above 1": lambda: replaced(
        lambda model: model.readout.weights[1], lambda array: np.full_like(array, -1.5)
    ),
    "the largest entry of the attention is 2, above 1": lambda: replaced(
        lambda model: model.attention.key, lambda array: np.full_like(array, -2.0)
    ),
    "|P(x, t)| reaches 5.2, above 1": lambda: replaced(
        lambda model: model.encoder.biases[-1], lambda array: np.full_like(array, 3.0)
    ),
}


def replaced(where: Callable[[Transformer], Any], change: Callable[[np.ndarray], np.ndarray]) -> Transformer:
    model = bounded()
    return eqx.tree_at(where, model, change(where(model)))


@pytest.mark.parametrize(("words", "made"), BROKEN.items(), ids=BROKEN.keys())
def test_each_broken_clause_is_named_alone(words: str, made: Callable[[], Transformer]) -> None:
    lemma = lemma_for(made(), BOWLS, LENGTH, target_gap=1.0, representation_gap=1e-6)
    assert not lemma.applies
    assert (lemma.width, lemma.parameters) == (None, None)
    (clause,) = lemma.broken
    assert str(lemma) == f"the lemma does not apply: {clause}"
    if words.startswith("|P"):
        assert clause.startswith("|P(x, t)| reaches ")
        assert 4 < float(clause.split()[3].rstrip(",")) < 6
    else:
        assert clause == words


def test_an_encoding_that_is_long_at_a_corner_only_is_noticed() -> None:
    model = bounded(encoder_hidden=())
    weights = np.zeros_like(model.encoder.weights[0])
    weights[0] = 0.55  # |P| = 0.55 (x_1 + x_2), above 1 where both are above 0.9
    model = eqx.tree_at(
        lambda made: (made.encoder.weights, made.encoder.biases), model, ((weights,), (np.zeros(3),))
    )
    assert broken_clauses(model, BOWLS, LENGTH) == ("|P(x, t)| reaches 1.1, above 1",)


@pytest.mark.parametrize(("target_gap", "gap"), [(1.0, 1e-3), (0.2, 3e-7), (1e-3, 1.0)])
def test_the_width_is_that_of_the_lemma(target_gap: float, gap: float) -> None:
    model = bounded()
    lemma = lemma_for(model, BOWLS, LENGTH, target_gap=target_gap, representation_gap=gap)
    assert lemma.applies
    width = math.ceil(target_gap / (gap * math.sqrt(3)))
    assert lemma.width == width
    wider = Architecture(token_dim=2, heads=1, head_dim=3, readout_hidden=(width,))
    bare = Architecture(token_dim=2, heads=1, head_dim=3, readout_hidden=())
    encoder = bare.counted_parameters() - 4
    assert lemma.parameters == wider.counted_parameters() - encoder
    assert f"{width:,} hidden units" in str(lemma)


def test_no_gap_asks_nothing_and_no_distance_asks_more_than_can_be_named() -> None:
    asks_nothing = lemma_for(bounded(), BOWLS, LENGTH, target_gap=0.0, representation_gap=0.0)
    assert (asks_nothing.applies, asks_nothing.width) == (True, None)
    asks_all = lemma_for(bounded(), BOWLS, LENGTH, target_gap=1.0, representation_gap=0.0)
    assert asks_all.width == 10**15
    assert asks_all.parameters == 10**15 * 5 + 1

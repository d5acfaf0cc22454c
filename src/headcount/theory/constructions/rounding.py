"""What float64 adds to the error of a construction, at most.

With u = 2^−53, a sum of k products is off by at most γ_k = k u / (1 − k u) times the sum of their absolute
values, in any order, fused or not (Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition,
section 3.1). So every layer W v + b passes on two numbers a unit: `size`, the most that |W v + b| can be, and
`off`, how far the computed value can be from the exact one,

    size = |W| size + |b|,      off = |W| off + γ_k (|W| size + max |b|).

A relu makes neither larger. Products of matrices that are folded before they meet a vector obey the same
inequality, with k the sum of the inner sizes. Weights are themselves results of a few operations, which the
constant in k covers.

Attention is different: an error of a logit is multiplied by β and may be larger than 1. It changes how a head
weighs tokens and not what it reads of them. If no logit is off by more than η, each weight changes by a
factor between e^(−η) and e^η, numerator and denominator alike, so the parts of the bound that come from
softmaxes grow by e^(2η) at most.
"""

from collections.abc import Mapping, Sequence
from math import expm1
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from headcount.models.network import Network
from headcount.models.transformer import Attention, TokenLayer, Transformer
from headcount.theory.constructions.coordinates import Coordinate, Outer
from headcount.theory.constructions.shallow import Shallow
from headcount.theory.operations import operations_of

UNIT = 2.0**-53
_MADE = 16  # operations behind a weight, and behind an exponential with its argument
_ULPS = 4  # of an elementary function such as a sine
_ROWS = 1 << 22  # entries of |W| at a time: a copy of the largest layers would double their memory


class Reached(NamedTuple):
    """How large each number can get, and how far from its exact value the computed one can be."""

    size: Float[np.ndarray, " width"]
    off: Float[np.ndarray, " width"]

    def plus(self, other: "Reached") -> "Reached":
        """Of a sum of two."""
        size = self.size + other.size
        return Reached(size, self.off + other.off + UNIT * size)


def growth(operations: float) -> float:
    """γ_k.

    >>> growth(1) > 2.0**-53
    True
    """
    share = operations * UNIT
    return share / (1 - share) if share < 1 else float("inf")


def rounding(
    model: Transformer,
    length: int,
    coordinates: Sequence[Coordinate],
    outer: Outer,
    *,
    softened: float,
    parts: Mapping[str, float],
) -> float:
    """The part of the bound that rounding is: of the model, of the target, and of the other parts.

    `softened` is the sum of the parts that come from softmaxes.
    """
    off, stirred = _of_model(model, length)
    grown = softened * expm1(2 * min(stirred, 300.0))
    return off + grown + of_target(coordinates, outer) + growth(_MADE) * sum(parts.values())


def _of_model(model: Transformer, length: int) -> tuple[float, float]:
    """How far an output can be off as heads weigh tokens, and the most that a logit can be off."""
    architecture, stirred = model.architecture, [0.0]
    tokens = _through(model.encoder, architecture.token_dim)
    reader = Reached(np.abs(model.class_token), np.zeros(len(model.class_token)))

    def read(attention: Attention, reader: Reached) -> Reached:
        found, off = _read(attention, reader, tokens, architecture.logit_scale, length, hidden)
        stirred.append(off)
        return found

    hidden = model.encoder.weights[-1].shape[1]
    for layer in model.token_layers:
        after = _fed(layer, tokens.plus(read(layer.attention, tokens)))
        if architecture.class_reads == "every" and architecture.reader == "class token":
            reader = _fed(layer, reader.plus(read(layer.attention, reader)))
        tokens = after
    if architecture.reader == "last token":
        reader = tokens
    found = reader.plus(read(model.attention, reader))
    return float(_onwards(model.readout, found).off.max()), max(stirred)


def _through(encoder: Network, token_dim: int) -> Reached:
    """Of the tokens, for x in the cube. Of the unit vector of a place one entry is 1."""
    first = np.asarray(encoder.weights[0])
    places = np.abs(first[:, token_dim:]).max(axis=1, initial=0.0, keepdims=True)
    merged = np.concatenate([np.abs(first[:, :token_dim]), places], axis=1)
    rest = Network((merged, *encoder.weights[1:]), encoder.biases, encoder.activation)
    return _onwards(rest, Reached(np.ones(token_dim + 1), np.zeros(token_dim + 1)))


def of_network(net: Shallow) -> float:
    """How far what it computes on the cube can be from its exact value."""
    network = Network((net.inner, net.outer), (net.offset, net.constant), "relu")
    inputs = net.inner.shape[1]
    return float(_onwards(network, Reached(np.ones(inputs), np.zeros(inputs))).off.max())


def _onwards(network: Network, reached: Reached) -> Reached:
    for weight, bias in zip(network.weights, network.biases, strict=True):
        (size, off), terms = _absolute(np.asarray(weight), np.stack(reached, axis=1))
        bias = np.abs(np.asarray(bias))
        most = size + bias.max(initial=0.0)
        reached = Reached(size + bias, off + growth(terms + 1 + _MADE) * most)
    return reached


def _absolute(
    weight: Float[np.ndarray, "outputs inputs"], values: Float[np.ndarray, "inputs two"]
) -> tuple[Float[np.ndarray, "two outputs"], int]:
    """|W| times the values, and the most entries of a row that are not 0: products with 0 are exact."""
    step = max(1, _ROWS // weight.shape[1])
    blocks = [weight[row : row + step] for row in range(0, len(weight), step)]
    terms = max(int(np.count_nonzero(block, axis=1).max(initial=0)) for block in blocks)
    return np.concatenate([np.abs(block) @ values for block in blocks]).T, terms


def _fed(layer: TokenLayer, reached: Reached) -> Reached:
    return reached if layer.feedforward is None else reached.plus(_onwards(layer.feedforward, reached))


def _read(
    attention: Attention, reader: Reached, tokens: Reached, beta: float, length: int, hidden: int
) -> tuple[Reached, float]:
    """What all heads add to their reader, and the most that one of their logits can be off."""
    factors = (attention.query, attention.key, attention.value, attention.output)
    query, key, value, output = (np.abs(np.asarray(part)) for part in factors)
    group_size, width = len(query) // len(key), query.shape[-1]
    key, value = (np.repeat(part, group_size, axis=0) for part in (key, value))
    (asked, asked_off), (keys, keys_off), (values, values_off) = (
        (part @ of.size, part @ of.off) for part, of in ((query, reader), (key, tokens), (value, tokens))
    )
    operations = 2 * width + query.shape[1] + hidden + _MADE
    logits = growth(operations) * asked * keys + asked_off * keys + (asked + asked_off) * keys_off
    stirred = beta * float(logits.sum(axis=1).max()) + growth(_MADE)
    averaged = values_off + growth(2 * length + output[0].size + operations) * values
    return Reached(*(np.einsum("ehn,hn->e", output, part) for part in (values, averaged))), stirred


def of_target(coordinates: Sequence[Coordinate], outer: Outer) -> float:
    """F_0 of the f_i as a program computes it, and the psi_i that weights are made from.

    One rounding for each operation, relative to the largest number involved. For sums of projections and
    bowls, where all terms of a sum count, this is proven; functions of a user's own may lose more inside.
    """
    lost = max(2 * _off(each) for each in coordinates)
    return (
        outer.steepness * lost
        + growth(_ULPS * operations_of(outer.function, outer.dimension) + _MADE) * outer.size
    )


def _off(coordinate: Coordinate) -> float:
    numbers = coordinate.size + abs(coordinate.start)
    operations = _ULPS * operations_of(coordinate.function, coordinate.token_dim) + _MADE
    off = growth(operations) * numbers + coordinate.ignored
    return off / coordinate.span

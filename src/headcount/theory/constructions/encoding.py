"""The encoder of a construction: psi_i and its gate at every token, and marks of places."""

from math import exp

import numpy as np
from jaxtyping import Float

from headcount.models.network import Network
from headcount.theory.constructions.shallow import Shallow

GATE = -2.0


def leak(outside: int, beta: float, gate: float) -> float:
    """What tokens outside a set can add: each weighs e^(−β(−gate − 1)) at most, and all of them 1."""
    return min(1.0, outside * exp(-beta * max(-gate - 1, 0.0)))


def encoder(
    psis: list[Shallow],
    sets: list[Float[np.ndarray, " length"]] | None,
    token_dim: int,
    gate: float,
    marks: Float[np.ndarray, "mark length"] | None = None,
) -> Network:
    """Block i: psi_i and its gate; after all blocks, the marks.

    A psi that may leave [0, 1] is cut by a second hidden layer.
    """
    dimension = len(psis)
    units = sum(net.units for net in psis)
    by_place = [np.zeros((0, 0))] if marks is None else [marks]
    if sets is not None:
        by_place.insert(0, -1.0 * np.array(sets))
    placed = np.concatenate([part for part in by_place if part.size] or [np.zeros((0, 0))])
    gates, length = 0 if sets is None else dimension, placed.shape[1]
    first = np.zeros((units + len(placed), token_dim + length))
    offset = np.zeros(units + len(placed))
    last = np.zeros((2 * dimension + len(placed) - gates, units + len(placed)))
    bias = np.zeros(len(last))
    row = 0
    for i, net in enumerate(psis):
        block = slice(row, row := row + net.units)
        first[block, :token_dim], offset[block] = net.inner, net.offset
        last[2 * i, block], bias[2 * i] = net.outer[0], net.constant[0]
    first[units:, token_dim:] = placed
    offset[units : units + gates] = 1.0  # 1 off the set, 0 on it
    for i in range(gates):
        last[2 * i + 1, units + i] = gate
    for mark in range(len(placed) - gates):
        last[2 * dimension + mark, units + gates + mark] = 1.0
    if all(net.inside for net in psis):
        return Network((first, last), (offset, bias), "relu")
    return _cut(first, offset, last, bias, dimension)


def _cut(
    first: np.ndarray, offset: np.ndarray, last: np.ndarray, bias: np.ndarray, dimension: int
) -> Network:
    """min(max(psi, 0), 1) = relu(psi) − relu(psi − 1), −relu(−r) for a gate r, and relu(m) for a mark m."""
    width, in_blocks = len(bias), np.arange(len(bias)) < 2 * dimension
    value = in_blocks & (np.arange(width) % 2 == 0)
    sign = np.where(in_blocks & ~value, -1.0, 1.0)
    middle = np.concatenate([sign[:, None] * last, last[value]])
    middle_bias = np.concatenate([sign * bias, bias[value] - 1])
    end = np.concatenate([np.diag(sign), -np.eye(width)[:, value]], axis=1)
    return Network((first, middle, end), (offset, middle_bias, np.zeros(width)), "relu")

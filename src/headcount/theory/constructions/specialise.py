"""h = D, n = 2: one head per coordinate. Each head finds its extremum, and the readout combines them."""

from functools import partial
from math import e, exp

import numpy as np
from jaxtyping import Float

from headcount.models.architecture import Architecture
from headcount.models.network import Network
from headcount.models.transformer import Attention, Transformer
from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.constructions.construction import (
    Bound,
    Construction,
    assumptions_of,
    checked,
    guarantees,
)
from headcount.theory.constructions.coordinates import Outer, coordinates_of
from headcount.theory.constructions.shallow import Shallow, within_reach
from headcount.validation import check_number

GATE = -2.0


def specialise(
    task: RetrievalTask, *, length: int, epsilon: float, gate: float = GATE, seed: int = 0
) -> Construction:
    """A model with one head per coordinate that is within epsilon of the task's target on [0,1]^(T×d).

    Block i of the encoder holds psi_i(x(t)), the coordinate rescaled to [0, 1], and a gate r_i(t): 0 on S_i,
    `gate` off it. Head i attends by −psi_i + r_i, sharpened by β, and reads the average of psi_i: the
    minimum over S_i, up to 1/β. The readout is a network for F_0.

    The gate must lie below −1: at −1 a token outside S_i with psi = 0 would tie with one inside with psi = 1.

    >>> from headcount.tasks.library import extremes
    >>> made = specialise(extremes(), length=4, epsilon=0.1)
    >>> made.predict([[0.5], [0.25], [1.0], [0.75]]).round(2), made.bound.total < 0.1
    (array([1.25]), True)
    """
    epsilon, length = checked(epsilon, length)
    gate = check_number("gate", gate, at_most=0)
    coordinates = coordinates_of(task, seed=seed)
    assumptions = assumptions_of(task, length, seed)
    outer = Outer(task, coordinates)
    steepness, dimension = max(outer.steepness, 1e-12), task.dimension
    share = 1 / (4 * steepness * dimension)
    builders = [(partial(each.network, seed=seed), share) for each in coordinates]
    builders.append((partial(outer.network, seed=seed), 1 / 2))
    *psis, phi = within_reach(epsilon, builders, finest=outer.resolution)
    beta = max(1.0, length / (epsilon * share))
    sets = [positions.mask(length) for positions in task.positions]
    gated = not all(inside.all() for inside in sets)
    encoder = _encoder(psis, sets if gated else None, task.token_dim, gate)
    model = _model(task, encoder, phi, beta, length=length if gated else None)
    inside = max(int(mask.sum()) for mask in sets)
    outside = length - min(int(mask.sum()) for mask in sets)
    fitted = not all(net.proven for net in (*psis, phi))
    return Construction(
        name="specialise",
        task=task,
        length=length,
        epsilon=epsilon,
        model=model,
        labels=tuple(label for i in range(dimension) for label in (f"psi_{i}", "1" if i == 0 else "0")),
        bound=Bound(
            {
                "networks of the f_i": steepness * max(net.error for net in psis),
                "softened minimum": steepness * (inside - 1) / (e * beta),
                "tokens outside the position sets": steepness * _leak(outside, beta, gate),
                "network of F_0": phi.error,
            },
            proven=not fitted,
        ),
        guarantees=guarantees(assumptions, fitted=fitted),
    )


def _model(
    task: RetrievalTask, encoder: Network, phi: Shallow, beta: float, *, length: int | None
) -> Transformer:
    """All parts in one model; it sees positions, up to `length`, where there are gates."""
    dimension = task.dimension
    architecture = Architecture(
        token_dim=task.token_dim,
        heads=dimension,
        head_dim=2,
        output_dim=task.output_dim,
        encoder_hidden=tuple(len(bias) for bias in encoder.biases[:-1]),
        readout_hidden=(phi.units,),
        readout_activation="relu",
        positions="none" if length is None else "one_hot",
        length=length,
        beta=beta,
        scale_logits=False,
    )
    return Transformer(
        encoder=encoder,
        token_layers=(),
        class_token=np.eye(2 * dimension)[1],
        attention=_attention(dimension),
        readout=_readout(phi),
        architecture=architecture,
    )


def _leak(outside: int, beta: float, gate: float) -> float:
    """What tokens outside a set can add: each weighs e^(−β(−gate − 1)) at most, and all of them 1."""
    return min(1.0, outside * exp(-beta * max(-gate - 1, 0.0)))


def _encoder(
    psis: list[Shallow], sets: list[Float[np.ndarray, " length"]] | None, token_dim: int, gate: float
) -> Network:
    """Block i: psi_i and its gate. A psi that may leave [0, 1] is cut by a second hidden layer."""
    dimension = len(psis)
    units = sum(net.units for net in psis)
    length = 0 if sets is None else len(sets[0])
    gates = 0 if sets is None else dimension
    first = np.zeros((units + gates, token_dim + length))
    offset = np.zeros(units + gates)
    last = np.zeros((2 * dimension, units + gates))
    bias = np.zeros(2 * dimension)
    row = 0
    for i, net in enumerate(psis):
        block = slice(row, row := row + net.units)
        first[block, :token_dim], offset[block] = net.inner, net.offset
        last[2 * i, block], bias[2 * i] = net.outer[0], net.constant[0]
    for i, inside in enumerate(sets or ()):
        first[units + i, token_dim:], offset[units + i] = -1.0 * inside, 1.0  # 1 off the set, 0 on it
        last[2 * i + 1, units + i] = gate
    if all(net.inside for net in psis):
        return Network((first, last), (offset, bias), "relu")
    return _cut(first, offset, last, bias)


def _cut(first: np.ndarray, offset: np.ndarray, last: np.ndarray, bias: np.ndarray) -> Network:
    """min(max(psi, 0), 1) = relu(psi) − relu(psi − 1), and −relu(−r) for a gate r."""
    width = len(bias)
    value = np.arange(width) % 2 == 0
    sign = np.where(value, 1.0, -1.0)
    middle = np.concatenate([sign[:, None] * last, last[value]])
    middle_bias = np.concatenate([sign * bias, bias[value] - 1])
    end = np.concatenate([np.diag(sign), -np.eye(width)[:, value]], axis=1)
    return Network((first, middle, end), (offset, middle_bias, np.zeros(width)), "relu")


def _attention(dimension: int) -> Attention:
    """The query of every head is (1, 0); its key (−psi_i + r_i, 0), its value (psi_i, 0)."""
    width = 2 * dimension
    query, key, value = np.zeros((3, dimension, 2, width))
    heads = np.arange(dimension)
    query[:, 0, 1] = 1.0  # the class token is the unit vector of the first gate's place
    key[heads, 0, 2 * heads], key[heads, 0, 2 * heads + 1] = -1.0, 1.0
    value[heads, 0, 2 * heads] = 1.0
    return Attention(query, key, value, np.eye(width).reshape(width, dimension, 2))


def _readout(phi: Shallow) -> Network:
    """F_0 of the psi's; the places between them are not looked at."""
    inner = np.zeros((phi.units, 2 * phi.inner.shape[1]))
    inner[:, ::2] = phi.inner
    return Network((inner, phi.outer), (phi.offset, phi.constant), "relu")

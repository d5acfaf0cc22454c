r"""h = 1, n = D: one head for D minima, where F may jump or be as steep as it likes.

The theorem asks for D heads because an F of bounded slope cannot tell representations that lie close. This is
what it rules out, written down. Token t adds g(psi_i(x(t))) / T to the i-th number of the head, where g falls
by a factor of T or more from each of Q levels to the next:

    g(u) = Σ_{k=1..Q} B^(−k) relu(k/Q − u),    B = max(T, 2),    g(u + 1/Q) ≤ g(u) / B.

With z the minimum of psi_i over all tokens the number v lies between g(z) / T and g(z), so between g(z + 1/Q)
and g(z): it tells z to within a level, by its order of magnitude. F compares it with g(j/Q) at every j < Q:

- A **step** needs a unit a level, v > g(j/Q), with entries of at most 1: Assumption 1 but for the slope of F.
  A unit says z < j/Q if it is 1 and z ≥ (j − 1)/Q if it is 0, so that their count is right to 1/Q.
- **ReLU** needs relu(1 − relu(a)), with a line a from 0 at g(j/Q) to 1 at g((j−1)/Q). It is 1 where z ≥ j/Q
  and 0 where z ≤ (j − 2)/Q, so that their sum less 1/2 is right to 1.5/Q. The slope of the line is of the
  order of B^Q: these are the weights that are allowed to grow.

Sums that are compared have positive terms alone, so that float64 keeps all digits at any magnitude: rounding
moves a minimum by what its psi_i is off, and by twice the relative error of such a sum, as g'/g ≤ −1.
"""

from math import ceil, log10
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy.linalg import block_diag

from headcount.errors import InvalidInput
from headcount.models.architecture import Architecture
from headcount.models.network import Network
from headcount.models.transformer import Attention, Transformer
from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.constructions.bound import ROUNDING, Bound
from headcount.theory.constructions.construction import (
    Construction,
    assumptions_of,
    checked,
    guarantees,
)
from headcount.theory.constructions.coordinates import Outer, coordinates_of
from headcount.theory.constructions.rounding import growth, of_network, of_target
from headcount.theory.constructions.shallow import OutOfReach, Shallow
from headcount.validation import check_choice

Readout = Literal["step", "relu"]
OFF = {"step": 1.0, "relu": 1.5}  # levels that a minimum is off by at most
DIGITS = 280  # decimal orders of magnitude that float64 has room for


def magnitudes(
    task: RetrievalTask, *, length: int, epsilon: float, readout: Readout = "step"
) -> Construction:
    """A model with one head of D numbers within epsilon of a sum of minima or maxima, at any D.

    For projections and bowls, with every S_i all positions.

    >>> from headcount.tasks.library import extremes
    >>> made = magnitudes(extremes(), length=4, epsilon=0.1)
    >>> made.model.architecture.heads, made.model.architecture.readout_activation
    (1, 'step')
    >>> bool(abs(made.predict([[0.5], [0.25], [1.0], [0.75]]) - 1.25) <= made.error.total < 0.1)
    True
    """
    epsilon, length = checked(epsilon, length)
    check_choice("readout", readout, OFF)
    coordinates = coordinates_of(task)
    outer = Outer(task, coordinates)
    psis = [each.network(epsilon / (4 * max(outer.steepness, 1e-12))) for each in coordinates]
    if not (outer.is_sum and all(net.inside and not net.points for net in psis)):
        raise InvalidInput("task: expected a sum of minima or maxima of projections or bowls, got another")
    if not all(positions.mask(length).all() for positions in task.positions):
        raise InvalidInput(f"positions: expected all, got {task.positions[0].rule}")
    base = max(length, 2)
    off = max(net.error for net in psis)
    # Room for rounding beside; and enough levels for a P in the unit ball, as g(0) ≤ 2 / Q.
    wanted = 0.999 * epsilon / outer.steepness - off
    levels = max(2, ceil(2 * task.dimension**0.5), ceil(OFF[readout] / wanted))
    most = int(DIGITS / log10(base))
    if levels > most:
        possible = 1.01 * outer.steepness * (OFF[readout] / (most - 1)) * 4 / 3
        raise OutOfReach("epsilon", epsilon, possible, f"{levels} levels are more than float64 has room for")
    model = _model(task, psis, outer, base, levels, readout)
    parts = {
        "networks of the f_i": outer.steepness * off,
        "levels": outer.steepness * OFF[readout] / levels,
    }
    units = base * levels
    lost = outer.steepness * (max(map(of_network, psis)) + 2 * growth(length + units))
    lost += of_target(coordinates, outer) + growth(units) * (outer.size + outer.steepness)
    return Construction(
        name="magnitudes",
        task=task,
        length=length,
        epsilon=epsilon,
        model=model,
        labels=tuple(f"min psi_{i}, by its order of magnitude" for i in range(task.dimension)),
        error=Bound({**parts, ROUNDING: lost}),
        guarantees=guarantees(assumptions_of(task, length, 0), proven=True),
    )


def _model(
    task: RetrievalTask, psis: list[Shallow], outer: Outer, base: int, levels: int, readout: Readout
) -> Transformer:
    dimension = task.dimension
    network = (_steps if readout == "step" else _lines)(outer, base, levels)
    encoder = _encoder(psis, base, levels)
    architecture = Architecture(
        token_dim=task.token_dim,
        heads=1,
        head_dim=dimension,
        encoder_hidden=tuple(len(bias) for bias in encoder.biases[:-1]),
        readout_hidden=tuple(len(bias) for bias in network.biases[:-1]),
        readout_activation=readout,
        scale_logits=False,
        bounded=readout == "step",
    )
    nothing, as_it_is = np.zeros((1, dimension, dimension)), np.eye(dimension)
    return Transformer(
        encoder=encoder,
        token_layers=(),
        class_token=np.zeros(dimension),
        attention=Attention(nothing, nothing, as_it_is[None], as_it_is[:, None]),
        readout=network,
        architecture=architecture,
    )


def _encoder(psis: list[Shallow], base: int, levels: int) -> Network:
    """The psi_i; relu(k/Q − psi_i) at every level; their sums with weights B^(−k)."""
    places = np.arange(1, levels + 1)
    down = [np.repeat(-net.outer, levels, axis=0) for net in psis]
    offset = np.concatenate([places / levels - net.constant[0] for net in psis])
    weights = np.kron(np.eye(len(psis)), float(base) ** -places)
    first = np.concatenate([net.inner for net in psis])
    return Network(
        (first, block_diag(*down), weights),
        (np.concatenate([net.offset for net in psis]), offset, np.zeros(len(psis))),
        "relu",
    )


def thresholds(base: int, levels: int) -> Float[np.ndarray, " threshold"]:
    """g(j/Q) for j = 0, ..., Q − 1.

    >>> (thresholds(10, 3) * 3).round(6)
    array([0.123, 0.012, 0.001])
    """
    places, weights = np.arange(levels), float(base) ** -np.arange(1.0, levels + 1)
    reach = np.maximum(np.arange(1, levels + 1) - places[:, None], 0)
    return reach @ weights / levels


def _steps(outer: Outer, base: int, levels: int) -> Network:
    """Σ_i start_i + slope_i ((Q − 1)/Q − Σ_j H(v_i − g(j/Q)) / Q); a constant beyond 1 is several units."""
    dimension, units = outer.dimension, levels - 1
    constant = float(outer.start.sum() + outer.slope.sum() * units / levels)
    copies = ceil(abs(constant))
    inner = np.concatenate([np.kron(np.eye(dimension), np.ones((units, 1))), np.zeros((copies, dimension))])
    offset = np.concatenate([np.tile(-thresholds(base, levels)[1:], dimension), np.ones(copies)])
    weights = [np.repeat(-outer.slope / levels, units), np.full(copies, constant / max(copies, 1))]
    return Network((inner, np.concatenate(weights)[None]), (offset, np.zeros(1)), "step")


def _lines(outer: Outer, base: int, levels: int) -> Network:
    """Σ_i start_i + slope_i (Σ_j relu(1 − relu(a_ij)) − 1/2) / Q."""
    dimension, units = outer.dimension, levels - 1
    at = thresholds(base, levels)
    steepness = np.tile(1 / (at[:-1] - at[1:]), dimension)
    inner = steepness[:, None] * np.kron(np.eye(dimension), np.ones((units, 1)))
    offset = -steepness * np.tile(at[1:], dimension)
    last = np.repeat(outer.slope / levels, units)[None]
    constant = outer.start.sum() - outer.slope.sum() / (2 * levels)
    count = dimension * units
    return Network((inner, -np.eye(count), last), (offset, np.ones(count), np.array([constant])), "relu")

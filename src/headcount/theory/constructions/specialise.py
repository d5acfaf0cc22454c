"""h = D, n = 2: one head per coordinate. Each head finds its extremum, and the readout combines them."""

from functools import partial
from math import e
from typing import Any

import numpy as np

from headcount.models.architecture import Architecture
from headcount.models.network import Network
from headcount.models.transformer import Attention, Transformer
from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.constructions.bound import ROUNDING, certified, with_room_for_rounding
from headcount.theory.constructions.construction import (
    Construction,
    assumptions_of,
    checked,
    guarantees,
)
from headcount.theory.constructions.coordinates import Outer, coordinates_of
from headcount.theory.constructions.encoding import GATE, encoder, leak
from headcount.theory.constructions.rounding import rounding
from headcount.theory.constructions.shallow import Shallow, within_reach
from headcount.theory.constructions.shaped import specialise_shape
from headcount.theory.shape import Reading
from headcount.validation import check_number, expected


def specialise(
    task: RetrievalTask,
    *,
    length: int,
    epsilon: float,
    layers: int | None = None,
    heads: int | None = None,
    kv_heads: int | None = None,
    head_dim: int | None = None,
    reading: Reading | None = None,
    positions: bool = False,
    feedforward: bool = False,
    gate: float = GATE,
    seed: int = 0,
) -> Construction:
    """A model with one head per coordinate that is within epsilon of the task's target on [0,1]^(T×d).

    Block i of the encoder holds psi_i(x(t)), the coordinate rescaled to [0, 1], and a gate r_i(t): 0 on S_i,
    `gate` off it. Head i attends by −psi_i + r_i, sharpened by β, and reads the average of psi_i: the
    minimum over S_i, up to 1/β. The readout is a network for F_0.

    The gate must lie below −1: at −1 a token outside S_i with psi = 0 would tie with one inside with psi = 1.

    Any of `layers`, `heads`, `kv_heads`, `head_dim` and `reading` asks for a shape instead (shaped.py), which
    may also see `positions` and have a `feedforward` network. One that no weights are known for is refused
    with the law that binds.

    >>> from headcount.tasks.library import extremes
    >>> made = specialise(extremes(), length=4, epsilon=0.1)
    >>> made.predict([[0.5], [0.25], [1.0], [0.75]]).round(2), made.error.total < 0.1
    (array([1.25]), True)
    """
    shape = {"layers": layers, "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "reading": reading}
    given: dict[str, Any] = {name: value for name, value in shape.items() if value is not None}
    if given or positions or feedforward:
        if gate != GATE:
            raise expected("gate", f"{GATE} for a shape of your own", gate)
        given |= {"positions": positions, "feedforward": feedforward}
        return specialise_shape(task, length=length, epsilon=epsilon, seed=seed, **given)
    epsilon, length = checked(epsilon, length)
    gate = check_number("gate", gate, at_most=0)
    return with_room_for_rounding(epsilon, lambda epsilon: _specialise(task, length, epsilon, gate, seed))


def _specialise(task: RetrievalTask, length: int, epsilon: float, gate: float, seed: int) -> Construction:
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
    blocks = encoder(psis, sets if gated else None, task.token_dim, gate)
    model = _model(task, blocks, phi, beta, length=length if gated else None)
    inside = max(int(mask.sum()) for mask in sets)
    outside = length - min(int(mask.sum()) for mask in sets)
    soft = {
        "softened minimum": steepness * (inside - 1) / (e * beta),
        "tokens outside the position sets": steepness * leak(outside, beta, gate),
    }
    parts = {
        "networks of the f_i": steepness * max(net.error for net in psis),
        **soft,
        "network of F_0": phi.error,
    }
    lost = rounding(model, length, coordinates, outer, softened=sum(soft.values()), parts=parts)
    error = certified(
        {**parts, ROUNDING: lost}, points=outer.points + sum(net.points for net in (*psis, phi))
    )
    return Construction(
        name="specialise",
        task=task,
        length=length,
        epsilon=epsilon,
        model=model,
        labels=tuple(label for i in range(dimension) for label in (f"psi_{i}", "1" if i == 0 else "0")),
        error=error,
        guarantees=guarantees(assumptions, proven=error.proven),
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

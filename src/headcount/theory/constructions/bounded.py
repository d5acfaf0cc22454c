r"""A construction of one layer, rewritten so that it meets the limits of Assumption 1 of the lower bound.

The same function, entry by entry within its limits (models/bounded.py):

- P. With a head per coordinate a block (ψ_i, r_i) lies in [0, 1] × [gate, 0], so that
  |P|_2 ≤ s = sqrt(D (1 + gate²)); with one wide head P is a token in its place, and s = sqrt(d). P / s is in
  the unit ball. The logits shrink by s, and s β takes that back.
- Attention. Its entries are 0 and ±1 already; what it reads shrinks by s, which F takes back.
- F. ReLU is positively homogeneous: relu(a·v + b) = c relu((a·v + b) / c), so that a unit with c the largest
  of its entries has entries of at most 1, and c goes into its outer weight. An outer weight of size w is
  ⌈w⌉ units of the same kind with an outer weight of w / ⌈w⌉. A constant is the weight of a unit that is 1.
  The four hidden layers of one wide head are rewritten one after the other; Assumption 1 is about one of
  them, and the variant of the bound for five-layer F about all.

Where it cannot: a tanh F is not homogeneous, and the assumption is about one layer of attention.
"""

from dataclasses import replace
from math import sqrt

import jax
import jax.numpy as jnp
import numpy as np

from headcount.errors import InvalidInput
from headcount.models.network import Network
from headcount.models.positions import encoder_inputs
from headcount.models.transformer import Transformer
from headcount.theory.constructions.construction import Construction

MAX_UNITS = 1 << 16


def bounded(made: Construction) -> Construction:
    """The construction with the same outputs and every entry within the limits of Assumption 1.

    >>> from headcount.models.bounded import largest_entry
    >>> from headcount.tasks.library import extremes
    >>> from headcount.theory.constructions.specialise import specialise
    >>> free = specialise(extremes(), length=4, epsilon=0.1)
    >>> within, x = bounded(free), [[0.5], [0.25], [1.0], [0.75]]
    >>> within.model.architecture.bounded, largest_entry(within.model)
    (True, 1.0)
    >>> bool(abs(within.predict(x) - free.predict(x)) < 1e-12)
    True
    """
    model, shape = made.model, made.model.architecture
    if made.name not in ("specialise", "memorise") or shape.layers > 1:
        raise InvalidInput(
            "construction: expected specialise or memorise with one layer, got "
            f"{made.name} with {shape.layers} layer{'s' if shape.layers > 1 else ''}"
        )
    if made.name == "specialise":
        scale = sqrt(made.task.dimension * (1 + _largest_gate(made) ** 2))
    else:
        scale = sqrt(made.task.token_dim)
    readout = _readout(model.readout, scale)
    hidden = tuple(len(bias) for bias in readout.biases[:-1])
    architecture = replace(shape, bounded=True, beta=scale * shape.beta, readout_hidden=hidden)
    but = "" if len(hidden) == 1 else f" but for F, which has {len(hidden)} hidden layers"
    return replace(
        made,
        model=Transformer(
            encoder=_scaled(model.encoder, 1 / scale),
            token_layers=(),
            class_token=model.class_token,
            attention=model.attention,
            readout=readout,
            architecture=architecture,
        ),
        guarantees=(
            *made.guarantees,
            f"assumption 1 holds{but}: entries of at most 1, β = {architecture.beta:.3g}",
        ),
    )


def _largest_gate(made: Construction) -> float:
    """What P holds beside the ψ_i depends on the place alone: any token shows it."""
    architecture = made.model.architecture
    with jax.enable_x64(True):
        inputs = encoder_inputs(jnp.zeros((made.length, made.task.token_dim)), architecture)
        return float(jnp.abs(made.model.encoder(inputs)[1::2]).max())


def _scaled(encoder: Network, factor: float) -> Network:
    """The network times a number."""
    *weights, last = map(np.asarray, encoder.weights)
    *biases, end = map(np.asarray, encoder.biases)
    return Network((*weights, factor * last), (*biases, factor * end), encoder.activation)


def _readout(readout: Network, scale: float) -> Network:
    """F(scale · v), with units enough for entries of at most 1, one hidden layer after the other."""
    weights = [np.asarray(weight) for weight in readout.weights]
    biases = [np.asarray(bias) for bias in readout.biases]
    weights[0] = scale * weights[0]
    # A unit that is always 1 in the last hidden layer, for the constant.
    weights[-2] = np.concatenate([weights[-2], np.zeros((1, weights[-2].shape[1]))])
    biases[-2] = np.append(biases[-2], 1.0)
    weights[-1] = np.concatenate([weights[-1], biases[-1][:, None]], axis=1)
    biases[-1] = np.zeros(len(biases[-1]))
    for layer in range(len(weights) - 1):
        inner, offset, outer = weights[layer], biases[layer], weights[layer + 1]
        sizes = np.maximum(np.maximum(np.abs(inner).max(axis=1), np.abs(offset)), 1.0)
        copies = np.ceil(np.abs(outer * sizes).max(axis=0)).astype(int)
        if copies.sum() > MAX_UNITS:
            raise InvalidInput(
                f"construction: expected an F that at most {MAX_UNITS} units with entries of at most 1 can "
                f"be, got one that needs {copies.sum()}"
            )
        kept = np.repeat(np.arange(len(copies)), copies)
        weights[layer], biases[layer] = (inner / sizes[:, None])[kept], (offset / sizes)[kept]
        weights[layer + 1] = (outer * sizes / np.maximum(copies, 1))[:, kept]
    return Network(tuple(weights), tuple(biases), readout.activation)

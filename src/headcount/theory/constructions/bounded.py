r"""A construction with one head per coordinate, rewritten so that it meets Assumption 1 of the lower bound.

The same function, entry by entry within its limits (models/bounded.py):

- P. A block (ψ_i, r_i) lies in [0, 1] × [gate, 0], so that |P|_2 ≤ s = sqrt(D (1 + gate²)); P / s is in the
  unit ball. The logits shrink by s, and s β takes that back.
- Attention. Its entries are 0 and ±1 already; what it reads shrinks by s, which F takes back.
- F. ReLU is positively homogeneous: relu(a·v + b) = c relu((a·v + b) / c), so that a unit with c the largest
  of its entries has entries of at most 1, and c goes into its outer weight. An outer weight of size w is
  ⌈w⌉ units of the same kind with an outer weight of w / ⌈w⌉. A constant is the weight of a unit that is 1.

Where it cannot: a tanh F is not homogeneous; the F of one wide head has several hidden layers, and
Assumption 1 is about one; and it is about one layer of attention.
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
    if made.name != "specialise" or shape.layers > 1 or len(shape.readout_hidden) > 1:
        raise InvalidInput(
            "construction: expected one layer with a head per coordinate and one hidden layer in F, got "
            f"{made.name} with {shape.layers} layers and {len(shape.readout_hidden)} hidden layers in F"
        )
    scale = sqrt(made.task.dimension * (1 + _largest_gate(made) ** 2))
    readout = _readout(model.readout, scale)
    architecture = replace(
        shape, bounded=True, beta=scale * shape.beta, readout_hidden=(len(readout.biases[0]),)
    )
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
            f"assumption 1 holds: entries of at most 1, β = {architecture.beta:.3g}",
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
    """F(scale · v), with units enough for entries of at most 1."""
    inner, outer = (np.asarray(weight) for weight in readout.weights)
    offset, constant = (np.asarray(bias) for bias in readout.biases)
    inner = np.concatenate([scale * inner, np.zeros((1, inner.shape[1]))])
    offset, outer = np.append(offset, 1.0), np.concatenate([outer, constant[:, None]], axis=1)
    sizes = np.maximum(np.maximum(np.abs(inner).max(axis=1), np.abs(offset)), 1.0)
    copies = np.ceil(np.abs(outer * sizes).max(axis=0)).astype(int)
    if copies.sum() > MAX_UNITS:
        raise InvalidInput(
            f"construction: expected an F that at most {MAX_UNITS} units with entries of at most 1 can be, "
            f"got one that needs {copies.sum()}"
        )
    kept = np.repeat(np.arange(len(copies)), copies)
    return Network(
        ((inner / sizes[:, None])[kept], (outer * sizes / np.maximum(copies, 1))[:, kept]),
        ((offset / sizes)[kept], np.zeros(len(constant))),
        readout.activation,
    )

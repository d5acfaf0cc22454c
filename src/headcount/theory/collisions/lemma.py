"""What the lower bound's lemma asks of a readout, and whether a model meets the assumption behind it."""

from dataclasses import dataclass
from math import ceil, sqrt

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from headcount.models.positions import encoder_inputs
from headcount.models.transformer import Transformer
from headcount.tasks.retrieval import RetrievalTask

_SAMPLES = 1024
_ROUNDING = 1e-9
ONE_LIPSCHITZ = ("relu", "tanh")


@dataclass(frozen=True)
class Lemma:
    """A readout with one hidden layer of p units and entries up to 1 moves by at most p·sqrt(E)·|v − w|.

    `broken` lists what keeps the lemma from a model; if nothing does, `width` is the p that a pair demands.
    """

    broken: tuple[str, ...]
    width: int | None
    parameters: int | None

    @property
    def applies(self) -> bool:
        """Whether every clause of Assumption 1 was found to hold."""
        return not self.broken

    def __str__(self) -> str:
        if self.broken:
            return f"the lemma does not apply: {'; '.join(self.broken)}"
        if self.width is None:
            return "the lemma applies, and no pair was found that asks anything of the readout"
        return f"the lemma asks for {self.width:,} hidden units or more, {self.parameters:,} parameters of F"


def lemma_for(
    model: Transformer, task: RetrievalTask, length: int, *, target_gap: float, representation_gap: float
) -> Lemma:
    """Assumption 1, checked on the weights and on samples, and the width that two sequences demand."""
    broken = broken_clauses(model, task, length)
    if broken or not target_gap > 0:
        return Lemma(broken, None, None)
    inputs = model.architecture.width
    width = target_gap / (max(representation_gap, 1e-300) * sqrt(inputs))
    outputs = model.architecture.output_dim
    units = ceil(min(width, 1e15))
    return Lemma((), units, units * (inputs + 1 + outputs) + outputs)


def broken_clauses(model: Transformer, task: RetrievalTask, length: int) -> tuple[str, ...]:
    """The clauses of Assumption 1 that a model breaks, each with its number."""
    readout = model.readout
    broken = []
    if len(readout.weights) != 2:
        broken.append(f"F has {len(readout.weights) - 1} hidden layers, not 1")
    if readout.activation not in ONE_LIPSCHITZ:
        broken.append(f"{readout.activation} is steeper than 1")
    entries = {
        "F": (*readout.weights, *readout.biases),
        "the attention": jax.tree.leaves(model.attention),
    }
    for name, arrays in entries.items():
        largest = max(float(np.abs(np.asarray(array)).max()) for array in arrays)
        if largest > 1 + _ROUNDING:
            broken.append(f"the largest entry of {name} is {largest:.3g}, above 1")
    norm = _largest_encoding(model, task, length)
    if norm > 1 + _ROUNDING:
        broken.append(f"|P(x, t)| reaches {norm:.3g}, above 1")
    return tuple(broken)


def _largest_encoding(model: Transformer, task: RetrievalTask, length: int) -> float:
    with jax.enable_x64(True):
        x = task.inputs(jax.random.key(0), _SAMPLES, length)
        if task.distribution == "uniform":
            x = jnp.concatenate([x, jnp.round(x)])
        return float(jnp.max(_encoding_norms(model, x)))


@eqx.filter_jit
def _encoding_norms(
    model: Transformer, x: Float[Array, "sequence length token_dim"]
) -> Float[Array, "sequence length"]:
    def norms(sequence: Array) -> Array:
        return jnp.linalg.norm(model.encoder(encoder_inputs(sequence, model.architecture)), axis=0)

    return jax.vmap(norms)(x)

"""A model or a task on many sequences. Called inside `jax.enable_x64(True)`, everything is float64."""

from typing import Protocol

import equinox as eqx
import jax
from jaxtyping import Array, Float

from headcount.models.transformer import Transformer

Sequences = Float[Array, "sequence length token_dim"]


class Target(Protocol):
    """Anything that says what is asked for, of one sequence or of many: a task, or a model in its place."""

    def target(self, x: Float[Array, "*sequence length token_dim"], /) -> Float[Array, "*sequence output"]:
        """What is asked for."""


@eqx.filter_jit
def outputs(model: Transformer, x: Sequences) -> Float[Array, "sequence output"]:
    """The model's outputs."""
    return jax.vmap(model)(x)


@eqx.filter_jit
def representations(model: Transformer, x: Sequences) -> Float[Array, "sequence width"]:
    """All that the readout learns about each sequence."""
    return jax.vmap(model.representation)(x)


@eqx.filter_jit
def targets(task: Target, x: Sequences) -> Float[Array, "sequence output"]:
    """What the task asks for."""
    return task.target(x)


@eqx.filter_jit
def scores_and_values(
    model: Transformer, x: Sequences
) -> tuple[Float[Array, "sequence head token"], Float[Array, "sequence head feature token"]]:
    """Each head's logits and values, token by token."""
    return jax.vmap(model.scores_and_values)(x)

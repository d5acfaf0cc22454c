"""Every architecture of the table evaluated once in float64, for the tests to compare."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jaxtyping import Array
from model_references import ARCHITECTURES, LENGTH, BoolArray, FloatArray, double

from headcount.models.pooling import pool, pool_for_training
from headcount.models.transformer import Transformer

# Programs that run once on a few numbers: compiling is all that takes time.
QUICKLY = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_parallel_codegen_split_count": 1,
}

Derived = tuple[FloatArray, tuple[Transformer, FloatArray]]


@dataclass(frozen=True)
class Inputs:
    """A model of the table, a sequence, and the weights of the outputs in the scalar that is derived."""

    model: Transformer
    x: FloatArray
    outputs: FloatArray


@dataclass(frozen=True)
class Evaluation:
    """The output and the gradients with either pooling, and all else that a model can be asked."""

    folded: Derived
    trained: Derived
    representation: FloatArray
    read_out: FloatArray
    weights: FloatArray


@lru_cache
def inputs(name: str) -> Inputs:
    architecture = ARCHITECTURES[name]
    random = np.random.default_rng(list(ARCHITECTURES).index(name))
    return Inputs(
        model=double(Transformer.initialise(architecture, seed=3)),
        x=random.normal(size=(LENGTH, architecture.token_dim)),
        outputs=random.uniform(1, 2, architecture.output_dim),
    )


def masks(name: str, masked: bool) -> tuple[BoolArray | None, BoolArray | None]:
    """None; or masks that hide a token in the middle and the last one, and the last of several heads."""
    if not masked:
        return None, None
    heads = ARCHITECTURES[name].heads
    return np.array([True, False, True, True, False]), np.arange(heads) < max(1, heads - 1)


@lru_cache
def evaluated(name: str, masked: bool) -> Evaluation:
    return evaluate(name, inputs(name).model, *masks(name, masked))


def evaluate(
    name: str, model: Transformer, mask: BoolArray | None = None, heads: BoolArray | None = None
) -> Evaluation:
    """A model of that architecture on the sequence of that name."""
    given = inputs(name)
    with jax.enable_x64(True):
        return Evaluation(*jax.tree.map(np.asarray, _folded(model, given.x, given.outputs, mask, heads)))


def derived(
    read: Callable[[Transformer, Array], Array], model: Transformer, x: Array, outputs: Array
) -> tuple[Array, tuple[Transformer, Array]]:
    """The output, and the gradients of a weighted sum of its entries."""

    def scalar(model: Transformer, x: Array) -> tuple[Array, Array]:
        output = read(model, x)
        return output @ outputs, output

    (_, output), gradients = jax.value_and_grad(scalar, argnums=(0, 1), has_aux=True)(model, x)
    return output, gradients


def _evaluate(
    model: Transformer, x: Array, outputs: Array, mask: Array | None, heads: Array | None
) -> tuple[Any, ...]:
    representation = model.representation(x, mask=mask, head_mask=heads)
    return (
        *(
            derived(
                lambda model, x, pool=pool: model(x, mask=mask, head_mask=heads, pool=pool), model, x, outputs
            )
            for pool in (pool, pool_for_training)
        ),
        representation,
        model.readout(representation),
        model.attention_weights(x, mask=mask),
    )


_folded = jax.jit(_evaluate, compiler_options=QUICKLY)

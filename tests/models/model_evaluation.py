"""Every architecture of the table evaluated once in float64, for the tests to compare."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jaxtyping import Array
from model_references import ARCHITECTURES, LENGTH, BoolArray, FloatArray, double, unfolded

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


def token_mask() -> BoolArray:
    """Hides a token in the middle and the last one."""
    return np.array([True, False, True, True, False])


def head_mask(model: Transformer) -> BoolArray:
    """Silences the last head, if there is another."""
    heads = model.architecture.heads
    return np.array([i == 0 or i < heads - 1 for i in range(heads)])


@lru_cache
def evaluated(name: str, masked: bool) -> Evaluation:
    """The model of that name with no masks at all, or with both."""
    model = inputs(name).model
    return evaluate(name, mask=token_mask(), heads=head_mask(model)) if masked else evaluate(name)


@lru_cache
def evaluated_unfolded(name: str, masked: bool) -> Derived:
    given = inputs(name)
    mask, heads = (token_mask(), head_mask(given.model)) if masked else (None, None)
    with jax.enable_x64(True):
        found: Derived = jax.tree.map(np.asarray, _unfolded(given.model, given.x, given.outputs, mask, heads))
        return found


def evaluate(
    name: str,
    *,
    model: Transformer | None = None,
    mask: BoolArray | None = None,
    heads: BoolArray | None = None,
) -> Evaluation:
    """One evaluation of the model of that name, or of another with its shape."""
    given = inputs(name)
    model = given.model if model is None else model
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


def _evaluate_folded(
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


def _evaluate_unfolded(
    model: Transformer, x: Array, outputs: Array, mask: Array | None, heads: Array | None
) -> tuple[Array, tuple[Transformer, Array]]:
    return derived(lambda model, x: unfolded(model, x, mask, heads), model, x, outputs)


_folded = jax.jit(_evaluate_folded, compiler_options=QUICKLY)
_unfolded = jax.jit(_evaluate_unfolded, compiler_options=QUICKLY)

"""No matrix product runs below float32 unless asked: a GPU would otherwise use TF32 without a word."""

import re
from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest
from jaxtyping import Array
from model_references import ARCHITECTURES, LENGTH, small

from headcount.models.architecture import Architecture
from headcount.models.pooling import Pool, pool, pool_for_training
from headcount.models.transformer import Padding, Transformer


def products(program: Callable[..., object], *arguments: object) -> list[tuple[str, str]]:
    """The precision asked of every matrix product, and the type that it multiplies."""
    lines = jax.jit(program).lower(*arguments).as_text().splitlines()
    return [_product(line) for line in lines if "stablehlo.dot_general" in line]


def _product(line: str) -> tuple[str, str]:
    asked = re.search(r"precision = \[(\w+), \1\]", line)
    algorithm = re.search(r"lhs_precision_type = (\w+), rhs_precision_type = \1, accum", line)
    kind = algorithm or re.search(r": \(tensor<\S+x(\w+)>, tensor<\S+x\1>\) ->", line)
    return asked[1] if asked else "mixed", kind[1] if kind else "mixed"


PRECISIONS = {"float32": "HIGHEST", "tensorfloat32": "HIGH", "bfloat16": "DEFAULT"}
SHAPES = {
    name: ARCHITECTURES[name]
    for name in ("the paper's", "layer norm, one layer", "two layers with everything")
} | {precision: small(precision=precision) for precision in ("tensorfloat32", "bfloat16")}


@pytest.mark.parametrize("pool", [pool, pool_for_training], ids=["pool", "pool_for_training"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_every_product_is_in_full_float32_unless_asked_otherwise(shape: Architecture, pool: Pool) -> None:
    def gradient(model: Transformer, x: Array) -> object:
        def loss(model: Transformer) -> Array:
            return jnp.sum(jax.vmap(lambda sequence: model(sequence, pool=pool))(x))

        return jax.value_and_grad(loss)(model)

    programs: list[Callable[[Transformer, Array], object]] = [
        gradient,
        # As the engine does it: slices of a batch, one gradient each.
        lambda model, x: jax.lax.scan(lambda _, part: (None, gradient(model, part)), None, x[:, None]),
        lambda model, x: model.representation(x[0]),
        lambda model, x: model.attention_weights(x[0]),
        lambda model, x: model(x[0], padding=Padding.of(shape), pool=pool),
    ]
    model, x = Transformer.initialise(shape, seed=0), jnp.zeros((2, LENGTH, shape.token_dim))
    found = [products(program, model, x) for program in programs]
    # P, F, directions, scores, averages, readers, forth and back.
    assert min(len(found[0]), len(found[1])) >= 7
    assert {product for each in found for product in each} == {(PRECISIONS[shape.precision], "f32")}
    assert all(found)

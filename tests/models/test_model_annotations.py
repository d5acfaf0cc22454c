"""Shapes and types as the source states them, checked while models run."""

import annotations

# Tracing is enough, and nothing is compiled. Of a tuple beartype looks at one entry, drawn at random:
# so each start is made several times.
PROGRAM = """
import jaxtyping

with jaxtyping.install_import_hook("headcount.models", "beartype.beartype"):
    import headcount.models

import jax
import jax.numpy as jnp
from model_references import ARCHITECTURES, LENGTH
from test_model_padding import larger

from headcount.models.transformer import Padding, Transformer
from headcount.models.padding import pad, unpad
from headcount.models.pooling import pool_for_training


def everything(model, x, mask, heads, padded, padding):
    trained = jax.value_and_grad(lambda model: model(x, mask=mask, pool=pool_for_training).sum())(model)
    batch = jax.vmap(lambda sequence: model(sequence, mask=mask))(x[None])
    asked = model.representation(x, mask=mask, head_mask=heads), model.attention_weights(x, mask=mask)
    return trained, batch, asked, model(x, head_mask=heads), padded(x, mask=mask, padding=padding)


NAMES = [
    "the paper's",
    "no hidden layers at all",
    "one-hot positions",
    "sinusoidal positions",
    "multi-query, vector-valued",
    "layer norm, one layer",
    "two layers with everything",
]
for shape in (ARCHITECTURES[name] for name in NAMES):
    for seed in range(5):
        model = Transformer.initialise(shape, seed=seed)
    x = jnp.zeros((LENGTH, shape.token_dim))
    mask, heads = jnp.ones(LENGTH, bool), jnp.ones(shape.heads, bool)
    padded = pad(model, larger(shape))
    model = unpad(padded, shape)
    jax.eval_shape(everything, model, x, None, None, padded, Padding.of(shape))
    jax.eval_shape(everything, model, x, mask, heads, padded, Padding.of(shape))
    assert model.counted_parameters() > 0

try:
    model(x[0])
except jaxtyping.TypeCheckError:
    print("all annotations are true, and a false one is noticed")
"""


def test_every_annotation_is_true() -> None:
    assert annotations.are_true_in(PROGRAM)

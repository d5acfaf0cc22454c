"""Shapes and types as the source states them, checked while models run."""

import os
import subprocess
import sys
from pathlib import Path

# Tracing is enough, and nothing is compiled. Of a tuple beartype looks at one entry, drawn at random:
# so each start is made several times.
PROGRAM = """
import jaxtyping

with jaxtyping.install_import_hook("headcount.models", "beartype.beartype"):
    from headcount.models.encoder import EncoderShape
    from headcount.models.padding import pad, unpad
    from headcount.models.pooling import pool_for_training
    from headcount.models.reranker import JoinedReranker, Reranker, RerankerShape
    from headcount.models.transformer import Padding, Transformer
    from headcount.models.vit import Vit, VitShape

import jax
import jax.numpy as jnp
from model_references import ARCHITECTURES, LENGTH
from test_model_padding import larger


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
    "two causal layers with everything, read at the last token",
    "a window and a global token, read in both",
    "grouped, a stream of its own",
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

for precision in ("float32", "bfloat16"):
    shape = EncoderShape(heads=2, head_dim=4, layers=2, feedforward=5, dropout=0.1, precision=precision)
    vit = Vit.initialise(VitShape(32, 8, 10, shape), seed=0)
    reranker = Reranker.initialise(RerankerShape(shape, 6), seed=0)
    joined = JoinedReranker.initialise(RerankerShape(shape, 6), seed=0)
    patches, query, tokens = jnp.zeros((2, 16, 192)), jnp.zeros((2, 6)), jnp.zeros((2, 7, 6))
    there, owner = jnp.ones((2, 7), bool), jnp.zeros((2, 7), int)
    for key in (None, jax.random.key(0)):
        jax.eval_shape(jax.grad(lambda model: model(patches, key=key).sum()), vit)
        jax.eval_shape(jax.grad(lambda model: model(query, tokens, key=key).sum()), reranker)
        jax.eval_shape(
            jax.grad(lambda model: model(tokens, there, owner, candidates=3, key=key).sum()), joined
        )
    jax.eval_shape(lambda model: model.encoder.with_attention(model.embed(patches)), vit)

for false in (lambda: model(x[0]), lambda: reranker(query[0], tokens)):
    try:
        false()
    except jaxtyping.TypeCheckError:
        print("a false one is noticed")
"""


def test_every_annotation_is_true() -> None:
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    program = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (program.stdout, program.stderr) == ("a false one is noticed\n" * 2, "")

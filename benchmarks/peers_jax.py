"""Members in JAX, by equinox as its documentation shows and by this engine: see peers.py."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array
from packs import pack_of
from peers_torch import BATCH, CLIP, HEAD_DIM, HEADS, HIDDEN, RATE, SAMPLES, TOKEN_DIM

from headcount.engine.train import PackTraining
from headcount.trials.machine import this_machine
from headcount.trials.training import Training


class Model(eqx.Module):
    """Tokens that attend to tokens in all layers but the last, which a class token reads."""

    encoder: eqx.nn.MLP
    class_token: Array
    layers: list[eqx.nn.MultiheadAttention]
    readout: eqx.nn.MLP

    def __init__(self, layers: int, key: Array) -> None:
        width, keys = HEADS * HEAD_DIM, jax.random.split(key, layers + 3)
        self.encoder = eqx.nn.MLP(TOKEN_DIM, width, HIDDEN, 1, key=keys[0])
        self.class_token = jax.random.normal(keys[1], (width,))
        self.layers = [eqx.nn.MultiheadAttention(HEADS, width, key=part) for part in keys[3:]]
        self.readout = eqx.nn.MLP(width, 1, HIDDEN, 1, activation=jax.nn.gelu, key=keys[2])

    def __call__(self, x: Array) -> Array:
        tokens = jax.vmap(self.encoder)(x)
        *between, last = self.layers
        for layer in between:
            tokens = layer(tokens, tokens, tokens)
        query = self.class_token[None]
        return self.readout((query + last(query, tokens, tokens))[0])


def equinox_vmap(size: Any) -> Callable[[int], int]:
    """An ensemble made by `filter_vmap`, and one compiled step that Python calls."""
    x = jax.random.normal(jax.random.PRNGKey(0), (SAMPLES, size.length, TOKEN_DIM))
    y = x.max(axis=1).sum(axis=1, keepdims=True)
    optimizer = optax.chain(optax.clip_by_global_norm(CLIP), optax.adamw(RATE))
    keys = jax.random.split(jax.random.PRNGKey(1), size.members)
    models = eqx.filter_vmap(lambda key: Model(size.layers, key))(keys)
    states = eqx.filter_vmap(lambda model: optimizer.init(eqx.filter(model, eqx.is_array)))(models)

    def loss(model: Model, x: Array, y: Array) -> Array:
        return jnp.mean((jax.vmap(model)(x) - y) ** 2)

    def step_of_one(model: Model, state: Any, key: Array) -> tuple[Model, Any]:
        chosen = jax.random.randint(key, (BATCH,), 0, SAMPLES)
        gradient = eqx.filter_grad(loss)(model, x[chosen], y[chosen])
        updates, state = optimizer.update(gradient, state, eqx.filter(model, eqx.is_array))
        return eqx.apply_updates(model, updates), state

    step = eqx.filter_jit(eqx.filter_vmap(step_of_one))
    now: list[Any] = [models, states, jax.random.PRNGKey(2)]

    def steps(count: int) -> int:
        for _ in range(count):
            now[2], key = jax.random.split(now[2])
            now[0], now[1] = step(now[0], now[1], jax.random.split(key, size.members))
        jax.block_until_ready(now[0])
        return count

    return steps


def engine(size: Any) -> Callable[[int], int]:
    """Packs as they are trained, with a look at validation data every 100 steps."""
    recipe = Training(steps=10**6, batch_size=BATCH, train_samples=SAMPLES)
    pack = pack_of(
        size.members,
        recipe,
        length=size.length,
        heads=HEADS,
        head_dim=HEAD_DIM,
        layers=size.layers,
        hidden=HIDDEN,
        learning_rate=RATE,
    )
    training = PackTraining(pack, this_machine())
    training.tuned = True

    def steps(count: int) -> int:
        """Whole periods."""
        every = training.training.evaluate_every
        periods = -(-count // every)
        training.state = training._advance(periods)
        return periods * every

    return steps

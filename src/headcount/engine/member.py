"""One member in training: its state, and the program that advances it. Pure JAX, one member at a time."""

from dataclasses import replace
from typing import Any, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, UInt32
from scipy.special import entr, logsumexp

from headcount.engine.data import Data, Split
from headcount.engine.rounding import Extent
from headcount.models.batches import Batched, Launch, averages_features
from headcount.models.network import Parameter as AnyArray
from headcount.models.pooling import pool_for_training
from headcount.models.transformer import Padding, Transformer
from headcount.trials.training import Loss, Training
from headcount.trials.trial import Trial

Batch = tuple[Array, Array, Array | None]

IMPOSSIBLE = -1e30  # the log of a probability of 0, but finite: its product with 0 is 0


class Slicing(NamedTuple):
    """How many sequences are computed at once, whether in batches, and by kernels of ours with which launch.

    benchmarks/kernels.py measures what is fastest.
    """

    size: int
    in_batches: bool = False
    launch: Launch | None = None


class Schedule(eqx.Module):
    """How a member is trained: arrays, so that a pack needs one program."""

    learning_rate: Float[AnyArray, ""]
    key: UInt32[AnyArray, "2"]
    steps: Int[AnyArray, ""]
    warmup: Int[AnyArray, ""]

    @classmethod
    def of(cls, trial: Trial, **more: Any) -> Self:
        """That of a trial, and what else a schedule of its kind has."""
        return cls(
            learning_rate=np.asarray(trial.learning_rate, np.float32),
            key=np.asarray(jax.random.PRNGKey(trial.seed)),
            steps=np.asarray(trial.training.steps, np.int32),
            warmup=np.asarray(trial.training.warmup, np.int32),
            **more,
        )


class Conditions(Schedule):
    """What is particular to a member and never changes; `extent` where arrays have more room than data."""

    padding: Padding
    dataset: Int[AnyArray, ""]
    extent: Extent | None = None

    @property
    def outputs(self) -> Int[AnyArray, ""] | None:
        """How many outputs count, where not all do."""
        return None if self.extent is None else self.extent.outputs


class Member(eqx.Module):
    """The state that a step changes, and the best state so far by validation error."""

    model: Transformer
    optimizer: Any
    step: Int[Array, ""]
    diverged: Bool[Array, ""]
    best: Transformer
    best_error: Float[Array, ""]
    best_step: Int[Array, ""]


def optimizer(training: Training) -> optax.GradientTransformation:
    """AdamW without its rate: the rate belongs to the member, the shape of its schedule to the training."""
    return optax.chain(
        optax.clip_by_global_norm(training.clip),
        optax.scale_by_adam(),
        optax.add_decayed_weights(training.weight_decay),
    )


def start(models: Transformer, training: Training) -> Member:
    """Members before their first step, from their stacked models: in NumPy, so that nothing is compiled."""

    def blank(model: Transformer) -> Member:
        return Member(
            model=model,
            optimizer=optimizer(training).init(model),
            step=jnp.int32(0),
            diverged=jnp.bool_(False),
            best=model,
            best_error=jnp.float32(0),
            best_step=jnp.int32(0),
        )

    shapes = jax.eval_shape(jax.vmap(blank), models)
    zero: Member = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
    worst = np.full(zero.best_error.shape, np.inf, zero.best_error.dtype)
    begun: Member = replace(zero, model=models, best=models, best_error=worst)  # type: ignore[arg-type]
    return begun


def advance(
    member: Member,
    conditions: Conditions,
    data: Data,
    evaluations: Int[Array, ""],
    *,
    training: Training,
    slicing: Slicing,
) -> Member:
    """Train for some evaluation periods. How many come in one call does not change any number."""
    return jax.lax.fori_loop(
        0, evaluations, lambda _, now: _period(now, conditions, data, training, slicing), member
    )


def _period(
    member: Member, conditions: Conditions, data: Data, training: Training, slicing: Slicing
) -> Member:
    """`evaluate_every` steps, then one look at the validation data."""
    update = optimizer(training).update
    mean, deviation = (jnp.asarray(part)[conditions.dataset] for part in (data.mean, data.deviation))

    chosen = _drawn(
        conditions.key,
        member.step,
        (training.evaluate_every, training.batch_size),
        samples=data.train.x.shape[1] if conditions.extent is None else conditions.extent.train,
    )

    def step(
        now: tuple[Any, Any, Any, Any], chosen: Int[Array, " sequence"]
    ) -> tuple[tuple[Any, Any, Any, Any], None]:
        model, state, count, diverged = now
        batch = _batch(data.train, conditions.dataset, chosen)
        loss, gradient = _loss_and_gradient(model, batch, conditions, slicing, training.loss)
        direction, state = update(gradient, state, model)
        rate = learning_rate_at(count, conditions)
        model = jax.tree.map(lambda weight, move: weight - rate * move, model, direction)
        if model.architecture.bounded:
            from headcount.models.bounded import project

            model = project(model, mean=mean, deviation=deviation)
        return (model, state, count + 1, diverged | ~jnp.isfinite(loss)), None

    begin = (member.model, member.optimizer, member.step, member.diverged)
    (model, state, count, diverged), _ = jax.lax.scan(step, begin, chosen)

    predicted = predict(model, data.validation, conditions, slicing)
    truth = jnp.asarray(data.validation.y)[conditions.dataset]
    each = losses(predicted, truth, training.loss, conditions.outputs)
    error = _mean(each, None if conditions.extent is None else conditions.extent.validation)
    better = error < member.best_error
    return Member(
        model=model,
        optimizer=state,
        step=count,
        diverged=diverged,
        best=jax.tree.map(lambda new, old: jnp.where(better, new, old), model, member.best),
        best_error=jnp.where(better, error, member.best_error),
        best_step=jnp.where(better, count, member.best_step),
    )


def learning_rate_at(count: Int[Array, ""], schedule: Schedule) -> Float[Array, ""]:
    """The rate: a line up from 0 over the warm-up, then a cosine down to 0 at the last step."""
    rate = jnp.asarray(schedule.learning_rate)
    done, warmup, steps = (
        jnp.asarray(number).astype(rate.dtype) for number in (count, schedule.warmup, schedule.steps)
    )
    up = done / jnp.maximum(warmup, 1)
    down = (1 + jnp.cos(jnp.pi * (done - warmup) / (steps - warmup))) / 2
    return rate * jnp.where(done < warmup, up, down)


def predict(
    model: Transformer, split: Split, conditions: Conditions, slicing: Slicing
) -> Float[Array, "sample output"]:
    """The model's standardised outputs, a slice of the samples at a time."""
    count = split.x.shape[1]
    # Whole slices, the last one filled up: a remainder would be compiled as a program of its own.
    places = jnp.minimum(jnp.arange(count + -count % slicing.size), count - 1)
    ready = prepared(model, split.x.shape[2], conditions.padding, slicing)

    def some(places: Int[Array, " slice"]) -> Float[Array, "slice output"]:
        mask = None if split.mask is None else split.mask[conditions.dataset, places]
        return outputs(ready, split.x[conditions.dataset, places], mask, conditions.padding)

    found = jax.lax.map(some, places.reshape(-1, slicing.size))
    return found.reshape(-1, found.shape[-1])[:count]


def prepared(model: Transformer, length: int, padding: Padding, slicing: Slicing) -> Transformer | Batched:
    """What is computed once for all slices of a step."""
    if slicing.in_batches and averages_features(model.architecture):
        return Batched.of(model, length, padding, launch=slicing.launch)
    return model


def outputs(
    ready: Transformer | Batched,
    x: Float[Array, "sequence token token_dim"],
    mask: Bool[Array, "sequence token"] | None,
    padding: Padding,
) -> Float[Array, "sequence output"]:
    """The outputs for a slice, as they are trained."""
    if isinstance(ready, Batched):
        return ready(x, mask)

    def output(sequence: Array, seen: Array | None) -> Array:
        return ready(sequence, mask=seen, padding=padding, pool=pool_for_training)

    return jax.vmap(output)(x, mask)


def losses(
    predicted: Float[Array, "sample output"],
    y: Float[Array, "sample output"],
    loss: Loss,
    outputs: Int[AnyArray, ""] | None = None,
) -> Float[Array, " sample"]:
    """What each sample costs: the mean square over outputs, or −log of the probability of its label.

    Only the first `outputs` count, where not all do.
    """
    if loss == "squared":
        squares = (predicted - y) ** 2
        return jnp.mean(squares, axis=-1) if outputs is None else jnp.sum(squares, axis=-1) / outputs
    if outputs is not None:
        predicted = jnp.where(jnp.arange(y.shape[-1]) < outputs, predicted, IMPOSSIBLE)
    return -jnp.sum(y * jax.nn.log_softmax(predicted, axis=-1), axis=-1)


def _mean(values: Float[Array, " sample"], count: Int[AnyArray, ""] | None) -> Float[Array, ""]:
    """Of all values, or of the first ones."""
    if count is None:
        return jnp.mean(values)
    return jnp.sum(jnp.where(jnp.arange(len(values)) < count, values, 0)) / count


def _drawn(
    key: UInt32[AnyArray, "2"],
    first: Int[Array, ""],
    shape: tuple[int, int],
    *,
    samples: int | Int[AnyArray, ""],
) -> Int[Array, "step sequence"]:
    """Sequences drawn with replacement; which ones follows from the member's key and the step alone."""
    steps, size = shape

    def of_step(count: Int[Array, ""]) -> Int[Array, " sequence"]:
        return jax.random.randint(jax.random.fold_in(key, count), (size,), 0, samples, jnp.int32)

    # Those of a whole period at once: a step of a small member takes no longer than drawing for it alone.
    return jax.vmap(of_step)(first + jnp.arange(steps))


def _batch(train: Split, dataset: Int[AnyArray, ""], chosen: Int[Array, " sequence"]) -> Batch:
    mask = None if train.mask is None else train.mask[dataset, chosen]
    return train.x[dataset, chosen], train.y[dataset, chosen], mask


def _loss_and_gradient(
    model: Transformer, batch: Batch, conditions: Conditions, slicing: Slicing, kind: Loss
) -> tuple[Float[Array, ""], Transformer]:
    """The mean loss over the batch, summed slice by slice so that a slice stays in cache."""
    length, padding = batch[0].shape[1], conditions.padding
    ready, back = jax.vjp(lambda model: prepared(model, length, padding, slicing), model)

    def loss(ready: Transformer | Batched, x: Array, y: Array, mask: Array | None) -> Float[Array, ""]:
        return jnp.mean(losses(outputs(ready, x, mask, padding), y, kind, conditions.outputs))

    size = batch[0].shape[0]
    slices = size // slicing.size
    if slices <= 1 or size % slicing.size:
        value, gradient = jax.value_and_grad(loss)(ready, *batch)
        return value, back(gradient)[0]

    def add(total: Any, part: Batch) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, jax.value_and_grad(loss)(ready, *part)), None

    parts = jax.tree.map(lambda array: array.reshape(slices, slicing.size, *array.shape[1:]), batch)
    zero = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, ready))
    (value, gradient), _ = jax.lax.scan(add, zero, parts)
    mean = jax.tree.map(lambda array: array / slices, gradient)
    return value / slices, back(mean)[0]


Costs = Float[np.ndarray, "member sample"]


def sample_costs(
    predicted: Float[Array, "member sample output"], split: Split, datasets: np.ndarray, loss: Loss
) -> Costs:
    """Squared errors over the variance of y, or −log p over the entropy of the labels; in float64."""
    truth = np.asarray(split.y, np.float64)[datasets]
    outputs = np.asarray(predicted, np.float64)
    if loss == "squared":
        shares: Costs = ((outputs - truth) ** 2 / truth.var(axis=1, keepdims=True)).mean(axis=-1)
        return shares
    surprise = logsumexp(outputs, axis=-1) - (truth * outputs).sum(axis=-1)
    relative: Costs = surprise / entr(truth.mean(axis=1)).sum(axis=-1, keepdims=True)
    return relative

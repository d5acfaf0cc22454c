"""`averages` of models/batches.py as two kernels for a GPU, whose memory only their results go through.

A program takes some sequences of one member, one after the other. Hidden features, scores and weights stay
in registers; the way back computes them again. Axes that are short (heads, the numbers of a token) are sums
written out, so that nothing is padded to the size of a matrix unit, and all arithmetic is in full precision.
`jax.vmap` over members puts them on the grid.
"""

from collections.abc import Callable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float

from headcount.models.batches import Averages, Launch, Mask

Ref = jax.Ref


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def fused_averages(
    weights: Float[Array, "feature inputs"],
    place: Float[Array, "feature token"] | None,
    directions: Float[Array, "head feature"],
    inputs: Float[Array, "sequence inputs token"],
    mask: Mask,
    launch: Launch,
) -> Averages:
    r"""Σ_t w_h(t) φ(t), with φ(t) = relu(W x(t) + place(t)) and w_h = softmax_t( a_h · φ(t) )."""
    return _forward(weights, place, directions, inputs, mask, launch)[0]


def _forward(
    weights: Array, place: Array | None, directions: Array, inputs: Array, mask: Mask, launch: Launch
) -> tuple[Averages, tuple[Array | None, ...]]:
    sequences, heads = inputs.shape[0], directions.shape[0]
    features = _power_of_two(weights.shape[0])
    shared, own = _padded(weights, place, directions, inputs, mask)
    kernel = _call(
        partial(_read, heads=heads),
        shared,
        own,
        outputs=[((sequences, heads, features), launch.sequences)],
        launch=launch,
    )
    read = jnp.matrix_transpose(kernel(*shared, *own)[0])[:, : weights.shape[0]]
    return read, (weights, place, directions, inputs, mask)


def _backward(
    launch: Launch, kept: tuple[Array | None, ...], read_bar: Averages
) -> tuple[Array, Array | None, Array, None, None]:
    weights, place, directions, inputs, mask = kept
    assert weights is not None and directions is not None and inputs is not None
    (features, count), heads = weights.shape, directions.shape[0]
    padded, length = _power_of_two(features), _power_of_two(inputs.shape[2])
    shared, own = _padded(weights, place, directions, inputs, mask)
    extra = padded - features
    own = (*own, jnp.pad(jnp.matrix_transpose(read_bar), ((0, 0), (0, 0), (0, extra))))
    programs = inputs.shape[0] // _each(inputs.shape[0], launch)
    outputs: list[tuple[tuple[int, ...], int]] = [
        ((programs, count, padded), 1),
        ((programs, heads, padded), 1),
    ]
    if place is not None:
        outputs.append(((programs, padded, length), 1))
    kernel = _call(partial(_derive, heads=heads, count=count), shared, own, outputs, launch)
    weights_bar, directions_bar, *place_bar = (jnp.sum(part, axis=0) for part in kernel(*shared, *own))
    return (
        weights_bar[:, :features].T,
        place_bar[0][:features, : inputs.shape[2]] if place_bar else None,
        directions_bar[:, :features],
        None,
        None,
    )


fused_averages.defvjp(_forward, _backward)


def _padded(
    weights: Array, place: Array | None, directions: Array, inputs: Array, mask: Mask
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """What all sequences share, rows first, and what each has: sizes a kernel can hold, tokens masked."""
    more = _power_of_two(weights.shape[0]) - weights.shape[0]
    length = inputs.shape[2]
    rest = _power_of_two(length) - length
    shared: tuple[Array, ...] = (
        jnp.pad(weights.T, ((0, 0), (0, more))),
        jnp.pad(directions, ((0, 0), (0, more))),
    )
    if place is not None:
        shared = (*shared, jnp.pad(place, ((0, more), (0, rest))))
    own = (jnp.pad(inputs, ((0, 0), (0, 0), (0, rest))),)
    seen = jnp.ones((inputs.shape[0], length), inputs.dtype) if mask is None else mask.astype(inputs.dtype)
    return shared, (*own, jnp.pad(seen, ((0, 0), (0, rest))))


def _call(
    body: Callable[..., None],
    shared: tuple[Array, ...],
    own: tuple[Array, ...],
    outputs: Sequence[tuple[tuple[int, ...], int]],
    launch: Launch,
) -> Callable[..., Sequence[Array]]:
    """The kernel over blocks of sequences; every program sees all that is shared."""
    each = _each(own[0].shape[0], launch)
    programs = own[0].shape[0] // each

    def block(shape: tuple[int, ...], rows: int) -> pl.BlockSpec:
        return pl.BlockSpec((rows, *shape[1:]), lambda place: (place, *(0,) * (len(shape) - 1)))

    def whole(shape: tuple[int, ...]) -> pl.BlockSpec:
        return pl.BlockSpec(shape, lambda place: (0,) * len(shape))

    rows = [min(size, each) for _, size in outputs]
    return pl.pallas_call(
        partial(body, each=each, placed=len(shared) == 3),
        grid=(programs,),
        in_specs=[*(whole(part.shape) for part in shared), *(block(part.shape, each) for part in own)],
        out_specs=[block(shape, size) for (shape, _), size in zip(outputs, rows, strict=True)],
        out_shape=[jax.ShapeDtypeStruct(shape, own[0].dtype) for shape, _ in outputs],
        compiler_params=triton.CompilerParams(num_warps=launch.warps, num_stages=1),
        interpret=launch.interpret,
    )


def _each(sequences: int, launch: Launch) -> int:
    """How many sequences a program takes: as many as it should, or fewer where they do not go round."""
    return max(size for size in range(1, launch.sequences + 1) if sequences % size == 0)


def _power_of_two(size: int) -> int:
    return 1 << (size - 1).bit_length()


def _features(weights: Ref, place: Ref | None, inputs: Ref, sequence: Array) -> Array:
    before = 0.0 if place is None else place[...]
    for row in range(inputs.shape[1]):
        before += weights[row, :][:, None] * inputs[sequence, row, :][None, :]
    return jnp.maximum(before, 0)


def _weights_of(features: Array, direction: Array, seen: Array) -> Array:
    logits = jnp.where(seen > 0, jnp.sum(direction[:, None] * features, axis=0), -jnp.inf)
    exponents = jnp.exp(logits - jnp.max(logits))
    return exponents / jnp.sum(exponents)


def _read(*refs: Ref, heads: int, each: int, placed: bool) -> None:
    weights, directions, *rest = refs
    place = rest.pop(0) if placed else None
    inputs, seen, read = rest

    def of_sequence(sequence: Array, _: None) -> None:
        features = _features(weights, place, inputs, sequence)
        for head in range(heads):
            attention = _weights_of(features, directions[head, :], seen[sequence, :])
            read[sequence, head, :] = jnp.sum(features * attention[None, :], axis=1)

    jax.lax.fori_loop(0, each, of_sequence, None)


def _derive(*refs: Ref, heads: int, count: int, each: int, placed: bool) -> None:
    weights, directions, *rest = refs
    place = rest.pop(0) if placed else None
    inputs, seen, read_bar, *bars = rest
    width, length = weights.shape[1], inputs.shape[2]
    zero = jnp.zeros(width, inputs.dtype)

    def of_sequence(sequence: Array, sums: tuple[Array, ...]) -> tuple[Array, ...]:
        rows, asked, *placed_bar = sums[:count], sums[count : count + heads], *sums[count + heads :]
        features = _features(weights, place, inputs, sequence)
        features_bar, found = jnp.zeros_like(features), []
        for head in range(heads):
            direction, bar = directions[head, :], read_bar[sequence, head, :]
            attention = _weights_of(features, direction, seen[sequence, :])
            attention_bar = jnp.sum(bar[:, None] * features, axis=0)
            logits_bar = attention * (attention_bar - jnp.sum(attention * attention_bar))
            features_bar += bar[:, None] * attention[None, :] + direction[:, None] * logits_bar[None, :]
            found.append(asked[head] + jnp.sum(features * logits_bar[None, :], axis=1))
        before_bar = jnp.where(features > 0, features_bar, 0)
        new = [
            row + jnp.sum(before_bar * inputs[sequence, place_, :][None, :], axis=1)
            for place_, row in enumerate(rows)
        ]
        return (*new, *found, *(bar + before_bar for bar in placed_bar))

    start = (zero,) * (count + heads) + ((jnp.zeros((width, length), inputs.dtype),) if placed else ())
    sums = jax.lax.fori_loop(0, each, of_sequence, start)
    for row in range(count):
        bars[0][0, row, :] = sums[row]
    for head in range(heads):
        bars[1][0, head, :] = sums[count + head]
    if placed:
        bars[2][0, :, :] = sums[-1]

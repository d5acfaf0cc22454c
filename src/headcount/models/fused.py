"""`averages` of models/batches.py as two kernels for a GPU, whose memory only their results go through.

A program takes some sequences of one member, a group of them and a chunk of their tokens at a time. Hidden
features, scores and weights stay in registers; the way back computes them again from the normaliser of each
softmax. Axes that are short (heads, the numbers of a token) are sums written out, so that nothing is padded
to the size of a matrix unit, and all arithmetic is in full precision. `jax.vmap` over members puts them on
the grid.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float

from headcount.models.batches import Averages, Launch, Mask

Ref = jax.Ref
HIDDEN = -1e30  # the score of a token that is not there: finite, so that a chunk may have none that is


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
    sequences, heads, features = inputs.shape[0], directions.shape[0], weights.shape[0]
    sizes = _Sizes(launch, sequences, inputs.shape[2], features, inputs.shape[1], heads)
    shared, own = _padded(weights, place, directions, inputs, mask, sizes)
    outputs = [((sequences, heads, sizes.features), sizes.each), ((sequences, heads), sizes.each)]
    read, normaliser = _call(_read, sizes, shared, own, outputs, launch)
    found = jnp.matrix_transpose(read)[:, :features]
    return found, (weights, place, directions, inputs, mask, read, normaliser)


def _backward(
    launch: Launch, kept: tuple[Array | None, ...], read_bar: Averages
) -> tuple[Array, Array | None, Array, None, None]:
    weights, place, directions, inputs, mask, read, normaliser = kept
    assert weights is not None and directions is not None and inputs is not None
    assert read is not None and normaliser is not None
    (features, count), heads, length = weights.shape, directions.shape[0], inputs.shape[2]
    sizes = _Sizes(launch, inputs.shape[0], length, features, count, heads)
    shared, own = _padded(weights, place, directions, inputs, mask, sizes)
    bar = jnp.pad(jnp.matrix_transpose(read_bar), ((0, 0), (0, 0), (0, sizes.features - features)))
    # Σ_t w(t) (ḡ · φ(t)) is ḡ · Σ_t w(t) φ(t): what was read already.
    own = (*own, bar, normaliser, jnp.sum(read * bar, axis=2))
    outputs: list[tuple[tuple[int, ...], int]] = [
        ((sizes.programs, count, sizes.features), 1),
        ((sizes.programs, heads, sizes.features), 1),
    ]
    if place is not None:
        outputs.append(((sizes.programs, sizes.features, sizes.length), 1))
    parts = _call(_derive, sizes, shared, own, outputs, launch)
    weights_bar, directions_bar, *place_bar = (jnp.sum(part, axis=0) for part in parts)
    return (
        weights_bar[:, :features].T,
        place_bar[0][:features, :length] if place_bar else None,
        directions_bar[:, :features],
        None,
        None,
    )


fused_averages.defvjp(_forward, _backward)


class _Sizes:
    """The sizes of the blocks: powers of two, or what divides the sequences."""

    def __init__(
        self, launch: Launch, sequences: int, length: int, features: int, count: int, heads: int
    ) -> None:
        self.each = _divisor(sequences, launch.sequences)
        self.programs = sequences // self.each
        self.group = _power_of_two(_divisor(self.each, launch.group), down=True)
        self.group = self.group if self.each % self.group == 0 else 1
        self.length = _power_of_two(length)
        self.tokens = min(launch.tokens, self.length)
        self.features, self.count, self.heads = _power_of_two(features), count, heads
        self.late = launch.late


def _divisor(size: int, at_most: int) -> int:
    """The largest that divides it."""
    return max(part for part in range(1, at_most + 1) if size % part == 0)


def _power_of_two(size: int, *, down: bool = False) -> int:
    return 1 << (size.bit_length() - 1 if down else (size - 1).bit_length())


def _padded(
    weights: Array, place: Array | None, directions: Array, inputs: Array, mask: Mask, sizes: _Sizes
) -> tuple[tuple[Array | None, ...], tuple[Array | None, ...]]:
    """What all sequences share, rows first, and what each has: sizes a kernel can hold, tokens masked."""
    more, length = sizes.features - weights.shape[0], inputs.shape[2]
    rest = sizes.length - length
    shared = (
        jnp.pad(weights.T, ((0, 0), (0, more))),
        jnp.pad(directions, ((0, 0), (0, more))),
        None if place is None else jnp.pad(place, ((0, more), (0, rest))),
    )
    seen = None
    if mask is not None or rest:
        every = jnp.ones((inputs.shape[0], length), bool) if mask is None else mask
        seen = jnp.pad(every.astype(inputs.dtype), ((0, 0), (0, rest)))
    return shared, (jnp.pad(inputs, ((0, 0), (0, 0), (0, rest))), seen)


def _call(
    body: Callable[..., None],
    sizes: _Sizes,
    shared: Sequence[Array | None],
    own: Sequence[Array | None],
    outputs: Sequence[tuple[tuple[int, ...], int]],
    launch: Launch,
) -> Sequence[Array]:
    """The kernel over blocks of sequences; every program sees all that is shared. None is left out."""
    arguments = (*shared, *own)
    there = [part is not None for part in arguments]

    def block(shape: tuple[int, ...], rows: int) -> pl.BlockSpec:
        return pl.BlockSpec((rows, *shape[1:]), lambda place: (place, *(0,) * (len(shape) - 1)))

    def whole(shape: tuple[int, ...]) -> pl.BlockSpec:
        return pl.BlockSpec(shape, lambda place: (0,) * len(shape))

    def kernel(*refs: Ref) -> None:
        given = iter(refs)
        body(sizes, *(next(given) if is_there else None for is_there in there), *given)

    specs = [whole(part.shape) for part in shared if part is not None]
    specs += [block(part.shape, sizes.each) for part in own if part is not None]
    kind = next(part.dtype for part in own if part is not None)
    found: Sequence[Array] = pl.pallas_call(
        kernel,
        grid=(sizes.programs,),
        in_specs=specs,
        out_specs=[block(shape, rows) for shape, rows in outputs],
        out_shape=[jax.ShapeDtypeStruct(shape, kind) for shape, _ in outputs],
        compiler_params=triton.CompilerParams(num_warps=launch.warps, num_stages=1),
        interpret=launch.interpret,
    )(*(part for part in arguments if part is not None))
    return found


Block = Float[Array, "group feature token"]


def _features(weights: Ref, place: Ref | None, inputs: Ref, rows: pl.Slice, tokens: pl.Slice) -> Block:
    before: Array | float = 0.0 if place is None else place[:, tokens][None]
    for row in range(inputs.shape[1]):
        before += weights[row, :][None, :, None] * inputs[rows, row, tokens][:, None, :]
    return jnp.maximum(before, 0)


def _score(features: Block, direction: Array) -> Float[Array, "group token"]:
    return jnp.sum(direction[None, :, None] * features, axis=1)


def _read(
    sizes: _Sizes,
    weights: Ref,
    directions: Ref,
    place: Ref | None,
    inputs: Ref,
    seen: Ref | None,
    read: Ref,
    normaliser: Ref,
) -> None:
    """One pass over the tokens: sums are scaled down where a larger score comes (online softmax)."""
    kind, group = inputs.dtype, sizes.group
    start = (
        jnp.full((group,), HIDDEN, kind),
        jnp.zeros((group,), kind),
        jnp.zeros((group, sizes.features), kind),
    )

    def of_group(number: Array, _: None) -> None:
        rows = pl.ds(number * group, group)

        def of_chunk(chunk: Array, sums: tuple[tuple[Array, ...], ...]) -> tuple[tuple[Array, ...], ...]:
            tokens = pl.ds(chunk * sizes.tokens, sizes.tokens)
            features = _features(weights, place, inputs, rows, tokens)
            there = None if seen is None else seen[rows, tokens]
            found = []
            for head, (largest, mass, total) in enumerate(sums):
                scores = _score(features, directions[head, :])
                if there is not None:
                    scores = jnp.where(there > 0, scores, HIDDEN)
                now = jnp.maximum(largest, jnp.max(scores, axis=1))
                exponents = jnp.exp(scores - now[:, None])
                if there is not None:
                    exponents *= there
                scale = jnp.exp(largest - now)
                of_tokens = jnp.sum(features * exponents[:, None, :], axis=2)
                found.append(
                    (now, mass * scale + jnp.sum(exponents, axis=1), total * scale[:, None] + of_tokens)
                )
            return tuple(found)

        sums = _loop(sizes.length // sizes.tokens, of_chunk, (start,) * sizes.heads)
        for head, (largest, mass, total) in enumerate(sums):
            read[rows, head, :] = total / mass[:, None]
            normaliser[rows, head] = largest + jnp.log(mass)

    _loop(sizes.each // group, of_group, None)


def _derive(
    sizes: _Sizes,
    weights: Ref,
    directions: Ref,
    place: Ref | None,
    inputs: Ref,
    seen: Ref | None,
    read_bar: Ref,
    normaliser: Ref,
    mean: Ref,
    weights_bar: Ref,
    directions_bar: Ref,
    place_bar: Ref | None = None,
) -> None:
    """Chunks do not depend on one another. `late`: sums over tokens wait until the end of the program."""
    kind, count = inputs.dtype, sizes.count
    block = (sizes.group, sizes.features, sizes.tokens)

    def summed(values: Block) -> Array:
        return values if sizes.late else jnp.sum(jnp.sum(values, axis=2), axis=0)

    zero = jnp.zeros(block if sizes.late else (sizes.features,), kind)

    def of_chunk(chunk: Array, sums: tuple[Array, ...]) -> tuple[Array, ...]:
        tokens = pl.ds(chunk * sizes.tokens, sizes.tokens)

        def of_group(number: Array, carry: tuple[Array, ...]) -> tuple[Array, ...]:
            sums, placed = carry[: len(carry) - 1], carry[-1]
            rows = pl.ds(number * sizes.group, sizes.group)
            features = _features(weights, place, inputs, rows, tokens)
            there = None if seen is None else seen[rows, tokens]
            features_bar, found = jnp.zeros(block, kind), []
            for head in range(sizes.heads):
                direction, bar = directions[head, :], read_bar[rows, head, :]
                attention = jnp.exp(_score(features, direction) - normaliser[rows, head][:, None])
                if there is not None:
                    attention = jnp.where(there > 0, attention, 0)
                attention_bar = jnp.sum(bar[:, :, None] * features, axis=1)
                scores_bar = attention * (attention_bar - mean[rows, head][:, None])
                features_bar += bar[:, :, None] * attention[:, None, :]
                features_bar += direction[None, :, None] * scores_bar[:, None, :]
                found.append(sums[count + head] + summed(features * scores_bar[:, None, :]))
            before_bar = jnp.where(features > 0, features_bar, 0)
            rows_bar = [
                sums[row] + summed(before_bar * inputs[rows, row, tokens][:, None, :]) for row in range(count)
            ]
            return (*rows_bar, *found, placed if place_bar is None else placed + jnp.sum(before_bar, axis=0))

        nothing = jnp.zeros(block[1:], kind) if place_bar is not None else jnp.zeros((), kind)
        *sums_, placed = _loop(sizes.each // sizes.group, of_group, (*sums, nothing))
        if place_bar is not None:
            place_bar[0, :, tokens] = placed
        return tuple(sums_)

    sums = _loop(sizes.length // sizes.tokens, of_chunk, (zero,) * (count + sizes.heads))
    for place_, total in enumerate(sums):
        done = jnp.sum(jnp.sum(total, axis=2), axis=0) if sizes.late else total
        if place_ < count:
            weights_bar[0, place_, :] = done
        else:
            directions_bar[0, place_ - count, :] = done


def _loop(times: int, body: Callable[[Array, Any], Any], start: Any) -> Any:
    """A loop, or none where it would run once."""
    if times == 1:
        return body(jnp.int32(0), start)
    return jax.lax.fori_loop(0, times, body, start)

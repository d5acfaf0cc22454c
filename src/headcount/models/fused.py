"""`averages` of models/batches.py as three kernels for a GPU, whose memory only their results go through.

A program takes sequences of one member, one after the other. Each thread holds some tokens with all that is
computed of them: features, heads and the numbers of a token are short axes, and sums over them are written
out, so that nothing is padded to the size of a matrix unit, no thread waits for another, and all arithmetic
is in full precision. Weights are scalars that all threads read alike. Hidden features are computed three
times and never stored: to be averaged, to see what a change of the average does to the attention weights,
and, a few at a time, for the gradient. `jax.vmap` puts members on the grid.
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
Tokens = Float[Array, " token"]
HIDDEN = -1e30  # the score of a token that is not there

# Of the last kernel, whose sums fill the registers: half as many tokens where it has many of them.
FEATURES_AT_A_TIME, TOKENS_AT_A_TIME, MANY_SUMS = 4, 64, 16


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
    shapes = _Shapes(weights, directions, inputs, launch)
    own = shapes.of_sequences(inputs, mask)
    read, attention = shapes.call(
        _read,
        shared=shapes.of_all(weights, place, directions),
        own=own,
        outputs=[(shapes.heads, shapes.features), (shapes.heads, shapes.length)],
    )
    found = jnp.matrix_transpose(read)[:, : weights.shape[0]]
    return found, (weights, place, directions, inputs, read, attention)


def _backward(
    launch: Launch, kept: tuple[Array | None, ...], read_bar: Averages
) -> tuple[Array, Array | None, Array, None, None]:
    weights, place, directions, inputs, read, attention = kept
    assert weights is not None and directions is not None and inputs is not None
    assert read is not None and attention is not None
    shapes = _Shapes(weights, directions, inputs, launch)
    shared, (x, _) = shapes.of_all(weights, place, directions), shapes.of_sequences(inputs, None)
    extra = shapes.features - weights.shape[0]
    bar = jnp.pad(jnp.matrix_transpose(read_bar), ((0, 0), (0, 0), (0, extra)))
    # Σ_t w(t) (ḡ · φ(t)) is ḡ · Σ_t w(t) φ(t): what was read already.
    mean = jnp.sum(read * bar, axis=2)
    (scores_bar,) = shapes.call(
        _ask, shared, (x, attention, bar, mean), outputs=[(shapes.heads, shapes.length)]
    )
    weights_bar, directions_bar, *place_bar = shapes.derive(shared, (x, attention, scores_bar, bar))
    rows, length = weights.shape[0], inputs.shape[2]
    return (
        weights_bar[:, :rows].T,
        place_bar[0][:rows, :length] if place_bar else None,
        directions_bar[:, :rows],
        None,
        None,
    )


fused_averages.defvjp(_forward, _backward)


class _Shapes:
    """Sizes that kernels can hold, arrays filled up to them, and kernels over blocks of sequences."""

    def __init__(self, weights: Array, directions: Array, inputs: Array, launch: Launch) -> None:
        self.sequences, self.count, length = inputs.shape
        self.length = 1 << (length - 1).bit_length()
        self.heads = directions.shape[0]
        self.features = -(-weights.shape[0] // FEATURES_AT_A_TIME) * FEATURES_AT_A_TIME
        self.each = max(size for size in range(1, launch.sequences + 1) if self.sequences % size == 0)
        self.programs = self.sequences // self.each
        self.launch, self.kind = launch, inputs.dtype

    def of_all(self, weights: Array, place: Array | None, directions: Array) -> tuple[Array | None, ...]:
        """What all sequences share, features last but for places."""
        more, rest = self.features - weights.shape[0], self.length
        return (
            jnp.pad(weights.T, ((0, 0), (0, more))),
            jnp.pad(directions, ((0, 0), (0, more))),
            None if place is None else jnp.pad(place, ((0, more), (0, rest - place.shape[1]))),
        )

    def of_sequences(self, inputs: Array, mask: Mask) -> tuple[Array, Array | None]:
        """Tokens filled up, and which of them are there, unless all are."""
        sequences, _, length = inputs.shape
        rest, seen = self.length - length, None
        if mask is not None or rest:
            every = jnp.ones((sequences, length), bool) if mask is None else mask
            seen = jnp.pad(every.astype(inputs.dtype), ((0, 0), (0, rest)))
        return jnp.pad(inputs, ((0, 0), (0, 0), (0, rest))), seen

    def call(
        self,
        body: Callable[..., None],
        shared: Sequence[Array | None],
        own: Sequence[Array | None],
        outputs: Sequence[tuple[int, ...]],
    ) -> Sequence[Array]:
        """A kernel whose results are arrays of each sequence."""

        def of_sequences(shape: tuple[int, ...]) -> pl.BlockSpec:
            return pl.BlockSpec((self.each, *shape), lambda place: (place, *(0,) * len(shape)))

        def whole(part: Array) -> pl.BlockSpec:
            return pl.BlockSpec(part.shape, lambda place: (0,) * part.ndim)

        return self._run(
            body,
            (self.programs,),
            (*shared, *own),
            [None if part is None else whole(part) for part in shared]
            + [None if part is None else of_sequences(part.shape[1:]) for part in own],
            [((self.sequences, *shape), of_sequences(shape)) for shape in outputs],
        )

    def derive(self, shared: Sequence[Array | None], own: Sequence[Array]) -> Sequence[Array]:
        """The gradient of what all sequences share, some features of some sequences in each program."""
        some, bar = FEATURES_AT_A_TIME, own[-1]

        def of_features(rows: int) -> pl.BlockSpec:
            return pl.BlockSpec((rows, some), lambda place, block: (0, block))

        def part(rows: int) -> tuple[tuple[int, ...], pl.BlockSpec]:
            shape = (self.programs, rows, self.features)
            return shape, pl.BlockSpec((1, rows, some), lambda place, block: (place, 0, block))

        of_places = pl.BlockSpec((some, self.length), lambda place, block: (block, 0))
        specs = [of_features(self.count), of_features(self.heads), None if shared[2] is None else of_places]
        specs += [
            pl.BlockSpec((self.each, *each.shape[1:]), lambda place, block: (place, 0, 0))
            for each in own[:-1]
        ]
        specs.append(pl.BlockSpec((self.each, self.heads, some), lambda place, block: (place, 0, block)))
        outputs = [part(self.count), part(self.heads)]
        if shared[2] is not None:
            shape = (self.programs, self.features, self.length)
            block = pl.BlockSpec((1, some, self.length), lambda place, block: (place, block, 0))
            outputs.append((shape, block))
        grid = (self.programs, self.features // some)
        found = self._run(_derive, grid, (*shared, *own[:-1], bar), specs, outputs)
        return [jnp.sum(each, axis=0) for each in found]

    def _run(
        self,
        body: Callable[..., None],
        grid: tuple[int, ...],
        arguments: Sequence[Array | None],
        specs: Sequence[pl.BlockSpec | None],
        outputs: Sequence[tuple[tuple[int, ...], pl.BlockSpec]],
    ) -> Sequence[Array]:
        there = [part is not None for part in arguments]

        def kernel(*refs: Ref) -> None:
            given = iter(refs)
            body(self, *(next(given) if is_there else None for is_there in there), *given)

        found: Sequence[Array] = pl.pallas_call(
            kernel,
            grid=grid,
            in_specs=[spec for spec in specs if spec is not None],
            out_specs=[spec for _, spec in outputs],
            out_shape=[jax.ShapeDtypeStruct(shape, self.kind) for shape, _ in outputs],
            compiler_params=triton.CompilerParams(num_warps=self.launch.warps, num_stages=1),
            interpret=self.launch.interpret,
        )(*(part for part in arguments if part is not None))
        return found


def _feature(weights: Ref, place: Ref | None, x: Sequence[Tokens], feature: int, tokens: Any) -> Tokens:
    before = sum(weights[row, feature] * values for row, values in enumerate(x))
    return jnp.maximum(before if place is None else before + place[feature, tokens], 0)


def _read(
    shapes: _Shapes,
    weights: Ref,
    directions: Ref,
    place: Ref | None,
    inputs: Ref,
    seen: Ref | None,
    read: Ref,
    attention: Ref,
) -> None:
    """Attention weights, and the averages of features under them."""
    tokens = pl.ds(0, shapes.length)

    def of_sequence(sequence: Array, _: None) -> None:
        x = [inputs[sequence, row, tokens] for row in range(shapes.count)]
        features = [_feature(weights, place, x, feature, tokens) for feature in range(shapes.features)]
        for head in range(shapes.heads):
            scores = sum(directions[head, feature] * values for feature, values in enumerate(features))
            if seen is not None:
                scores = jnp.where(seen[sequence, tokens] > 0, scores, HIDDEN)
            exponents = jnp.exp(scores - jnp.max(scores))
            if seen is not None:
                exponents *= seen[sequence, tokens]
            shares = exponents / jnp.sum(exponents)
            attention[sequence, head, tokens] = shares
            for feature, values in enumerate(features):
                read[sequence, head, feature] = jnp.sum(shares * values)

    _for_each(shapes.each, of_sequence, None)


def _ask(
    shapes: _Shapes,
    weights: Ref,
    directions: Ref,
    place: Ref | None,
    inputs: Ref,
    attention: Ref,
    read_bar: Ref,
    mean: Ref,
    scores_bar: Ref,
) -> None:
    """The gradient of the scores: w(t) (ḡ · φ(t) − its mean)."""
    tokens = pl.ds(0, shapes.length)

    def of_sequence(sequence: Array, _: None) -> None:
        x = [inputs[sequence, row, tokens] for row in range(shapes.count)]
        asked: list[Any] = [0.0] * shapes.heads
        for feature in range(shapes.features):
            values = _feature(weights, place, x, feature, tokens)
            for head in range(shapes.heads):
                asked[head] += read_bar[sequence, head, feature] * values
        for head, total in enumerate(asked):
            shares = attention[sequence, head, tokens]
            scores_bar[sequence, head, tokens] = shares * (total - mean[sequence, head])

    _for_each(shapes.each, of_sequence, None)


def _derive(
    shapes: _Shapes,
    weights: Ref,
    directions: Ref,
    place: Ref | None,
    inputs: Ref,
    attention: Ref,
    scores_bar: Ref,
    read_bar: Ref,
    weights_bar: Ref,
    directions_bar: Ref,
    place_bar: Ref | None = None,
) -> None:
    """The gradient of the weights of some features; sums over tokens wait until the end of the program."""
    some, count, heads = FEATURES_AT_A_TIME, shapes.count, shapes.heads
    size = min(TOKENS_AT_A_TIME // (2 if count + heads > MANY_SUMS else 1), shapes.length)
    zero = jnp.zeros((size,), shapes.kind)
    # Read once: they are few.
    rows = [[weights[row, feature] for row in range(count)] for feature in range(some)]
    asking = [[directions[head, feature] for head in range(heads)] for feature in range(some)]

    def of_chunk(chunk: Array, sums: tuple[Tokens, ...]) -> tuple[Tokens, ...]:
        tokens = pl.ds(chunk * size, size)

        def of_sequence(sequence: Array, sums: tuple[Tokens, ...]) -> tuple[Tokens, ...]:
            x = [inputs[sequence, row, tokens] for row in range(count)]
            shares = [attention[sequence, head, tokens] for head in range(heads)]
            asked = [scores_bar[sequence, head, tokens] for head in range(heads)]
            found, placed = [], []
            for feature in range(some):
                before: Any = sum(weight * values for weight, values in zip(rows[feature], x, strict=True))
                if place is not None:
                    before += place[feature, tokens]
                values = jnp.maximum(before, 0)
                bar: Any = sum(
                    read_bar[sequence, head, feature] * shares[head] + asking[feature][head] * asked[head]
                    for head in range(heads)
                )
                bar = jnp.where(before > 0, bar, 0)
                found += [bar * one for one in x] + [values * one for one in asked]
                placed.append(bar)
            moved = found if place_bar is None else found + placed
            return tuple(old + new for old, new in zip(sums, moved, strict=True))

        places = () if place_bar is None else (zero,) * some
        sums = _for_each(shapes.each, of_sequence, (*sums, *places))
        if place_bar is not None:
            for feature, total in enumerate(sums[-some:]):
                place_bar[0, feature, tokens] = total
        return sums[: len(sums) - len(places)]

    each = count + heads
    sums = _for_each(shapes.length // size, of_chunk, (zero,) * (each * some))
    for feature in range(some):
        own = sums[feature * each : (feature + 1) * each]
        for row, total in enumerate(own[:count]):
            weights_bar[0, row, feature] = jnp.sum(total)
        for head, total in enumerate(own[count:]):
            directions_bar[0, head, feature] = jnp.sum(total)


def _for_each(times: int, body: Callable[[Array, Any], Any], start: Any) -> Any:
    """A loop, or none where it would run once."""
    if times == 1:
        return body(jnp.int32(0), start)
    return jax.lax.fori_loop(0, times, body, start)

"""Which changes of queries and keys leave the scores as they are: found by making one and looking."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from headcount.trained.affine import with_bias_row, without_bias_row
from headcount.trained.attention import KEY, QUERY, AttentionBlock
from headcount.trained.batches import Batch, called, part_of, size_of
from headcount.trained.discovery import attention_blocks
from headcount.trained.fitting import sharing_copy
from headcount.trained.residual import HALF_ROUNDING, ROUNDING
from headcount.trained.rotary import as_complex, as_real

Scores = Literal["plain", "rotary", "rotary, interleaved"]
SCORES: tuple[Scores, ...] = get_args(Scores)
SAMPLES = 2
STRETCH = 2.0  # a change stretches by up to this
SAME = 0.05  # of what happens when keys are changed alone: rounding is far below, another rule far above


class _Seen(BaseException):  # not an error of the model, whose own handlers must not catch it
    """The layer was reached: the rest of the pass is not needed."""


def scores_of(whole: nn.Module, batch: Batch, *, seed: int = 0) -> list[Scores | None]:
    """Of every layer, how queries and keys meet.

    - plain: as products, so that (Q T, K T⁻ᵀ) scores like (Q, K) for any T.
    - rotary: turned by their place first, pair by pair, so that only complex gains leave the scores alone.
    - None: neither; norms on queries and keys, or a rotary embedding of a part of each head.
    """
    batch = part_of(batch, range(min(SAMPLES, size_of(batch))))
    model = sharing_copy(whole)
    random = np.random.default_rng(seed)
    return [_scores_at(model, block, batch, random) for block in attention_blocks(model)]


def _scores_at(
    model: nn.Module, block: AttentionBlock, batch: Batch, random: np.random.Generator
) -> Scores | None:
    queries, keys = (_complete(block, which) for which in (QUERY, KEY))
    before = _outputs(model, block, batch)
    half = next(block.output.parameters()).dtype not in (torch.float32, torch.float64)
    rounding = (HALF_ROUNDING if half else ROUNDING) * float(before.abs().nan_to_num().max())

    def moved(new_queries: np.ndarray, new_keys: np.ndarray) -> float:
        _set(block, new_queries, new_keys)
        after = _outputs(model, block, batch)
        _set(block, queries, keys)
        return float((after - before).abs().nan_to_num().max())

    changes: dict[Scores, Any] = {
        "plain": partial(_turned, random),
        "rotary": partial(_gained, random, interleaved=False),
        "rotary, interleaved": partial(_gained, random, interleaved=True),
    }
    for kind in SCORES:
        new_queries, new_keys = changes[kind](queries, keys)
        if moved(new_queries, new_keys) <= SAME * moved(queries, new_keys) + rounding:
            return kind
    return None


def _turned(
    random: np.random.Generator, queries: np.ndarray, keys: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Q T and K T⁻ᵀ, with a T for each key-value head."""
    kv_heads, size = len(keys), keys.shape[2]
    turns = np.linalg.qr(random.normal(size=(2, kv_heads, size, size)))[0]
    stretch = STRETCH ** random.uniform(-1, 1, size=(kv_heads, 1, size))
    there, back = (turns[0] * stretch) @ turns[1], (turns[0] / stretch) @ turns[1]
    return queries @ there.repeat(len(queries) // kv_heads, axis=0), keys @ back


def _gained(
    random: np.random.Generator, queries: np.ndarray, keys: np.ndarray, *, interleaved: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Q c and K / c*, with a complex c for each key-value head and frequency."""
    kv_heads, size = len(keys), keys.shape[2]
    if size % 2:
        return 0 * queries, keys
    angles = random.uniform(0, 2 * np.pi, size=(kv_heads, 1, size // 2))
    gain = STRETCH ** random.uniform(-1, 1, size=angles.shape) * np.exp(1j * angles)
    own = gain.repeat(len(queries) // kv_heads, axis=0)
    return (
        as_real(as_complex(queries, interleaved=interleaved) * own, interleaved=interleaved),
        as_real(as_complex(keys, interleaved=interleaved) / gain.conj(), interleaved=interleaved),
    )


def _complete(block: AttentionBlock, which: int) -> np.ndarray:
    return with_bias_row(block.weights(which), block.biases(which))


def _set(block: AttentionBlock, queries: np.ndarray, keys: np.ndarray) -> None:
    for which, columns in ((QUERY, queries), (KEY, keys)):
        block.set_part(which, *without_bias_row(columns, biased=block.biases(which) is not None))


def _outputs(model: nn.Module, block: AttentionBlock, batch: Batch) -> Tensor:
    """What the heads of a layer put out."""
    found: list[Tensor] = []

    def note(_: nn.Module, inputs: Sequence[Tensor]) -> None:
        found.append(inputs[0].detach().double())
        raise _Seen

    hook = block.output.register_forward_pre_hook(note)
    try:
        with torch.no_grad():
            called(model, batch)
    except _Seen:
        pass
    finally:
        hook.remove()
    return found[0]

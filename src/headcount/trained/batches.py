"""Batches as models take them: a tensor, a tuple of inputs and targets, or a dict of named inputs."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headcount.errors import HeadcountError, InvalidInput
from headcount.validation import expected, shortened

Batch = Any
TEXT = "text"  # what token ids were made of, to show samples by
NOT_INPUTS = ("labels", "label")  # a model given these may compute a loss of its own
MASKS = ("attention_mask", "decoder_attention_mask")  # true where there is a token
PADDINGS = ("src_key_padding_mask", "key_padding_mask", "padding_mask", "padding")  # true where there is none


def collected(batches: Iterable[Batch]) -> list[Batch]:
    """All batches, each checked: tensors of finite numbers with as many samples as each other.

    >>> [size_of(batch) for batch in collected([torch.zeros(3, 2), (torch.zeros(1, 2), torch.zeros(1))])]
    [3, 1]
    """
    if isinstance(batches, Tensor | np.ndarray | Mapping | str) or not isinstance(batches, Iterable):
        raise expected("batches", "a list or a loader of batches", type(batches).__name__)
    found = []
    for number, batch in enumerate(batches):
        batch = _as_tensors(batch)
        try:
            size = size_of(batch)
        except InvalidInput as problem:
            raise InvalidInput(f"batches: batch {number}: {problem}") from None
        for tensor in tensors_in(batch):
            if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
                raise InvalidInput(f"batches: batch {number}: expected finite numbers, got NaN or infinity")
        if size:
            found.append(batch)
    if not found:
        raise InvalidInput("batches: expected samples, got none")
    return found


def _as_tensors(batch: Batch) -> Batch:
    """The batch with arrays as tensors, and named entries as a plain dict."""
    if isinstance(batch, np.ndarray):
        return torch.from_numpy(batch)
    if isinstance(batch, Mapping):
        return {str(name): _as_tensors(part) for name, part in batch.items()}
    if (
        isinstance(batch, tuple | list)
        and batch
        and isinstance(batch[0], Tensor | np.ndarray | Mapping | tuple)
    ):
        return tuple(_as_tensors(part) for part in batch)
    return batch


def tensors_in(batch: Batch) -> list[Tensor]:
    """All of them, in order.

    >>> len(tensors_in({"x": torch.zeros(1), "y": (torch.zeros(1), "text")}))
    2
    """
    if isinstance(batch, Tensor):
        return [batch]
    parts = batch.values() if isinstance(batch, Mapping) else batch if isinstance(batch, tuple) else ()
    return [tensor for part in parts for tensor in tensors_in(part)]


def size_of(batch: Batch) -> int:
    """The number of samples: the first axis of its tensors.

    >>> size_of({"x": torch.zeros(4, 2)})
    4
    """
    sizes = {len(tensor) for tensor in tensors_in(batch) if tensor.dim()}
    if len(sizes) != 1:
        wanted = "tensors with one sample for each place of the first axis"
        raise InvalidInput(f"expected {wanted}, got {sorted(sizes) if sizes else type(batch).__name__}")
    return sizes.pop()


def part_of(batch: Batch, places: Sequence[int]) -> Batch:
    """Some samples of a batch.

    >>> part_of((torch.arange(3), ["a", "b", "c"]), [2, 0])
    (tensor([2, 0]), ['c', 'a'])
    """
    if isinstance(batch, Tensor):
        return batch[torch.as_tensor(places, device=batch.device)] if batch.dim() else batch
    if isinstance(batch, Mapping):
        return {name: part_of(part, places) for name, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(part_of(part, places) for part in batch)
    return [batch[place] for place in places] if isinstance(batch, list) else batch


def split(batches: Sequence[Batch], shares: Sequence[float], *, seed: int) -> list[list[Batch]]:
    """The samples in random parts of these shares, each still in batches.

    >>> [[size_of(batch) for batch in part] for part in split([torch.zeros(6, 1)], (2, 1), seed=0)]
    [[4], [2]]
    """
    sizes = [size_of(batch) for batch in batches]
    total = sum(sizes)
    ends = np.round(np.cumsum(shares) / sum(shares) * total).astype(int)
    part = np.searchsorted(ends, np.random.default_rng(seed).permutation(total), side="right")
    starts = np.concatenate([[0], np.cumsum(sizes)])
    found = []
    for number in range(len(shares)):
        places = [
            np.flatnonzero(part[start : start + size] == number)
            for start, size in zip(starts, sizes, strict=False)
        ]
        found.append(
            [part_of(batch, own.tolist()) for batch, own in zip(batches, places, strict=True) if len(own)]
        )
    return found


def some_of(batches: Sequence[Batch], count: int, *, seed: int) -> tuple[list[Batch], np.ndarray]:
    """So many samples at most, and their places among all of them.

    >>> some, places = some_of([torch.arange(4), torch.arange(4, 6)], 3, seed=0)
    >>> torch.cat(some).tolist() == places.tolist(), len(places)
    (True, 3)
    """
    sizes = [size_of(batch) for batch in batches]
    total = sum(sizes)
    chosen = np.sort(np.random.default_rng(seed).permutation(total)[:count])
    starts = np.concatenate([[0], np.cumsum(sizes)])
    parts = []
    for batch, first, end in zip(batches, starts, starts[1:], strict=False):
        own = chosen[(chosen >= first) & (chosen < end)] - first
        if len(own):
            parts.append(part_of(batch, own.tolist()))
    return parts, chosen


def moved(batch: Batch, device: torch.device) -> Batch:
    """The batch on a device."""
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, Mapping):
        return {name: moved(part, device) for name, part in batch.items()}
    return tuple(moved(part, device) for part in batch) if isinstance(batch, tuple) else batch


def called(model: nn.Module, batch: Batch) -> Any:
    """What the model makes of a batch."""
    arguments, named = arguments_of(model, batch)
    return users_own("model", model, *arguments, **named)


def users_own(what: str, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Call code of the user's own: whatever it raises is one line that says what was called."""
    try:
        return function(*arguments, **named)
    except HeadcountError:
        raise
    except Exception as problem:
        reason = " ".join(str(problem).split())
        raise InvalidInput(f"{what}: {type(problem).__name__}: {shortened(reason)}") from problem


def arguments_of(model: nn.Module, batch: Batch) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What the model is called with, where it lies.

    >>> arguments_of(nn.Linear(1, 1), (torch.zeros(1, 1), "target"))
    ((tensor([[0.]]),), {})
    """
    taken = taken_by(model, moved(batch, device_of(model)))
    if isinstance(taken, Mapping):
        return (), dict(taken)
    return (taken if isinstance(taken, tuple) else (taken,)), {}


def taken_by(model: nn.Module, batch: Batch) -> Batch:
    """What of a batch the model is called with: one input, a tuple of them, or named ones.

    Of a tuple the first part is its input; the others are targets.
    """
    if isinstance(batch, tuple):
        batch = batch[0]
    return _taken(model, batch) if isinstance(batch, Mapping) else batch


def _taken(model: nn.Module, batch: Mapping[str, Any]) -> dict[str, Any]:
    """The named inputs that the model takes; all of them where it names none."""
    named = inspect.signature(model.forward).parameters.keys()
    inputs = {name: part for name, part in batch.items() if name not in NOT_INPUTS}
    taken = {name: part for name, part in inputs.items() if name in named}
    return taken or {name: part for name, part in inputs.items() if name != TEXT or isinstance(part, Tensor)}


def device_of(model: nn.Module) -> torch.device:
    """Where the model lies."""
    weight = next(model.parameters(), None)
    return torch.device("cpu") if weight is None else weight.device


def real_tokens(batch: Batch, samples: int, tokens: int, *, decoder: bool = False) -> np.ndarray:
    """Where there are tokens, and not padding: [sample, token]; all of them where no mask has that shape.

    >>> real_tokens({"attention_mask": torch.tensor([[1, 1, 0]])}, 1, 3)
    array([[ True,  True, False]])
    """
    if isinstance(batch, tuple):
        batch = batch[0]
    if isinstance(batch, Mapping):
        own = MASKS[1:] if decoder and "decoder_input_ids" in batch else MASKS[:1]
        for name in (*own, *PADDINGS):
            mask = batch.get(name)
            if isinstance(mask, Tensor) and tuple(mask.shape) == (samples, tokens):
                kept = mask.bool() if name in MASKS else ~mask.bool()
                return np.asarray(kept.cpu())
    return np.ones((samples, tokens), bool)

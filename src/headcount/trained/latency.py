"""How long a forward pass takes before and after, both timed by turns in one run."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from time import perf_counter
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from headcount.errors import InvalidInput
from headcount.trained.batches import Batch, arguments_of, device_of, part_of, size_of
from headcount.validation import check_integer, check_number

Verdict = Literal["faster", "no gain", "slower", "cannot tell"]
Times = Float[np.ndarray, "round pass"]
Pass = Callable[[], object]
Clock = Callable[[], float]

SIZES = (1, 8, 64)
SECONDS = 30.0
WIDEST = 2.0  # the upper end of an interval over its lower one: beyond, the machine was too busy to tell
WARM_UP = 3  # rounds before the first that counts
MIN_ROUNDS, MAX_ROUNDS = 10, 1000
CONFIDENCE = 0.95
RESAMPLES = 2000


@dataclass(frozen=True)
class Latency:
    """The median time of a forward pass of both models, and the ratio of the two with its 95% interval.

    - `samples`: in a batch.
    - `before`, `after`: in seconds.
    - `rounds`: how often each model was timed.
    """

    samples: int
    before: float
    after: float
    low: float
    high: float
    rounds: int

    @property
    def ratio(self) -> float:
        """Of the time after to that before: below 1 is faster."""
        return self.after / self.before

    @property
    def verdict(self) -> Verdict:
        """No gain where the interval holds 1; one that is too wide says nothing either."""
        if self.low <= 1 <= self.high:
            return "no gain"
        if self.high > WIDEST * self.low:
            return "cannot tell"
        return "faster" if self.high < 1 else "slower"

    def to_json(self) -> dict[str, Any]:
        """Its numbers by name."""
        return {**asdict(self), "ratio": self.ratio, "verdict": self.verdict}


def latencies(
    whole: nn.Module,
    small: nn.Module,
    batch: Batch,
    *,
    sizes: Sequence[int] = SIZES,
    seconds: float = SECONDS,
    seed: int = 0,
    clock: Clock = perf_counter,
) -> tuple[Latency, ...]:
    """The latency of two models in evaluation mode at several batch sizes.

    - `batch`: samples are repeated or left out to make batches of these sizes.
    - `seconds`: in all, in equal parts for every size; a slow model is timed `MIN_ROUNDS` times anyway.
    """
    check_timing(whole, small, sizes=sizes, seconds=seconds)
    found = []
    for size in sizes:
        passes = [forward_pass(model, resized(batch, size)) for model in (whole, small)]
        try:
            times = by_turns(passes, seconds=seconds / len(sizes), clock=clock)
        except torch.OutOfMemoryError:
            raise InvalidInput(
                f"sizes: expected batches that fit in the memory of {device_of(whole)}, got {size} samples"
            ) from None
        found.append(latency_of(times, samples=size, seed=seed))
    return tuple(found)


def check_timing(whole: nn.Module, small: nn.Module, *, sizes: Sequence[int], seconds: float) -> None:
    """Refuse what cannot be timed."""
    for size in sizes:
        check_integer("sizes", size, at_least=1)
    check_number("seconds", seconds, above=0.0)
    device = device_of(whole)
    if device_of(small) != device:
        raise InvalidInput(f"small: expected to be on {device} as the whole model is, got {device_of(small)}")


def resized(batch: Batch, size: int) -> Batch:
    """A batch of this size, of samples of another one, each as often as the others or once more.

    >>> resized(torch.arange(3), 5)
    tensor([0, 1, 2, 0, 1])
    """
    return part_of(batch, [place % size_of(batch) for place in range(size)])


def forward_pass(model: nn.Module, batch: Batch) -> Pass:
    """A forward pass that ends when its result is there; the batch is moved to the device beforehand."""
    arguments, named = arguments_of(model, batch)
    wait = _waiting(device_of(model))

    def run() -> None:
        with torch.no_grad():
            model(*arguments, **named)
        wait()

    return run


def _waiting(device: torch.device) -> Callable[[], object]:
    """What returns when a device has done all it was given: accelerators are given work in advance."""
    if device.type == "cpu":
        return lambda: None
    return partial(torch.accelerator.synchronize, device)


def by_turns(passes: Sequence[Pass], *, seconds: float, clock: Clock = perf_counter) -> Times:
    """The time of each pass in each round, one pass after the other, so that drift of the machine hits all.

    Rounds go on until the time is up, warm-up included, from `MIN_ROUNDS` to `MAX_ROUNDS`.
    """
    ends = clock() + seconds
    for _ in range(WARM_UP):
        for each in passes:
            each()
    rounds: list[list[float]] = []
    while len(rounds) < MIN_ROUNDS or (len(rounds) < MAX_ROUNDS and clock() < ends):
        rounds.append([_timed(each, clock) for each in passes])
    return np.array(rounds)


def _timed(each: Pass, clock: Clock) -> float:
    began = clock()
    each()
    return clock() - began


def latency_of(times: Times, *, samples: int, seed: int = 0) -> Latency:
    """The medians over rounds, before and after, and the bootstrap's 95% interval of their ratio.

    Whole rounds are drawn, so that what slows both models in a round falls out of the ratio.
    """
    count = len(times)
    drawn = np.random.default_rng(seed).integers(count, size=(RESAMPLES, count))
    before, after = (np.median(column[drawn], axis=1) for column in times.T)
    low, high = np.quantile(after / before, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    whole, small = np.median(times, axis=0)
    return Latency(samples, float(whole), float(small), float(low), float(high), count)

"""A model with fewer heads, trained for a while to do what the whole one does, without labels."""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter

import torch
from torch import Tensor, nn

from headcount.errors import InvalidInput
from headcount.trained.batches import Batch, called, device_of, size_of, split
from headcount.trained.effect import Kind, Measure, answer_of, distance
from headcount.trained.mixing import mixed
from headcount.trained.streams import Streams
from headcount.validation import check_integer, check_number

RATE = 5e-3  # of a step at its largest, relative to the size of the weights
WARM_UP = 0.05  # of the budget
DECAY = 0.01
CLIP = 1.0
CHECKS = 10  # looks at the held-out part
HELD_OUT, MAX_HELD_OUT = 1 / 8, 256  # share of the samples, and how many do at most
NOTES = 50  # calls of `progress`
STREAMS = 10.0  # weight of the layers' residual streams beside the outputs
MIN_SAMPLES = 2  # one to train on and one to hold out

# The share of the budget that is used up, and the best distance on the held-out part so far.
Progress = Callable[[float, float], None]


@dataclass
class Budget:
    """How much of the time, or of the steps, is used up.

    With seconds the speed of the machine decides how many steps there are; what each of them draws does not
    depend on it. The clock runs from `begin`: loading what an optimizer needs can take seconds.
    """

    seconds: float | None = None
    steps: int | None = None
    taken: int = 0
    began: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        if (self.seconds is None) == (self.steps is None):
            raise InvalidInput("seconds: expected either seconds or steps")
        if self.seconds is not None:
            self.seconds = check_number("seconds", self.seconds, above=0.0)
        else:
            self.steps = check_integer("steps", self.steps, at_least=1)

    def begin(self) -> None:
        """Start the clock."""
        self.began = perf_counter()

    @property
    def used(self) -> float:
        """From 0 to 1."""
        if self.steps is not None:
            return min(self.taken / self.steps, 1.0)
        assert self.seconds is not None
        return min((perf_counter() - self.began) / self.seconds, 1.0)


def rate_at(used: float) -> float:
    """Up in a line, then down along half a cosine, relative to the highest.

    >>> [round(rate_at(used), 3) for used in (0.025, 0.05, 1.0)]
    [0.5, 1.0, 0.0]
    """
    if used < WARM_UP:
        return used / WARM_UP
    return (1 + math.cos(math.pi * (used - WARM_UP) / (1 - WARM_UP))) / 2


def recovered(
    whole: nn.Module,
    small: nn.Module,
    batches: Sequence[Batch],
    *,
    seconds: float | None = None,
    steps: int | None = None,
    seed: int = 0,
    distance: str | None = None,
    size: int | None = None,
    streams: float = STREAMS,
    progress: Progress = lambda used, best: None,
) -> nn.Module:
    """A copy of the small model, all of whose parameters were trained towards what the whole model does.

        loss = distance of the outputs + streams · mean over layers of |x − x'|² / |x − mean|²

    with x the residual stream behind an attention layer. Where samples are few, their outputs alone are soon
    learnt by heart; every token of every layer asks for more.

    Some samples are held out; the state that comes closest on these is returned, so that it is never further
    from the whole model there than the small model was at the start.

    - `seconds`: of training; or `steps`.
    - `distance`: as in `inspect`.
    - `size`: samples a step; without it as many as the largest batch has.
    """
    budget = Budget(seconds, steps)
    training, held_out = _parts(batches, seed=seed)
    measure = Measure.of(whole, held_out, kind=distance)
    found = copy.deepcopy(small).eval()
    trained = found if _is_full(found) else copy.deepcopy(found).float()
    step = _Step(whole, trained, training[0], measure.kind, measure.spread, streams)
    best = _Best(measure, found)
    draws = mixed(training, size or max(map(size_of, batches)), seed=seed)
    used, checked, noted = 0.0, 0, 0
    with _trainable(trained), step.following():
        budget.begin()
        while used < 1:
            step.towards(next(draws), rate_at(used))
            budget.taken += 1
            used = budget.used
            if int(used * CHECKS) > checked:
                checked = int(used * CHECKS)
                best.look(trained)
            if int(used * NOTES) > noted:
                noted = int(used * NOTES)
                progress(used, best.distance)
    return best.model()


def _parts(batches: Sequence[Batch], *, seed: int) -> list[list[Batch]]:
    """To train on, and held out."""
    total = sum(map(size_of, batches))
    if total < MIN_SAMPLES:
        raise InvalidInput(f"batches: expected at least {MIN_SAMPLES} samples, got {total}")
    held_out = min(max(round(total * HELD_OUT), 1), MAX_HELD_OUT)
    return split(batches, (total - held_out, held_out), seed=seed)


def _is_full(model: nn.Module) -> bool:
    return all(each.dtype in (torch.float32, torch.float64) for each in _floating(model))


def _floating(model: nn.Module) -> list[nn.Parameter]:
    return [each for each in model.parameters() if each.is_floating_point()]


@contextmanager
def _trainable(model: nn.Module) -> Iterator[None]:
    """With gradients for all parameters; those that had none are as before afterwards."""
    before = [(each, each.requires_grad) for each in _floating(model)]
    for each, _ in before:
        each.requires_grad_()
    try:
        yield
    finally:
        for each, wanted in before:
            each.grad = None
            each.requires_grad_(wanted)


class _Step:
    """One step of AdamW.

    Half-precision models are trained in float32 with products in bfloat16: most steps are too small to
    change a number that has three digits.
    """

    def __init__(
        self, whole: nn.Module, model: nn.Module, batch: Batch, kind: Kind, spread: float, weight: float
    ) -> None:
        self.whole, self.model, self.kind, self.spread, self.weight = whole, model, kind, spread, weight
        self.parameters = _floating(model)
        matrices = [each.detach() for each in self.parameters if each.dim() > 1] or self.parameters
        sizes = torch.stack([each.double().square().mean().sqrt().cpu() for each in matrices])
        self.rate = RATE * float(sizes.median())
        self.adam = torch.optim.AdamW(self.parameters, lr=self.rate, weight_decay=DECAY)
        self.streams = Streams(whole, model, batch)
        self.full = _is_full(whole)

    @contextmanager
    def following(self) -> Iterator[None]:
        """With the streams of both models tapped."""
        with self.streams.tapped():
            yield

    def towards(self, batch: Batch, rate: float) -> None:
        """Closer to the whole model on one batch; a step that is not finite is left out."""
        with torch.no_grad():
            wanted = answer_of(called(self.whole, batch), batch).values
        device = device_of(self.model).type
        with (
            torch.enable_grad(),
            torch.autocast(device, torch.bfloat16, enabled=not self.full),
        ):
            found = answer_of(called(self.model, batch), batch).values
        with torch.enable_grad():
            loss = distance(self.kind, wanted, found).mean() / self.spread
            loss = loss + self.weight * self.streams.gap(batch)
        self.adam.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.parameters, CLIP)
        if bool(torch.isfinite(norm)):
            self.adam.param_groups[0]["lr"] = rate * self.rate
            self.adam.step()


class _Best:
    """The state that is closest to the whole model on the held-out part."""

    def __init__(self, measure: Measure, small: nn.Module) -> None:
        self.measure, self.small = measure, small
        self.distance = self._distance()
        self.state = self._state(small)

    def look(self, trained: nn.Module) -> None:
        """Keep this one if it is closer, seen as it will be used: in the precision of the small model."""
        with torch.no_grad():
            for own, other in zip(self.small.parameters(), trained.parameters(), strict=True):
                own.copy_(other)
        found = self._distance()
        if found < self.distance:
            self.distance, self.state = found, self._state(self.small)

    def model(self) -> nn.Module:
        """It."""
        with torch.no_grad():
            for own, other in zip(self.small.parameters(), self.state, strict=True):
                own.copy_(other)
        return self.small

    def _distance(self) -> float:
        try:
            return float(self.measure.losses(self.small).mean())
        except InvalidInput:  # outputs that are not finite
            return math.inf

    @staticmethod
    def _state(model: nn.Module) -> list[Tensor]:
        return [each.detach().clone() for each in model.parameters()]

"""What a smaller model wins over the whole one: measured, beside what arithmetic allows."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch
from torch import nn

from headcount.trained.batches import Batch, collected, device_of
from headcount.trained.costs import Costs, costs_of
from headcount.trained.latency import SECONDS, SIZES, Clock, Latency, check_timing, latencies

COLUMNS = ("cost", "before", "after", "ratio")
COUNTED = {
    "parameters": "parameters",
    "multiply_adds": "multiply-adds per sample",
    "cache": "cached numbers per token",
}
MILLISECONDS, PERCENT = 1e3, 100


@dataclass(frozen=True)
class Gains:
    """What two models cost.

    - `before`, `after`: what can be counted.
    - `latencies`: what was timed, by batch size.
    - `device`, `precision`: what it was timed on and in.
    """

    before: Costs
    after: Costs
    latencies: tuple[Latency, ...]
    device: str
    precision: str

    @property
    def allowed(self) -> float:
        """The share of the multiply-adds that the heads which are gone took, by arithmetic."""
        gone = self.before.attention_multiply_adds - self.after.attention_multiply_adds
        return gone / self.before.multiply_adds

    @property
    def sentence(self) -> str:
        """What arithmetic allows, and what the clock says."""
        timed = ", ".join(f"{_change(each)} at batch {each.samples}" for each in self.latencies)
        return (
            f"With {self.before.tokens} tokens, what was removed is {self.allowed:.1%} of the multiply-adds "
            f"(all of attention: {self.before.attention_share:.1%}).{f' Measured: {timed}.' * bool(timed)}"
        )

    def ratios(self) -> dict[str, float]:
        """After over before, of what can be counted and is there."""
        return {
            name: getattr(self.after, name) / getattr(self.before, name)
            for name in COUNTED
            if getattr(self.before, name)
        }

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Text for a table: the cost, before, after, and the ratio or that there is no gain."""
        counted = [
            (COUNTED[name], f"{getattr(self.before, name):,}", f"{getattr(self.after, name):,}", _said(ratio))
            for name, ratio in self.ratios().items()
        ]
        return counted + [
            (f"latency at batch {each.samples}", _time(each.before), _time(each.after), _timed(each))
            for each in self.latencies
        ]

    def to_json(self) -> dict[str, Any]:
        """All of it by name."""
        return {
            "note": self.sentence,
            "rows": self.rows(),
            "before": self.before.to_json(),
            "after": self.after.to_json(),
            "ratios": self.ratios(),
            "allowed": self.allowed,
            "latencies": [each.to_json() for each in self.latencies],
            "device": self.device,
            "precision": self.precision,
        }


def gains(
    whole: nn.Module,
    small: nn.Module,
    batches: Iterable[Batch],
    *,
    sizes: Sequence[int] = SIZES,
    seconds: float = SECONDS,
    seed: int = 0,
    clock: Clock = perf_counter,
) -> Gains:
    """What the small model wins over the whole one, both as they are and on the device where they are.

    - `batches`: as for `inspect`; the first gives the samples, with their length.
    - `sizes`: of the batches that are timed.
    - `seconds`: for all timing together.
    """
    check_timing(whole, small, sizes=sizes, seconds=seconds)
    batch = collected(batches)[0]
    with evaluating(whole), evaluating(small):
        before, after = (costs_of(model, batch) for model in (whole, small))
        timed = latencies(whole, small, batch, sizes=sizes, seconds=seconds, seed=seed, clock=clock)
    kinds = [each.dtype for each in whole.parameters() if each.is_floating_point()]
    precision = str(kinds[0]).removeprefix("torch.") if kinds else "unknown"
    return Gains(before, after, timed, _device(device_of(whole)), precision)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode, and every module back in its own mode after."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def _device(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"CPU, {threads} thread{'s' * (threads > 1)}" if device.type == "cpu" else str(device)


def _said(ratio: float) -> str:
    if ratio == 1:
        return "no gain"
    return f"{ratio:.3g} ({PERCENT * abs(1 - ratio):.2g}% {'less' if ratio < 1 else 'more'})"


def _timed(latency: Latency) -> str:
    said = f"{latency.ratio:.2f}" if latency.verdict in ("faster", "slower") else latency.verdict
    return f"{said} ({latency.low:.2f} to {latency.high:.2f})"


def _time(seconds: float) -> str:
    return f"{seconds * MILLISECONDS:.3g} ms"


def _change(latency: Latency) -> str:
    share = abs(1 - latency.ratio)
    words = {"faster": f"{share:.0%} less time", "slower": f"{share:.0%} more time"}
    return words.get(latency.verdict, latency.verdict)

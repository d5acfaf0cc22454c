"""Latency: the order of passes, the budget and the statistics, on made-up times."""

import copy

import numpy as np
import pytest
import torch
from small_models import batch_of, model_of
from torch import nn

from headcount.errors import InvalidInput
from headcount.trained.batches import size_of
from headcount.trained.latency import (
    CONFIDENCE,
    MAX_ROUNDS,
    MIN_ROUNDS,
    RESAMPLES,
    WARM_UP,
    by_turns,
    forward_pass,
    latencies,
    latency_of,
    resized,
)

pytestmark = pytest.mark.torch


class Machine:
    """A clock, and passes that take the time they are said to take."""

    def __init__(self):
        self.now, self.calls = 100.0, ""

    def clock(self):
        return self.now

    def made(self, name, seconds):
        def run():
            self.calls += name
            self.now += seconds(len(self.calls)) if callable(seconds) else seconds

        return run


def noisy(*factors, rounds=40, spread=0.05, seed=0):
    """Times of passes around these."""
    noise = np.random.default_rng(seed).normal(size=(rounds, len(factors)))
    return np.array(factors) * np.exp(spread * noise)


def test_passes_take_turns():
    machine = Machine()
    times = by_turns([machine.made("A", 0.25), machine.made("B", 0.125)], seconds=10.0, clock=machine.clock)
    assert machine.calls == "AB" * (WARM_UP + len(times))
    assert np.array_equal(times, np.tile([0.25, 0.125], (len(times), 1)))


@pytest.mark.parametrize(
    "seconds, rounds", [(60.0, 60 - WARM_UP), (30.0, 30 - WARM_UP), (0.5, MIN_ROUNDS), (1e6, MAX_ROUNDS)]
)
def test_rounds_follow_the_budget(seconds, rounds):
    machine = Machine()
    times = by_turns([machine.made("A", 0.5), machine.made("B", 0.5)], seconds=seconds, clock=machine.clock)
    assert len(times) == rounds


def test_the_first_passes_do_not_count():
    machine = Machine()
    slow_at_first = machine.made("A", lambda calls: 8.0 if calls <= 2 else 0.5)
    times = by_turns([slow_at_first, machine.made("B", 0.5)], seconds=1.0, clock=machine.clock)
    assert times.max() == 0.5


@pytest.mark.parametrize("factor, verdict", [(1.0, "no gain"), (0.8, "faster"), (1.25, "slower")])
def test_the_interval_decides(factor, verdict):
    found = latency_of(noisy(2.0, 2.0 * factor), samples=8)
    assert found.verdict == verdict
    assert found.low <= found.ratio <= found.high
    assert found.low <= factor <= found.high
    assert (found.samples, found.rounds) == (8, 40)


def test_a_small_gain_in_a_few_noisy_rounds_is_none():
    assert latency_of(noisy(1.0, 0.98, rounds=MIN_ROUNDS, spread=0.1), samples=1).verdict == "no gain"


def test_drift_that_hits_both_models_falls_out():
    drift = np.linspace(1, 5, 100)[:, None]
    together = noisy(1.0, 0.9, rounds=100) * drift
    apart = np.stack([together[:, 0], together[::-1, 1]], axis=1)
    widths = []
    for times in (together, apart):
        found = latency_of(times, samples=1)
        widths.append(found.high - found.low)
        assert found.low <= 0.9 <= found.high
    assert widths[0] < widths[1] / 2
    assert latency_of(together, samples=1).verdict == "faster"


def test_equal_models_are_seldom_told_apart():
    found = [latency_of(noisy(1.0, 1.0, rounds=20, seed=seed), samples=1).verdict for seed in range(200)]
    assert np.mean([verdict != "no gain" for verdict in found]) < 0.08


def test_a_real_gain_is_found():
    found = [latency_of(noisy(1.0, 0.9, seed=seed), samples=1).verdict for seed in range(50)]
    assert found.count("faster") >= 49


def test_the_interval_is_that_of_a_plain_bootstrap():
    times = noisy(1.0, 0.9, rounds=12)
    drawn = np.random.default_rng(5).integers(12, size=(RESAMPLES, 12))
    ratios = []
    for places in drawn:
        resample = [times[place] for place in places]
        before, after = (sorted(each[column] for each in resample) for column in (0, 1))
        ratios.append((after[5] + after[6]) / (before[5] + before[6]))
    found = latency_of(times, samples=1, seed=5)
    share = (1 - CONFIDENCE) / 2
    np.testing.assert_allclose((found.low, found.high), np.quantile(ratios, [share, 1 - share]), rtol=1e-12)


def test_units_do_not_matter():
    one, thousand = (latency_of(noisy(1.0, 0.9) * scale, samples=1) for scale in (1, 1000))
    assert (one.low, one.high) == pytest.approx((thousand.low, thousand.high))
    assert thousand.before == pytest.approx(1000 * one.before)


@pytest.mark.parametrize("size", [1, 3, 8])
@pytest.mark.parametrize("name", ["bert", "vit", "timm", "torch"])
def test_a_batch_of_any_size_holds_the_samples_in_turn(name, size):
    batch = batch_of(name, samples=3)
    found = resized(batch, size)
    assert size_of(found) == size
    first, own = (next(iter(each.values())) if isinstance(each, dict) else each[0] for each in (found, batch))
    assert all(torch.equal(first[place], own[place % 3]) for place in range(size))


def test_latency_at_every_size():
    machine, whole = Machine(), model_of("bert")
    small, seen = copy.deepcopy(whole), []
    for model, run in ((whole, machine.made("A", 1.0)), (small, machine.made("B", 0.5))):
        model.register_forward_pre_hook(
            lambda _, __, named: seen.append(len(named["input_ids"])), with_kwargs=True
        )
        model.register_forward_hook(lambda *_, run=run: run())
    found = latencies(whole, small, batch_of("bert"), sizes=(1, 4), seconds=8.0, clock=machine.clock)
    assert [(each.samples, each.ratio, each.verdict) for each in found] == [
        (1, 0.5, "faster"),
        (4, 0.5, "faster"),
    ]
    assert set(seen) == {1, 4}
    assert machine.calls == "AB" * (len(machine.calls) // 2)


def test_an_accelerator_is_waited_for(monkeypatch):
    done = []
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda device: done.append(f"waited for {device}"))
    model = nn.Linear(3, 2, device="meta")
    model.register_forward_hook(lambda *_: done.append("called"))
    forward_pass(model, torch.zeros(5, 3))()
    assert done == ["called", "waited for meta"]


def test_no_gradients_are_kept():
    made, model = [], nn.Linear(3, 2)
    model.register_forward_hook(lambda _, __, output: made.append(output))
    forward_pass(model, torch.zeros(5, 3))()
    assert not made[0].requires_grad


def test_a_batch_that_does_not_fit_is_one_line():
    class Full(nn.Linear):
        def forward(self, x):
            if len(x) > 8:
                raise torch.OutOfMemoryError("no room\nat all")
            return super().forward(x)

    model = Full(3, 2)
    said = "sizes: expected batches that fit in the memory of cpu, got 64 samples"
    with pytest.raises(InvalidInput, match=said) as refusal:
        latencies(model, model, torch.zeros(5, 3), seconds=0.01)
    assert "\n" not in str(refusal.value)

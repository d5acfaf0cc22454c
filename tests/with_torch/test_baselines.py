"""What a plan is held against: each baseline agrees with its plain definition."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from planted import batches, planted
from small_models import batch_of, model_of, outputs_of

import headcount as hc
from headcount.errors import InvalidInput
from headcount.trained.baselines import DRAWS, baselines, highest
from headcount.trained.count import Samples, Study
from headcount.trained.discovery import attention_blocks, prepared
from headcount.trained.fitting import cut
from headcount.trained.refit import Moments, columns_of
from headcount.trained.scalars import fitted_scalars, rearranged, scale
from headcount.trained.taps import written_in

pytestmark = pytest.mark.torch

NAMES = {"random", "magnitude", "Torch-Pruning", "gradient importance", "Kwon et al."}


@pytest.fixture(scope="module")
def study():
    return Study(prepared(planted()[1]), Samples.of(batches(6), seed=0), tolerance=1e-3)


@pytest.fixture(scope="module")
def rows(study):
    return baselines(study, [12, 20])


def test_every_baseline_is_there_at_every_count_with_and_without_refit(rows):
    assert {(row["name"], row["heads"]) for row in rows} == {
        (name + suffix, heads) for name in NAMES for suffix in ("", " + refit") for heads in (12, 20)
    }
    assert all(set(row) == {"name", "heads", "rise", "low", "high"} for row in rows)
    assert all(row["low"] <= row["rise"] <= row["high"] for row in rows)


def test_a_refit_helps_where_heads_say_what_others_say(rows):
    rises = {(row["name"], row["heads"]): row["rise"] for row in rows}
    assert all(rises[name + " + refit", 12] < 0.5 * rises[name, 12] for name in NAMES)


def test_random_is_the_mean_of_its_draws(study, rows):
    (row,) = (row for row in rows if row["name"] == "random" and row["heads"] == 12)
    random, means = np.random.default_rng(study.seed), []
    for _ in range(DRAWS):
        kept = highest([random.random(heads) for heads in study.heads], 12)
        means.append(study.reporting.rises(cut(study.whole, kept)).mean())
    assert row["rise"] == pytest.approx(np.mean(means))
    assert (row["low"], row["high"]) == (min(means), max(means))


def test_all_heads_cost_nothing(study):
    rises = [row["rise"] for row in baselines(study, [24])]
    assert max(np.abs(rises)) < 1e-9


@pytest.mark.parametrize("count", [2, 25])
def test_a_count_that_the_model_cannot_have_is_refused(study, count):
    with pytest.raises(InvalidInput, match="counts: expected an integer from 3 to 24"):
        baselines(study, [count])


def test_the_heads_with_the_highest_scores_are_kept_and_one_in_every_layer():
    random = np.random.default_rng(0)
    scores = [random.random(heads) * size for heads, size in ((4, 1.0), (6, 5.0), (3, 0.01))]
    best = {(layer, int(each.argmax())) for layer, each in enumerate(scores)}
    every = {(layer, head) for layer, each in enumerate(scores) for head in range(len(each))}
    for total in range(3, 14):
        kept = {(layer, head) for layer, heads in enumerate(highest(scores, total)) for head in heads}
        assert len(kept) == total and best <= kept
        chosen, gone = ([scores[layer][head] for layer, head in some] for some in (kept - best, every - kept))
        assert min(chosen, default=np.inf) > max(gone, default=-np.inf)


def test_what_is_cut_writes_what_the_kept_heads_wrote():
    model = prepared(model_of("vit"))
    kept, batch = ((0, 2), (1,), (0, 1, 2, 3)), batch_of("vit")
    small, masked = cut(model, kept), prepared(model)
    for block, heads in zip(attention_blocks(masked), kept, strict=True):
        weight = block.output_weight()
        weight[np.setdiff1d(np.arange(len(weight)), columns_of(heads, block.head_dim))] = 0
        block.set_output(weight, block.output_bias())
    torch.testing.assert_close(outputs_of(small, batch), outputs_of(masked, batch))


@pytest.mark.parametrize("seed", range(3))
def test_scalars_are_those_of_least_squares_on_the_tokens(seed):
    random, size = np.random.default_rng(seed), 3
    z, weight, bias = random.normal(size=(60, 12)), random.normal(size=(12, 5)), random.normal(size=5)
    o = random.normal(size=(60, 5))
    heads = [0, 1, 3]
    written = np.stack(
        [(z[:, c] @ weight[c]).ravel() for c in (columns_of([h], size) for h in heads)], axis=1
    )
    plain = np.linalg.lstsq(written, (o - bias).ravel(), rcond=None)[0]
    found = fitted_scalars(Moments.of(z, o), weight, bias, heads, head_dim=size)
    np.testing.assert_allclose(found, plain, rtol=1e-9)


def test_scaled_heads_write_what_they_wrote_times_their_scalars():
    model, batch = prepared(model_of("bert")), batch_of("bert")
    block, random = attention_blocks(model)[0], np.random.default_rng(0)
    z = random.normal(size=(80, 16))
    weight, bias = block.output_weight(), block.output_bias()
    factors = np.repeat([0.5, 2.0, 1.0], 4)
    o = z[:, :12] * factors @ weight[:12] + bias
    before = written_in(model, [block], batch)[0]
    scale(block, [Moments.of(z, o)], [0, 1, 2], ridge=0.0)
    np.testing.assert_allclose(block.output_weight(), weight[:12] * factors[:, None], rtol=1e-6)
    assert written_in(model, [block], batch)[0].shape == before.shape and block.heads == 3


def test_heads_whose_derivatives_cancel_go_together():
    gradients = np.random.default_rng(0).normal(size=(200, 5)) * [1.0, 1.1, 3.0, 1.3, 3.0]
    gradients[:, 3] = -1.3 * gradients[:, 0]
    assert rearranged(gradients, 3) == (1, 2, 4)  # by size, 0 and 1 would have gone
    assert rearranged(gradients, 5) == (0, 1, 2, 3, 4)


@pytest.mark.parametrize("name", ["mistral", "gpt2", "t5"])
def test_families_with_shared_keys_and_joined_projections_have_baselines(name):
    given = [batch_of(name, samples=10, seed=seed) for seed in range(4)]
    study = Study(prepared(model_of(name)), Samples.of(given, seed=0), tolerance=0.1)
    found = baselines(study, [len(study.heads)])
    assert len(found) == 2 * len(NAMES) and all(row["rise"] > 0 for row in found)


def test_a_model_without_gradients_has_the_others():
    class Detached(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model_of("torch")

        def forward(self, x):
            return self.model(x).detach()

    study = Study(prepared(Detached()), Samples.of(batches(4), seed=0), tolerance=0.1)
    assert {row["name"] for row in baselines(study, [6])} == {
        name + suffix for name in ("random", "magnitude", "Torch-Pruning") for suffix in ("", " + refit")
    }


def test_the_command_line_asks_for_them(called, monkeypatch, tmp_path):
    asked = []

    def noted(*_, baselines, **__):
        asked.append(baselines)
        raise InvalidInput("enough")

    monkeypatch.setattr("headcount.trained.inspecting.inspect", noted)
    (tmp_path / "mine.py").write_text(
        "from planted import batches\nfrom torch.nn import Linear\n"
        "def model(): return Linear(2, 2)\n"
        "def data(): return batches(1)\n"
    )
    mine = tmp_path / "mine.py"
    for options in ([], ["--baselines"]):
        assert called("inspect", f"{mine}:model", f"{mine}:data", "--out", tmp_path / "out", *options) == 2
    assert asked == [False, True]


def test_inspect_adds_baselines_at_the_counts_of_the_plan():
    found = hc.inspect(planted()[1], batches(6), tolerance=1e-4, baselines=True)
    counts = {found.plan.uniform.heads, found.plan.free.heads}
    assert {row["heads"] for row in found.to_json()["baselines"]} == counts
    assert "baselines" not in replace(found, baselines=None).to_json()

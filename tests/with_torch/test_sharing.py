"""Key-value heads of whole models, grouped: exactly where heads are copies, elsewhere as well as can be."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from exported import plan_of, read_elsewhere, whole_of
from small_models import HEADS, MODELS, WIDTH, batch_of, model_of, outputs_of
from torch import nn

from headcount.errors import InvalidInput
from headcount.trained.affine import with_bias_row, without_bias_row
from headcount.trained.attention import KEY, QUERY, VALUE
from headcount.trained.costs import costs_of
from headcount.trained.discovery import attention_blocks, prepared
from headcount.trained.export.inputs import Inputs
from headcount.trained.export.smaller import CannotHold, Smaller
from headcount.trained.export.writing import written
from headcount.trained.fitting import moments_of
from headcount.trained.inputs import input_moments
from headcount.trained.refit import Projection
from headcount.trained.regrouping import apply_grouping, grouped, metrics_of
from headcount.trained.rotary import as_complex
from headcount.trained.rotary_keys import rotary_grams
from headcount.trained.scores import scores_of
from headcount.trained.sharing import METHODS, Layer, shared_heads
from headcount.trained.taps import targets_of

pytestmark = pytest.mark.torch

EXACT = 1e-6
ROTARY, NORMED = ("llama", "mistral", "qwen2"), ("qwen3",)
FUSED = ("gpt2", "timm")
# Batches here have their samples first.
SHARING = sorted(set(MODELS) - {*NORMED, *FUSED, "torch, tokens first"})
ORDER = (2, 0, 3, 1)  # puts copies apart


def batches_of(name, count=3, *, samples=12):
    return [batch_of(name, samples=samples, seed=seed) for seed in range(count)]


def copied(name, kinds=(0, 0, 1, 1), *, seed=0):
    """A model whose heads have so many different keys and values, hidden by changes that do nothing."""
    model, random = prepared(model_of(name)), np.random.default_rng(seed)
    rotary = name in ROTARY
    for block in attention_blocks(model):
        queries, keys, values = (
            with_bias_row(block.weights(which), block.biases(which)) for which in (QUERY, KEY, VALUE)
        )
        written = block.output_weight().reshape(HEADS, block.head_dim, -1)
        biased = [block.biases(which) is not None for which in (QUERY, KEY, VALUE)]
        of_keys, of_values, keys, values = [], [], keys[list(kinds)], values[list(kinds)]
        for head in range(HEADS):
            size = block.head_dim
            mix, turn = (random.normal(size=(size, size)) + 2 * np.eye(size) for _ in range(2))
            if rotary:  # a complex gain for each frequency
                real, imaginary = (np.diag(random.normal(size=size // 2)) for _ in range(2))
                turn = np.block([[real, imaginary], [-imaginary, real]])
            of_keys.append(keys[head] @ turn)
            queries[head] = queries[head] @ np.linalg.inv(turn).T
            of_values.append(values[head] @ mix)
            written[head] = np.linalg.solve(mix, written[head])
        keys, values = np.stack(of_keys)[list(ORDER)], np.stack(of_values)[list(ORDER)]
        (keys, key_bias), (values, value_bias), (queries, query_bias) = (
            without_bias_row(each, biased=has)
            for each, has in zip(
                (keys, values, queries), (biased[KEY], biased[VALUE], biased[QUERY]), strict=True
            )
        )
        block.set_part(QUERY, queries, query_bias)
        block.set_output(written.reshape(-1, block.width), block.output_bias())
        block.share(keys, values, key_bias, value_bias, order=ORDER)
    return model


@pytest.mark.parametrize("refit", [True, False])
@pytest.mark.parametrize("name", SHARING)
def test_heads_that_are_copies_in_disguise_are_grouped_back(name, refit):
    model, given = copied(name), batches_of(name)
    assert {block.kv_heads for block in attention_blocks(model)} == {HEADS}
    found, fresh = grouped(model, given, 2, refit=refit), batch_of(name, seed=99)
    assert {block.kv_heads for block in found.blocks} == {2}
    torch.testing.assert_close(outputs_of(found.model, fresh), outputs_of(model, fresh), rtol=0, atol=EXACT)


@pytest.mark.parametrize("name", ["llama", "bert"])
def test_heads_that_already_share_can_be_grouped_further(name):
    model = copied(name, kinds=(0, 0, 0, 0) if name == "bert" else (1, 1, 1, 1))
    few = grouped(grouped(model, batches_of(name), 2).model, batches_of(name), 1)
    assert {block.kv_heads for block in few.blocks} == {1}
    fresh = batch_of(name, seed=99)
    torch.testing.assert_close(outputs_of(few.model, fresh), outputs_of(model, fresh), rtol=0, atol=EXACT)


@pytest.mark.parametrize("name", ["qwen2", "t5", "torch"])
def test_as_many_key_value_heads_as_before_change_nothing(name):
    model, given = model_of(name), batches_of(name)
    kv_heads = attention_blocks(prepared(model))[0].kv_heads
    for method in METHODS:
        found = grouped(model, given, kv_heads, method=method)
        torch.testing.assert_close(
            outputs_of(found.model, given[0]), outputs_of(model, given[0]), rtol=0, atol=EXACT
        )


@pytest.mark.parametrize("name", ["bert", "mistral", "t5"])
def test_what_was_grouped_is_made_again_without_data(name):
    model, given = model_of(name), batches_of(name)
    found = grouped(model, given, 1)
    again = apply_grouping(model, found.layers)
    assert torch.equal(outputs_of(again, given[0]), outputs_of(found.model, given[0]))
    assert not torch.equal(outputs_of(model, given[0]), outputs_of(again, given[0]))


@pytest.mark.parametrize("name", ROTARY)
def test_a_grouped_model_is_saved_and_loaded_by_transformers(name, tmp_path):
    given = batches_of(name)
    found = grouped(model_of(name), given, 1).model
    found.save_pretrained(tmp_path)
    loaded = type(found).from_pretrained(tmp_path, dtype=torch.float64).eval()
    assert loaded.config.num_key_value_heads == 1
    torch.testing.assert_close(outputs_of(loaded, given[0]), outputs_of(found, given[0]), rtol=0, atol=EXACT)


def left_of(block, metric, method):
    """A layer, and the same with one key-value head, its heads in their old order."""
    layer, found = Layer.of(block, metric), shared_heads(block, metric, 1, method=method)
    heads, size = len(found.order), block.head_dim
    order = np.argsort(found.order)
    keys, values = (
        with_bias_row(*each) for each in ((found.keys, found.key_bias), (found.values, found.value_bias))
    )
    queries = with_bias_row(found.queries, found.query_bias)[order]
    outputs = found.output.reshape(heads, size, -1)[order]
    return layer, (queries, keys, values, outputs)


@pytest.mark.parametrize("name", ["bert", "torch", "qwen2"])
def test_the_joint_svd_leaves_the_least_of_values_in_the_metric_of_the_data(name):
    model = prepared(model_of(name))
    for block, metric in zip(attention_blocks(model), metrics_of(model, batches_of(name)), strict=True):
        lost = {}
        for method in METHODS:
            layer, (_, _, values, outputs) = left_of(block, metric, method)
            apart = layer.value_root @ (values @ outputs - layer.values @ layer.outputs)
            lost[method] = (apart**2).sum()
        assert lost["joint"] <= min(lost["mean"], lost["procrustes"])


@pytest.mark.parametrize("name", ["bert", "torch"])
def test_the_joint_svd_leaves_the_least_of_scores_in_the_metric_of_the_data(name):
    model = prepared(model_of(name))
    for block, metric in zip(attention_blocks(model), metrics_of(model, batches_of(name)), strict=True):
        lost = {}
        for method in METHODS:
            layer, (queries, keys, _, _) = left_of(block, metric, method)
            products = keys @ queries.transpose(0, 2, 1) - layer.keys @ layer.queries.transpose(0, 2, 1)
            lost[method] = ((layer.key_root @ products @ layer.query_root.T) ** 2).sum()
        assert lost["joint"] <= min(lost["mean"], lost["procrustes"])


def test_rotary_keys_overlap_as_a_causal_softmax_sees_them():
    """By definition: of every query, the covariance of the turned keys that it sees, by frequency."""
    model, batch = prepared(model_of("qwen2")), batch_of("qwen2", samples=4)
    blocks, made = attention_blocks(model), {}
    hooks = [
        block.projections[KEY].register_forward_hook(lambda map_, _, keys: made.update({map_: keys.numpy()}))
        for block in blocks
    ]
    outputs_of(model, batch)
    for hook in hooks:
        hook.remove()
    angles = np.arange(7)[:, None] * 10_000.0 ** (-np.arange(2) / 2)
    for block, found in zip(blocks, rotary_grams(model, blocks, [batch], ["rotary"] * 3), strict=True):
        wanted = np.zeros_like(found)
        for keys, mask in zip(made[block.projections[KEY]], batch["attention_mask"].tolist(), strict=True):
            turned = as_complex(keys.reshape(7, 2, 4), interleaved=False) * np.exp(1j * angles)[:, None]
            for end in range(1, sum(mask) + 1):
                apart = turned[:end] - turned[:end].mean(axis=0)
                wanted += np.einsum("sif,sjf->fij", apart, apart.conj()) / end / sum(mask) / 4
        np.testing.assert_allclose(found, wanted, atol=1e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("name", ["bert", "qwen2", "torch"])
@pytest.mark.parametrize("method", METHODS)
def test_a_refit_brings_the_residual_stream_closer_on_the_samples_it_saw(name, method):
    model, given = prepared(model_of(name)), batches_of(name)
    blocks = attention_blocks(model)
    targets = targets_of(model, blocks, given)

    def left(refit):
        """Of the first layer, whose inputs are those of the whole model."""
        found = grouped(model, targets, 1, method=method, refit=refit)
        moments = moments_of(found.model, replace(targets, blocks=found.blocks))[0]
        weight, bias = found.blocks[0].output_weight(), found.blocks[0].output_bias()
        bias = np.zeros(found.blocks[0].width) if bias is None else bias
        projection = Projection(np.arange(len(weight)), torch.from_numpy(weight), torch.from_numpy(bias))
        return sum(projection.error(each) * each.weight for each in moments)

    assert left(refit=True) <= left(refit=False) * (1 + 1e-9)


def test_moments_are_those_of_the_tokens_that_are_there():
    model, batch = prepared(model_of("bert")), batch_of("bert")
    block, seen = attention_blocks(model)[0], []
    hook = block.projections[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].numpy()))
    outputs_of(model, batch)
    hook.remove()
    (found, *_), x = input_moments(model, attention_blocks(model), [batch]), seen[0]
    wanted, centred = np.zeros((2, WIDTH + 1, WIDTH + 1))
    for tokens, mask in zip(x, batch["attention_mask"].numpy().astype(bool), strict=True):
        rows = np.hstack([tokens[mask], np.ones((mask.sum(), 1))])
        wanted += rows.T @ rows / mask.sum() / len(x)
        centred += np.cov(rows.T, bias=True) / len(x)
    for moment in (found.queries, found.keys, found.values):
        np.testing.assert_allclose(moment, wanted, atol=1e-12)
    np.testing.assert_allclose(found.centred, centred, atol=1e-12)


def test_how_queries_and_keys_meet_is_seen_in_every_family():
    for name in ("bert", "t5", "qwen2", "qwen3"):
        wanted = "rotary" if name in ROTARY else None if name in NORMED else "plain"
        assert set(scores_of(prepared(model_of(name)).float(), batch_of(name))) == {wanted}


class Turned(nn.Module):
    """Attention whose pairs of numbers stand side by side when they are turned."""

    head_dim, num_key_value_groups = 4, 1

    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        q, k, v = (
            each(x).unflatten(2, (-1, 4)).transpose(1, 2) for each in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = self.turn(q), self.turn(k).repeat_interleave(self.num_key_value_groups, 1)
        v = v.repeat_interleave(self.num_key_value_groups, 1)
        return self.o_proj((torch.softmax(q @ k.mT, -1) @ v).transpose(1, 2).flatten(2))

    def turn(self, q):
        angles = torch.arange(q.shape[2])[:, None] * torch.tensor([1.0, 0.3], dtype=q.dtype)
        pairs = torch.view_as_complex(q.unflatten(3, (-1, 2)).contiguous())
        return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(3)


def test_pairs_side_by_side_are_seen_and_grouped():
    torch.manual_seed(0)
    model, given = nn.Sequential(Turned()).double().eval(), [batch_of("torch", samples=8)[0]]
    assert scores_of(prepared(model), given[0]) == ["rotary, interleaved"]
    (block,) = attention_blocks(model)
    first = [0, 0, 2, 2]
    block.share(
        block.weights(KEY)[first],
        block.weights(VALUE)[first],
        block.biases(KEY)[first],
        block.biases(VALUE)[first],
    )
    found = grouped(model, given, 2)
    torch.testing.assert_close(found.model(given[0]), model(given[0]), rtol=0, atol=EXACT)


@pytest.mark.parametrize(
    ("name", "kv_heads", "said"),
    [
        (
            "bert",
            3,
            "kv_heads: expected a divisor of the 4 heads of .*, at most its 4 key-value heads, got 3",
        ),
        (
            "llama",
            4,
            "kv_heads: expected a divisor of the 4 heads of .*, at most its 2 key-value heads, got 4",
        ),
        ("bert", 0, "kv_heads: expected an integer >= 1, got 0"),
        ("gpt2", 3, "expected a divisor of the 4 keys of .*, each of which stays as it is, got 3"),
    ],
)
def test_what_cannot_be_grouped_is_one_line(name, kv_heads, said):
    with pytest.raises(InvalidInput, match=said) as refusal:
        grouped(model_of(name), batches_of(name), kv_heads)
    assert "\n" not in str(refusal.value)


def test_a_method_that_is_none_is_refused():
    with pytest.raises(InvalidInput, match="method: expected one of joint, procrustes, mean, got 'best'"):
        grouped(model_of("bert"), batches_of("bert"), 2, method="best")


VALUES_ONLY = ("qwen3", "gpt2", "timm")


def with_copied_values(name):
    """A model where pairs of keys that stand apart have one value between them, mixed anew for each."""
    model, random = prepared(model_of(name)), np.random.default_rng(0)
    for block in attention_blocks(model):
        values = with_bias_row(block.weights(VALUE), block.biases(VALUE))
        written = block.output_weight().reshape(block.kv_heads, block.group_size, block.head_dim, -1)
        half = block.kv_heads // 2
        for key in range(block.kv_heads):
            mix = random.normal(size=(block.head_dim,) * 2) + 2 * np.eye(block.head_dim)
            if key >= half:
                values[key] = values[key - half] @ mix
                written[key] = np.linalg.solve(mix, written[key])
        block.set_part(VALUE, *without_bias_row(values, biased=block.biases(VALUE) is not None))
        block.set_output(written.reshape(-1, block.width), block.output_bias())
    return model


@pytest.mark.parametrize("refit", [True, False])
@pytest.mark.parametrize("name", VALUES_ONLY)
def test_values_alone_share_where_keys_cannot(name, refit):
    model, given = with_copied_values(name), batches_of(name)
    (before, *_), few = attention_blocks(model), attention_blocks(model)[0].kv_heads // 2
    found, fresh = grouped(model, given, few, refit=refit), batch_of(name, seed=99)
    assert {(block.kv_heads, block.value_heads) for block in found.blocks} == {(before.kv_heads, few)}
    torch.testing.assert_close(outputs_of(found.model, fresh), outputs_of(model, fresh), rtol=0, atol=EXACT)
    order = found.layers[0].order[:: before.group_size]
    keys = before.weights(KEY)[[head // before.group_size for head in order]]
    np.testing.assert_array_equal(found.blocks[0].weights(KEY), keys)
    assert costs_of(found.model, given[0]).parameters < costs_of(model, given[0]).parameters
    assert costs_of(found.model, given[0]).cache == costs_of(model, given[0]).cache


@pytest.mark.parametrize("name", ["qwen3", "gpt2"])
def test_the_joint_svd_of_values_alone_leaves_the_least(name):
    model = prepared(model_of(name))
    for block, metric in zip(attention_blocks(model), metrics_of(model, batches_of(name)), strict=True):
        assert metric.values_only
        lost = {}
        for method in METHODS:
            layer, (_, _, values, outputs) = left_of(block, metric, method)
            apart = layer.value_root @ (values @ outputs - layer.values @ layer.outputs)
            lost[method] = (apart**2).sum()
        assert lost["joint"] <= min(lost["mean"], lost["procrustes"])


@pytest.mark.parametrize("name", ["qwen3", "gpt2"])
def test_fewer_values_than_keys_are_written_as_code_and_nothing_is_told_that_stock_can(name, tmp_path):
    whole, given = prepared(model_of(name)), batches_of(name)
    found = grouped(whole, given, 1)
    again = apply_grouping(whole, found.layers)
    assert torch.equal(outputs_of(again, given[0]), outputs_of(found.model, given[0]))
    smaller = Smaller(whole, again, Inputs.like(whole, given[0]), "grouped")
    with pytest.raises(CannotHold, match=r"^stock: expected as many values as keys, [24], .* got 1$"):
        written(plan_of(whole), lambda _: smaller, tmp_path / "s", kind="stock", solution="grouped")
    exported = written(plan_of(whole), lambda _: smaller, tmp_path / "small", solution="grouped")
    assert exported.kind == "code" and exported.notes[0].startswith("Not stock: expected as many values")
    assert any("cached as repeated" in line for line in exported.loading.says)
    assert read_elsewhere({name: tmp_path / "small"}, cache=tmp_path / "cache") == {name: "fine"}


def test_values_that_keys_share_become_a_program(tmp_path):
    whole = whole_of("qwen3", layers=1)
    found = grouped(whole, batches_of("qwen3"), 1)
    smaller = Smaller(whole, found.model, Inputs.like(whole, batch_of("qwen3")), "grouped")
    written(plan_of(whole), lambda _: smaller, tmp_path / "p", kind="export", solution="grouped")
    assert read_elsewhere({"p": tmp_path / "p"}, without="headcount,transformers") == {"p": "fine"}


def test_no_head_is_removed_where_keys_share_values():
    found = grouped(model_of("gpt2"), batches_of("gpt2"), 2)
    with pytest.raises(InvalidInput, match="expected a value for each key, got values that keys share"):
        found.blocks[0].keep([0])

"""What is taken for attention, what is refused, and in which words."""

import pytest
import torch
import transformers
from small_models import HEADS, TEXT, WIDTH, Encoder, model_of
from torch import nn

from headcount.errors import InvalidInput
from headcount.trained.discovery import attention_blocks, prepared
from headcount.trained.layout import REGISTERED, Layout, register_attention

pytestmark = pytest.mark.torch


class Attention(nn.Module):
    """Attention with names of its own."""

    def __init__(self):
        super().__init__()
        self.size = 4
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        q, k, v = (
            each(x).unflatten(-1, (-1, self.size)).transpose(1, 2) for each in (self.wq, self.wk, self.wv)
        )
        return self.wo((torch.softmax(q @ k.mT, -1) @ v).transpose(1, 2).flatten(2))


def refused(model):
    with pytest.raises(InvalidInput) as refusal:
        prepared(model)
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


@pytest.fixture
def registered():
    before = list(REGISTERED)
    yield register_attention(Layout("mine", ("wq", "wk", "wv"), "wo", head_dim="size"))
    REGISTERED[:] = before


def test_attention_of_ones_own_is_found_once_its_layout_is_known(registered):
    model = nn.Sequential(Attention(), Attention()).double()
    x = torch.randn(2, 3, WIDTH, dtype=torch.float64)
    blocks = attention_blocks(model)
    assert [block.name for block in blocks] == ["0", "1"]
    blocks[0].keep([0, 3])
    assert model(x).shape == x.shape


def test_a_layout_names_one_or_three_projections():
    with pytest.raises(InvalidInput, match="three names, or one"):
        register_attention(Layout("mine", ("wq", "wk"), "wo", head_dim="size"))


def test_where_nothing_matches_the_linear_layers_are_listed():
    said = refused(nn.Sequential(Attention()))
    assert said.startswith("no attention found; its linear layers are 0.wq (16, 16), 0.wk")


def test_a_model_without_linear_layers():
    assert refused(nn.Conv2d(3, 4, 1)) == "no attention found: the model has no linear layers"


def test_not_a_module():
    assert refused([1, 2]).startswith("model: expected a torch.nn.Module")


@pytest.mark.filterwarnings("ignore")
def test_quantised_weights():
    model = torch.ao.quantization.quantize_dynamic(model_of("bert").float(), {nn.Linear}, dtype=torch.qint8)
    assert "expected floating-point weights, got quantised ones" in refused(model)


def test_a_config_with_quantisation():
    model = model_of("bert")
    model.config.quantization_config = {"load_in_4bit": True}
    assert refused(model) == "model: expected floating-point weights, got a quantised model"


def test_weights_shared_between_layers():
    model = model_of("bert")
    first, second = (layer.attention.self for layer in model.bert.encoder.layer[:2])
    second.query.weight = first.query.weight
    assert "expected weights of its own, got those of bert.encoder.layer.0.attention.self" in refused(model)


def test_tied_embeddings_are_fine():
    model = model_of("gpt2")
    assert model.lm_head.weight is model.transformer.wte.weight
    assert len(attention_blocks(prepared(model))) == 3


def test_a_model_that_was_pruned_before():
    model = model_of("bert")
    attention_blocks(model)[1].keep([0, 1])
    assert f"expected {HEADS} heads as its config says, got 2: heads were removed" in refused(model)


def test_a_norm_over_all_heads_together():
    model = transformers.Olmo2ForCausalLM(transformers.Olmo2Config(**TEXT))
    assert "expected weights of projections alone, got q_norm.weight too" in refused(model)


def test_tokens_of_multihead_attention_that_no_input_has():
    model = Encoder()
    model.encoder.layers[1].self_attn = nn.MultiheadAttention(WIDTH, HEADS, add_bias_kv=True)
    assert "encoder.layers.1.self_attn: expected no add_bias_kv" in refused(model)


def test_attention_that_is_the_whole_model():
    attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).eval()
    x = torch.randn(2, 5, WIDTH)
    torch.testing.assert_close(prepared(attention)(x, x, x)[0], attention(x, x, x)[0])


def test_the_users_own_model_is_left_alone():
    model = model_of("torch")
    before = [id(each) for each in model.parameters()]
    attention_blocks(prepared(model))[0].keep([0])
    assert [id(each) for each in model.parameters()] == before
    assert isinstance(model.encoder.layers[0].self_attn, nn.MultiheadAttention)

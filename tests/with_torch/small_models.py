"""Tiny random models of every family, built from configs, in float64; with a batch for each."""

import pytest
import torch
import transformers
from torch import nn

WIDTH, HEADS, LAYERS, VOCABULARY = 16, 4, 3, 40
TEXT = {
    "hidden_size": WIDTH,
    "num_attention_heads": HEADS,
    "num_hidden_layers": LAYERS,
    "intermediate_size": 24,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 32,
}
IMAGE = {
    "hidden_size": WIDTH,
    "num_attention_heads": HEADS,
    "num_hidden_layers": LAYERS,
    "intermediate_size": 24,
    "image_size": 8,
    "patch_size": 4,
    "num_labels": 5,
}


class Encoder(nn.Module):
    """`nn.TransformerEncoder` over numbers, with a head."""

    def __init__(self, *, batch_first=True, norm_first=False):
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 24, dropout=0.1, batch_first=batch_first, norm_first=norm_first
        )
        self.encoder = nn.TransformerEncoder(
            layer, LAYERS, enable_nested_tensor=batch_first and not norm_first
        )
        self.head = nn.Linear(WIDTH, 5)

    def forward(self, x, padding=None):
        return self.head(self.encoder(x, src_key_padding_mask=padding))


class Decoder(nn.Module):
    """`nn.TransformerDecoder`, whose layers attend to something else too."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerDecoderLayer(WIDTH, HEADS, 24, batch_first=True)
        self.decoder = nn.TransformerDecoder(layer, LAYERS)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=x.dtype)
        return self.decoder(x, x.flip(1), tgt_mask=mask, tgt_is_causal=True)


def _causal(name, **more):
    config = getattr(transformers, f"{name}Config")(**{**TEXT, "num_key_value_heads": 2, **more})
    return getattr(transformers, f"{name}ForCausalLM")(config)


def _bert(name, model="ForSequenceClassification"):
    return getattr(transformers, name + model)(getattr(transformers, f"{name}Config")(**TEXT, num_labels=5))


def _timm():
    try:
        from timm.models.vision_transformer import VisionTransformer
    except (ImportError, RuntimeError) as problem:  # the latter from a torchvision for another torch
        pytest.skip(f"timm cannot be imported: {problem}")
    return VisionTransformer(
        img_size=8, patch_size=4, embed_dim=WIDTH, depth=LAYERS, num_heads=HEADS, num_classes=5
    )


MODELS = {
    "bert": lambda: _bert("Bert"),
    "roberta": lambda: _bert("Roberta"),
    "distilbert": lambda: transformers.DistilBertModel(
        transformers.DistilBertConfig(
            dim=WIDTH, n_heads=HEADS, n_layers=LAYERS, hidden_dim=24, vocab_size=VOCABULARY
        )
    ),
    "gpt2": lambda: transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            n_embd=WIDTH, n_head=HEADS, n_layer=LAYERS, n_positions=32, vocab_size=VOCABULARY
        )
    ),
    "llama": lambda: _causal("Llama"),
    "mistral": lambda: _causal("Mistral"),
    "qwen2": lambda: _causal("Qwen2"),
    "qwen3": lambda: _causal("Qwen3", head_dim=6),
    "vit": lambda: transformers.ViTForImageClassification(transformers.ViTConfig(**IMAGE)),
    "deit": lambda: transformers.DeiTForImageClassification(transformers.DeiTConfig(**IMAGE)),
    "t5": lambda: transformers.T5ForConditionalGeneration(
        transformers.T5Config(
            d_model=WIDTH, d_kv=6, d_ff=24, num_heads=HEADS, num_layers=LAYERS, vocab_size=VOCABULARY
        )
    ),
    "bart": lambda: transformers.BartModel(
        transformers.BartConfig(
            d_model=WIDTH,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=HEADS,
            decoder_attention_heads=HEADS,
            encoder_ffn_dim=24,
            decoder_ffn_dim=24,
            vocab_size=VOCABULARY,
            max_position_embeddings=32,
        )
    ),
    "timm": lambda: _timm(),
    "torch": lambda: Encoder(),
    "torch, norm first": lambda: Encoder(norm_first=True),
    "torch, tokens first": lambda: Encoder(batch_first=False),
    "torch decoder": lambda: Decoder(),
}
IMAGES, NUMBERS = ("vit", "deit", "timm"), tuple(name for name in MODELS if name.startswith("torch"))


def model_of(name, *, seed=0):
    """A random model in float64, its biases random too."""
    torch.manual_seed(seed)
    model = MODELS[name]().double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return model


def batch_of(name, *, samples=3, tokens=7, seed=1):
    """A batch that the model takes; text is padded at the end of its first sample."""
    generator = torch.Generator().manual_seed(seed)
    if name in IMAGES:
        images = torch.randn(samples, 3, 8, 8, generator=generator, dtype=torch.float64)
        return (images,) if name == "timm" else {"pixel_values": images}
    if name in NUMBERS:
        return (torch.randn(samples, tokens, WIDTH, generator=generator, dtype=torch.float64),)
    ids = torch.randint(3, VOCABULARY, (samples, tokens), generator=generator)
    mask = torch.ones_like(ids)
    mask[0, -2:] = 0
    batch = {"input_ids": ids, "attention_mask": mask}
    return {**batch, "decoder_input_ids": ids.flip(1)} if name in ("t5", "bart") else batch


def outputs_of(model, batch):
    """The main output of a model, as one tensor."""
    with torch.no_grad():
        found = model(**batch) if isinstance(batch, dict) else model(*batch)
    return found if isinstance(found, torch.Tensor) else found[0]

"""Random models whose heads are known: few real ones, spread over more by a change that keeps the function.

A layer computes Σ_i P_i X V_i O_i, where the pattern P_i depends on Q_i K_iᵀ alone. It stays the same if

- a head is there several times, with Q_i A_i and K_i A_i⁻ᵀ for any invertible A_i (with rotary embeddings:
  one that commutes with rotations, a complex number for each frequency);
- each of them has values V B_i for an invertible B_i of its own;
- what they write adds up to what the head wrote: Σ_i B_i O_i = O, all but one O_i drawn at random;
- heads stand in any order.

Each of them has all the values of the head, mixed, so a refit of its output projection alone takes over from
the others: as many heads as were real are enough. That would not hold if the values of a head were dealt out
among them, or mixed with values that nothing reads: then each has a part that no other has, and removing any
of them loses it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headcount.trained.attention import KEY, QUERY, VALUE, AttentionBlock
from headcount.trained.discovery import attention_blocks, prepared
from headcount.trained.linear import set_linear

REAL, HEADS, WIDTH, TOKENS, VOCABULARY, CLASSES = 4, 8, 64, 12, 50, 10
SHARPNESS = 1.5  # of queries and keys: patterns must differ for heads to matter
FAMILIES = ("bert", "llama", "vit", "torch")
SHAPE: dict[str, Any] = {"hidden_size": WIDTH, "num_attention_heads": HEADS, "intermediate_size": 2 * WIDTH}


class Encoder(nn.Module):
    """`nn.TransformerEncoder` over numbers, with a classifier for every token."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.classifier = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.encoder(x))


def stock(family: str, layers: int) -> nn.Module:
    """A model as its library makes it."""
    if family == "torch":
        return Encoder(layers)
    import transformers as hub

    shape = {**SHAPE, "num_hidden_layers": layers}
    if family == "bert":
        config = hub.BertConfig(**shape, vocab_size=VOCABULARY, num_labels=CLASSES)
        return hub.BertForSequenceClassification(config)
    if family == "llama":
        return hub.LlamaForCausalLM(hub.LlamaConfig(**shape, vocab_size=VOCABULARY))
    return hub.ViTForImageClassification(
        hub.ViTConfig(**shape, image_size=16, patch_size=4, num_labels=CLASSES)
    )


def batches_for(family: str, *, count: int, seed: int) -> list[Any]:
    """Random inputs."""
    made = torch.Generator().manual_seed(seed)
    if family == "torch":
        return [torch.randn(50, TOKENS, WIDTH, generator=made) for _ in range(count)]
    if family == "vit":
        return [{"pixel_values": torch.randn(50, 3, 16, 16, generator=made)} for _ in range(count)]
    return [{"input_ids": torch.randint(VOCABULARY, (50, TOKENS), generator=made)} for _ in range(count)]


@dataclass(frozen=True, eq=False)
class Planted:
    """A model with `REAL` heads in each layer, and the equal one with `HEADS`."""

    real: nn.Module
    spread: nn.Module


def planted(family: str, *, layers: int, seed: int, noise: float) -> Planted:
    """Weights of size 1 / √inputs, so that every part matters; then the change, and noise on top of it.

    - `noise`: added to all attention weights of the spread model, relative to their size.
    """
    torch.manual_seed(seed)
    random, model = np.random.default_rng(seed), prepared(stock(family, layers))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                fan_in = parameter[0].numel() if parameter.shape[0] != VOCABULARY else 1
                parameter.normal_(std=fan_in**-0.5)
    real, spread = prepared(model), prepared(model)
    for one, other in zip(attention_blocks(real), attention_blocks(spread), strict=True):
        plant(one, other, random, rotary=family == "llama", noise=noise)
        if hasattr(one.attention, "config"):  # which is checked for heads that were removed before
            one.attention.config.num_attention_heads = REAL
    return Planted(real, spread)


def plant(
    real: AttentionBlock, spread: AttentionBlock, random: np.random.Generator, *, rotary: bool, noise: float
) -> None:
    """Leave the first heads to one module, and give the other the same function with all of its heads."""
    real.keep(range(REAL))
    _sharpen(real)
    sources = _groups(random)
    size, weights = real.head_dim, [real.weights(which) for which in (QUERY, KEY, VALUE)]
    biases = [real.biases(which) for which in (QUERY, KEY, VALUE)]
    turns = [_commuting(size, random) if rotary else _invertible(size, random) for _ in sources]
    mixes = [_invertible(size, random) for _ in sources]
    maps = [turns, [np.linalg.inv(each).T for each in turns], mixes]
    for which, (projection, by_head) in enumerate(zip(spread.projections, maps, strict=True)):
        pairs = list(zip(by_head, sources, strict=True))
        weight = np.concatenate([each.T @ weights[which][source] for each, source in pairs])
        own = biases[which]
        bias = None if own is None else np.concatenate([each.T @ own[source] for each, source in pairs])
        set_linear(
            projection, _noisy(weight, noise, random), None if bias is None else torch.from_numpy(bias)
        )
    output = _written(real.output_weight().reshape(REAL, size, -1), sources, mixes, random)
    spread.set_output(np.asarray(_noisy(output, noise, random)), real.output_bias())


def _sharpen(block: AttentionBlock) -> None:
    for which in (QUERY, KEY):
        projection = block.projections[which]
        set_linear(projection, SHARPNESS * projection.weight.detach(), projection.bias)


def _groups(random: np.random.Generator) -> list[int]:
    """Of every head, the real one that it is a part of: each is there once at least, in a random order."""
    more = random.integers(REAL, size=HEADS - REAL)
    return random.permutation(np.concatenate([np.arange(REAL), more])).tolist()


def _written(
    weight: np.ndarray, sources: Sequence[int], mixes: Sequence[np.ndarray], random: np.random.Generator
) -> np.ndarray:
    """Output projections that add up, after their heads' mixing, to that of the real head."""
    left = dict(enumerate(weight))
    found = []
    for place, (source, mix) in enumerate(zip(sources, mixes, strict=True)):
        last = source not in sources[place + 1 :]
        part = left[source] if last else random.normal(scale=weight.std(), size=weight[source].shape)
        left[source] = left[source] - part
        found.append(np.linalg.solve(mix, part))
    return np.concatenate(found)


def _invertible(size: int, random: np.random.Generator) -> np.ndarray:
    """Stretches by at most 4, between two random rotations."""
    first, second = (np.linalg.qr(random.normal(size=(size, size)))[0] for _ in range(2))
    return first @ np.diag(2 ** random.uniform(-1, 1, size)) @ second


def _commuting(size: int, random: np.random.Generator) -> np.ndarray:
    """A complex number for each frequency, whose two parts stand half a head apart."""
    half = size // 2
    number = 2 ** random.uniform(-1, 1, half) * np.exp(2j * np.pi * random.random(half))
    real, imaginary = np.diag(number.real), np.diag(number.imag)
    return np.block([[real, imaginary], [-imaginary, real]])


def _noisy(weight: np.ndarray, noise: float, random: np.random.Generator) -> Tensor:
    return torch.from_numpy(weight + noise * weight.std() * random.normal(size=weight.shape))

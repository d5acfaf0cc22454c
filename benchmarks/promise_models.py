"""Small transformers trained in seconds, and endless or large data for them: what a promise is tested on."""

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from headcount.data.cifar10.files import load_cifar10

Batch = Any
BATCH = 500
KEYS, VALUES = 8, 4  # of the sequences of keys with values
RETRIEVALS, LENGTH = 3, 12  # of the sequences of numbers
# Of the images of CIFAR-10: for training, for inspecting, and for the test.
IMAGES = (24_000, 18_000, 18_000)


@dataclass(frozen=True)
class Spec:
    """One model: its data, shape and seed."""

    data: str
    layers: int
    heads: int
    width: int
    steps: int
    seed: int

    @property
    def name(self) -> str:
        """Of its row."""
        return f"{self.data}, {self.layers} × {self.heads} heads, seed {self.seed}"


@dataclass(frozen=True)
class Samples:
    """Inputs with labels."""

    inputs: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, places: Tensor) -> "Samples":
        """Some of them."""
        return Samples(self.inputs[places], self.labels[places])


class Encoder(nn.Module):
    """`nn.TransformerEncoder` over tokens of numbers, and a classifier on their mean."""

    def __init__(self, spec: Spec, *, length: int, features: int, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Linear(features, spec.width)
        self.positions = nn.Parameter(0.1 * torch.randn(length, spec.width))
        layer = nn.TransformerEncoderLayer(
            spec.width, spec.heads, 2 * spec.width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, spec.layers, enable_nested_tensor=False)
        self.classifier = nn.Linear(spec.width, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.encoder(self.embedding(x) + self.positions).mean(dim=1))


def _encoder(length: int, features: int, classes: int) -> Callable[[Spec], nn.Module]:
    return lambda spec: Encoder(spec, length=length, features=features, classes=classes)


def _bert(spec: Spec) -> nn.Module:
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=(2 + VALUES) * KEYS,
        hidden_size=spec.width,
        num_hidden_layers=spec.layers,
        num_attention_heads=spec.heads,
        intermediate_size=2 * spec.width,
        max_position_embeddings=2 + KEYS,
        num_labels=VALUES**2,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return BertForSequenceClassification(config)


def _vit(spec: Spec) -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=spec.width,
        num_hidden_layers=spec.layers,
        num_attention_heads=spec.heads,
        intermediate_size=2 * spec.width,
        image_size=16,
        patch_size=4,
        num_labels=10,
        hidden_dropout_prob=0.0,
    )
    return ViTForImageClassification(config)


MODELS: dict[str, Callable[[Spec], nn.Module]] = {
    "digits": _encoder(8, 8, 10),
    "maxima": _encoder(LENGTH, RETRIEVALS + 1, 2),
    "keys": _bert,
    "images": _vit,
}
# The named input of models from transformers; others take a tensor.
NAMED = {"keys": "input_ids", "images": "pixel_values"}


def digits(count: int, random: np.random.Generator, _: Path) -> Samples:
    """scikit-learn's 1,797 digits, each drawn at random, moved by up to a pixel, with noise; rows are tokens.

    Drawn anew whenever asked: parts share the digits, as samples of one distribution, and no pixel.
    """
    pixels, labels = _digits()
    chosen = random.integers(len(labels), size=count)
    framed = np.pad(pixels[chosen], ((0, 0), (1, 1), (1, 1)))
    rows, columns = (random.integers(3, size=(count, 1)) + np.arange(8) for _ in range(2))
    moved = framed[np.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]
    moved = moved + random.normal(scale=0.3, size=moved.shape)
    return Samples(torch.tensor(moved, dtype=torch.float32), torch.tensor(labels[chosen]))


@cache
def _digits() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits  # type: ignore[import-untyped]

    found = load_digits()
    return found.images / 8 - 1, found.target


def maxima(count: int, random: np.random.Generator, _: Path) -> Samples:
    """Tokens of three coordinates and a sign: do most of the tokens with the largest coordinates have +1?"""
    coordinates = random.random((count, LENGTH, RETRIEVALS))
    signs = random.choice([-1.0, 1.0], size=(count, LENGTH, 1))
    largest = coordinates.argmax(axis=1)
    votes = np.take_along_axis(signs[..., 0], largest, axis=1).sum(axis=1)
    tokens = np.concatenate([2 * coordinates - 1, signs], axis=2)
    return Samples(torch.tensor(tokens, dtype=torch.float32), torch.tensor((votes > 0).astype(np.int64)))


def keys(count: int, random: np.random.Generator, _: Path) -> Samples:
    """Two keys that are asked for, then all keys with their values in a random order: which two values?"""
    order = random.permuted(np.tile(np.arange(KEYS), (count, 1)), axis=1)
    values = random.integers(VALUES, size=(count, KEYS))  # by key
    asked = random.integers(KEYS, size=(count, 2))
    told = 2 * KEYS + VALUES * order + np.take_along_axis(values, order, axis=1)
    tokens = np.concatenate([asked + np.array([0, KEYS]), told], axis=1)
    wanted = np.take_along_axis(values, asked, axis=1) @ [VALUES, 1]
    return Samples(torch.tensor(tokens), torch.tensor(wanted))


@cache
def images(folder: Path) -> tuple[Samples, ...]:
    """CIFAR-10 at 16 × 16 pixels, in random parts: for training, for inspecting, for the test."""
    found = load_cifar10(folder)
    pixels = np.concatenate([found.train_images, found.test_images])
    labels = np.concatenate([found.train_labels, found.test_labels])
    small = pixels.reshape(-1, 16, 2, 16, 2, 3).mean(axis=(2, 4)).transpose(0, 3, 1, 2)
    x, y = torch.tensor(small / 64 - 2, dtype=torch.float32), torch.tensor(labels.astype(np.int64))
    order = torch.tensor(np.random.default_rng(0).permutation(sum(IMAGES)))
    return tuple(Samples(x, y).take(some) for some in order.split(IMAGES))


SOURCES = {"digits": digits, "maxima": maxima, "keys": keys}
PARTS = ("train", "inspect", "test")


def drawn(data: str, part: str, count: int, *, seed: int, folder: Path) -> Samples:
    """Samples of one part: for training, for inspecting or for the test; the parts share none."""
    random = np.random.default_rng([PARTS.index(part), seed])
    if data != "images":
        return SOURCES[data](count, random, folder)
    every = images(folder)[PARTS.index(part)]
    return every.take(torch.tensor(random.permutation(len(every))[:count]))


def batches_of(data: str, samples: Samples) -> list[Batch]:
    """As the model takes them, labels beside."""
    pairs = zip(samples.inputs.split(BATCH), samples.labels.split(BATCH), strict=True)
    if data in NAMED:
        return [{NAMED[data]: inputs, "labels": labels} for inputs, labels in pairs]
    return list(pairs)


def right(outputs: Any, batch: Batch) -> Tensor:
    """Of every sample, 1 if it is classified as its label says."""
    labels = batch["labels"] if isinstance(batch, dict) else batch[1]
    return (_logits(outputs).argmax(dim=-1) == labels).double()


def _logits(outputs: Any) -> Tensor:
    return getattr(outputs, "logits", outputs)


def trained(spec: Spec, work: Path, folder: Path) -> nn.Module:
    """The model, from the work folder if it is there."""
    torch.manual_seed(spec.seed)
    model = MODELS[spec.data](spec)
    path = work / f"{hashlib.sha256(str(asdict(spec)).encode()).hexdigest()[:16]}.pt"
    if path.exists():
        model.load_state_dict(torch.load(path))
    else:
        _train(model, spec, folder)
        work.mkdir(parents=True, exist_ok=True)
        torch.save(model.state_dict(), path)
    return model.eval()


def _train(model: nn.Module, spec: Spec, folder: Path) -> None:
    samples = drawn(spec.data, "train", IMAGES[0], seed=spec.seed, folder=folder)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, total_steps=spec.steps)
    model.train()
    for _ in range(spec.steps):
        some = samples.take(torch.randint(len(samples), (128,)))
        inputs = {NAMED[spec.data]: some.inputs} if spec.data in NAMED else {}
        outputs = model(**inputs) if inputs else model(some.inputs)
        loss = functional.cross_entropy(_logits(outputs), some.labels)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()

"""Vision transformers trained in lockstep: each is what it would be alone."""

import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from trained_models import CROP, SIDE, Images, Lockstep, VisionTransformer, load_images, write_torch

from headcount.trained.discovery import attention_blocks, prepared

pytestmark = pytest.mark.torch
SHAPE = {"width": 12, "layers": 2, "stem": 4}


class Few(Images):
    """Made-up images."""

    def __init__(self):
        random = torch.Generator().manual_seed(0)
        self.train = torch.randint(256, (20, 3, SIDE, SIDE), generator=random, dtype=torch.uint8)
        self.labels = torch.randint(10, (20,), generator=random)
        self.test, self.test_labels = self.train, self.labels


def run_of(seeds=2):
    options = Namespace(device="cpu", seeds=seeds, shape=SHAPE, epochs=2, batch=10)
    return Lockstep(3, Few(), options)


def alone(seed):
    torch.manual_seed(seed)
    return VisionTransformer(3, **SHAPE)


def test_logits_and_gradients_are_those_of_each_model_alone():
    run, pixels = run_of(), torch.randn(2, 4, 3, SIDE, SIDE)
    labels = torch.randint(10, (2, 4))
    logits = torch.vmap(run.logits)(run.weights, pixels)
    loss = sum(functional.cross_entropy(logits[seed], labels[seed]) for seed in range(2))
    found = torch.autograd.grad(loss, list(run.weights.values()))
    for seed in range(2):
        model = alone(seed)
        torch.testing.assert_close(logits[seed], model(pixels[seed]), atol=1e-5, rtol=1e-4)
        functional.cross_entropy(model(pixels[seed]), labels[seed]).backward()
        own = dict(model.named_parameters())
        for name, gradient in zip(run.weights, found, strict=True):
            torch.testing.assert_close(gradient[seed], own[name].grad, atol=1e-5, rtol=1e-3)


def test_gradients_are_clipped_model_by_model():
    run = run_of()
    for each in run.weights.values():
        each.grad = torch.full_like(each, 100.0)
        each.grad[1] *= 1e-9
    run.clip()
    lengths = [
        sum(float((each.grad[seed] ** 2).sum()) for each in run.weights.values()) ** 0.5 for seed in range(2)
    ]
    assert lengths[0] == pytest.approx(1.0, rel=1e-4) and lengths[1] < 1e-4


def test_training_that_is_broken_off_goes_on_as_if_it_were_not(tmp_path):
    through, broken = run_of(), run_of()
    through.run_epoch()
    through.run_epoch()
    broken.run_epoch()
    write_torch(broken.state(), tmp_path / "state.pt")
    again = run_of()
    again.restore(torch.load(tmp_path / "state.pt"))
    again.run_epoch()
    for name, each in through.weights.items():
        torch.testing.assert_close(again.weights[name], each)


def test_crops_are_parts_of_the_padded_image_half_of_them_flipped():
    images, random = Few(), torch.Generator().manual_seed(3)
    places = torch.zeros(40, dtype=torch.long)
    found = images.augmented(places, random).numpy()
    framed = np.pad(images.train[:1].float().numpy() / 127.5 - 1, ((0, 0), (0, 0), (CROP,) * 2, (CROP,) * 2))
    windows = [
        framed[0, :, top : top + SIDE, left : left + SIDE]
        for top in range(2 * CROP + 1)
        for left in range(2 * CROP + 1)
    ]
    flipped = 0
    for each in found:
        seen = np.abs(each).sum(axis=0) > 0  # what was not erased
        same = [np.allclose(window[:, seen], each[:, seen]) for window in windows]
        turned = [np.allclose(window[:, :, ::-1][:, seen], each[:, seen]) for window in windows]
        assert any(same) or any(turned)
        flipped += any(turned)
    assert 8 <= flipped <= 32


def test_its_attention_is_found_and_loses_heads(tmp_path):
    model = alone(0)
    weights = {name: each.half() for name, each in model.state_dict().items()}
    write_torch({"heads": 3, "shape": SHAPE, "weights": weights}, tmp_path / "vit-3-0.pt")
    loaded = prepared(load_images(tmp_path / "vit-3-0.pt"))
    blocks = attention_blocks(loaded)
    assert [(block.heads, block.head_dim) for block in blocks] == [(3, 4)] * 2
    blocks[0].keep([1])
    assert loaded(torch.randn(2, 3, SIDE, SIDE)).shape == (2, 10)

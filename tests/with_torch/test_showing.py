"""Samples as a person sees them."""

import base64
import io

import numpy as np
import pytest
import torch
from PIL import Image

from headcount.trained.showing import MAX_LENGTH, MAX_SIDE, png, shown_sample

pytestmark = pytest.mark.torch

IDS = torch.arange(6).reshape(2, 3)


def opened(uri):
    start, content = uri.split(",")
    assert start == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(content))))


@pytest.mark.parametrize("channels", [1, 3])
def test_an_image_file_is_read_as_it_was_written(channels):
    pixels = np.random.default_rng(0).integers(256, size=(5, 7, channels), dtype=np.uint8)
    read = np.asarray(Image.open(io.BytesIO(png(pixels))))
    np.testing.assert_array_equal(read, pixels[:, :, 0] if channels == 1 else pixels)


def test_images_of_any_scale_are_shown_from_black_to_white():
    images = torch.linspace(-3, 5, 2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    read = opened(shown_sample([{"pixel_values": images, "labels": IDS[:, 0]}], 1))
    assert read.shape == (4, 5, 3) and (read.min(), read.max()) == (0, 255)
    assert read[0, 0, 0] == 0 and read[-1, -1, -1] == 255


def test_large_images_are_made_small():
    read = opened(shown_sample([(torch.rand(1, 1, 500, 200), torch.zeros(1))], 0))
    assert max(read.shape) <= MAX_SIDE and read.shape[0] > read.shape[1]


def test_texts_come_first_and_long_ones_are_cut():
    batches = [{"input_ids": IDS, "text": ["one", "two"]}, {"input_ids": IDS, "text": ["x" * 1000, "four"]}]
    assert [shown_sample(batches, number) for number in (0, 1, 3)] == ["one", "two", "four"]
    assert len(shown_sample(batches, 2)) == MAX_LENGTH


def test_other_samples_are_their_numbers():
    assert shown_sample([IDS, IDS], 2) == "sample 2"

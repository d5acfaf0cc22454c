"""Images in frames against numpy.pad, and frames cut into patches and put together again."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from headcount.data.cifar10.frames import PATCHES, SIDES, framed, patches, random_corner
from headcount.errors import InvalidInput

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(256, size=(8, 32, 32, 3), dtype=np.uint8)
IMAGE, ZERO = IMAGES[0], jnp.zeros(2, int)


@pytest.mark.parametrize("images", [IMAGES, IMAGES / np.float32(255)], ids=["uint8", "float32"])
@pytest.mark.parametrize("side", SIDES)
def test_a_frame_is_the_image_padded_by_its_edge(side, images):
    last = side - 32
    some = RANDOM.integers(last + 1, size=(4, 2)).tolist()
    corners = np.array([[0, 0], [0, last], [last, 0], [last, last], *some])
    batch = jax.jit(jax.vmap(lambda image, corner: framed(image, corner, side)))
    frames = batch(jnp.asarray(images), jnp.asarray(corners))
    assert frames.dtype == images.dtype
    for frame, image, (row, column) in zip(frames, images, corners, strict=True):
        padding = [(row, last - row), (column, last - column), (0, 0)]
        np.testing.assert_array_equal(frame, np.pad(image, padding, mode="edge"))


@pytest.mark.parametrize("side", [32, 64])
def test_a_random_corner_is_anywhere_the_image_fits(side):
    draw = jax.jit(jax.vmap(lambda key: random_corner(key, side)))
    drawn = np.asarray(draw(jax.random.split(jax.random.key(0), 20_000)))
    places = side - 32 + 1
    for axis in range(2):
        counts = np.bincount(drawn[:, axis], minlength=places)
        assert len(counts) == places
        expected = len(drawn) / places
        assert abs(counts - expected).max() <= 5 * np.sqrt(expected)
    if places > 1:
        assert abs(np.corrcoef(drawn.T)[0, 1]) < 0.03


@pytest.mark.parametrize("patch", PATCHES)
@pytest.mark.parametrize("side", [32, 48])
def test_patches_put_together_are_the_frame(side, patch):
    frame = RANDOM.integers(256, size=(side, side, 3), dtype=np.uint8)
    cut = np.asarray(patches(jnp.asarray(frame), patch))
    count = side // patch
    assert cut.shape == (count**2, patch * patch * 3)
    again = np.zeros_like(frame)
    for index, pixels in enumerate(cut):
        row, column = patch * (index // count), patch * (index % count)
        again[row : row + patch, column : column + patch] = pixels.reshape(patch, patch, 3)
    np.testing.assert_array_equal(again, frame)


@pytest.mark.parametrize(
    ("attempt", "line"),
    [
        (lambda: framed(IMAGE, ZERO, 64.0), "side: expected one of 32, 48, 64, 96, 128, got 64.0"),
        (lambda: jax.jit(lambda side: framed(IMAGE, ZERO, side))(64), "side: expected one of 32, 48"),
        (lambda: random_corner(jax.random.key(0), 0), "side: expected one of 32, 48, 64, 96, 128, got 0"),
        (lambda: patches(IMAGE, True), "patch: expected one of 4, 8, got True"),
        (lambda: patches(3, 8), "side: expected one of 32, 48, 64, 96, 128, got 0"),
        (lambda: patches(IMAGE[:, :24], 8), "image: expected the shape (32, 32, 3), got (32, 24, 3)"),
        (lambda: framed(IMAGE, jnp.zeros(3, int), 64), "corner: expected the shape (2,), got (3,)"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(attempt, line):
    with pytest.raises(InvalidInput) as refusal:
        attempt()
    assert str(refusal.value).startswith(line)
    assert "\n" not in str(refusal.value)

"""A small image somewhere in a larger frame, and a frame as a sequence of patches."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key, Num

from headcount.errors import InvalidInput
from headcount.validation import expected, is_integer

IMAGE = 32
SIDES = (32, 48, 64, 96, 128)
PATCHES = (4, 8)


def framed(
    image: Num[Array, "32 32 3"], corner: Int[Array, " 2"], side: int
) -> Num[Array, "{side} {side} 3"]:
    """frame[r, c] = image[r - corner_0, c - corner_1], each index clipped into the image.

    Outside the image this is the colour of its nearest border pixel. `side` is static; `corner`, the
    row and column of the image's top left, may be traced.

    >>> image = jnp.arange(32 * 32 * 3).reshape(32, 32, 3)
    >>> frame = framed(image, jnp.array([3, 16]), 48)
    >>> bool((frame[3:35, 16:] == image).all() and (frame[0, 16:] == image[0]).all())
    True
    """
    _one_of("side", side, SIDES)
    _shaped("image", image, (IMAGE, IMAGE, 3))
    _shaped("corner", corner, (2,))
    places = jnp.clip(jnp.arange(side) - jnp.asarray(corner)[:, None], 0, IMAGE - 1)
    return jnp.asarray(image).at[places[0][:, None], places[1]].get(mode="promise_in_bounds")


def random_corner(key: Key[Array, ""], side: int) -> Int[Array, " 2"]:
    """Uniform over the corners for which the whole image is inside the frame: 0 to side - 32, each way."""
    _one_of("side", side, SIDES)
    return jax.random.randint(key, (2,), 0, side - IMAGE + 1)


def patches(image: Num[Array, "side side 3"], patch: int) -> Num[Array, "count pixels"]:
    """Squares of patch x patch pixels, row by row; the pixels of each row by row, colours last.

    >>> patches(jnp.zeros((48, 48, 3)), 8).shape
    (36, 192)
    """
    _one_of("patch", patch, PATCHES)
    side = len(image) if jnp.ndim(image) else 0
    _one_of("side", side, SIDES)
    _shaped("image", image, (side, side, 3))
    grid = jnp.asarray(image).reshape(side // patch, patch, side // patch, patch, 3)
    return grid.swapaxes(1, 2).reshape(-1, patch * patch * 3)


def _one_of(name: str, value: object, allowed: tuple[int, ...]) -> None:
    if not is_integer(value) or value not in allowed:
        raise expected(name, f"one of {', '.join(map(str, allowed))}", value)


def _shaped(name: str, value: Num[Array, "..."], shape: tuple[int, ...]) -> None:
    if jnp.shape(value) != shape:
        raise InvalidInput(f"{name}: expected the shape {shape}, got {jnp.shape(value)}")

"""A sample as a person sees it: its text, its image, or its number."""

import base64
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from headcount.trained.batches import Batch, part_of, size_of

MAX_LENGTH = 600  # of a text
MAX_SIDE = 64  # of an image
CHANNELS = (1, 3)


def shown_sample(batches: Sequence[Batch], number: int) -> str:
    """The text of a sample, else its image as a data URI, else its number, counted over all batches."""
    place = number
    for batch in batches:
        size = size_of(batch)
        if place < size:
            (sample,) = _parts(part_of(batch, [place])) or [f"sample {number}"]
            return sample
        place -= size
    raise IndexError(number)


def _parts(batch: Batch) -> list[str]:
    """What there is to see of one sample, the best of it."""
    texts = [each[0] for each in _leaves(batch) if isinstance(each, list) and isinstance(each[0], str)]
    if texts:
        return [_shortened(texts[0])]
    inputs = batch[0] if isinstance(batch, tuple) else batch
    images = [_image(np.asarray(each[0].float().cpu())) for each in _leaves(inputs) if _is_image(each)]
    return images[:1]


def _leaves(batch: Any) -> list[Any]:
    parts = batch.values() if isinstance(batch, Mapping) else batch if isinstance(batch, tuple) else None
    return [batch] if parts is None else [leaf for part in parts for leaf in _leaves(part)]


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 1]}…"


def _is_image(part: Any) -> bool:
    """[sample, channel, row, column], with one channel or three."""
    return isinstance(part, Tensor) and part.dim() == 4 and part.shape[1] in CHANNELS


def _image(values: np.ndarray) -> str:
    """A small PNG; its darkest value is black and its brightest white, since scales differ."""
    step = max(1, -(-max(values.shape[1:]) // MAX_SIDE))
    values = values[:, ::step, ::step]
    low, high = values.min(), values.max()
    grey = np.round(255 * (values - low) / ((high - low) or 1)).astype(np.uint8)
    return f"data:image/png;base64,{base64.b64encode(png(grey.transpose(1, 2, 0))).decode()}"


def png(pixels: np.ndarray) -> bytes:
    r"""An image file of [row, column, channel] in bytes, with one channel or three.

    >>> png(np.zeros((1, 1, 3), np.uint8))[:4]
    b'\x89PNG'
    """
    rows, columns, channels = pixels.shape
    header = struct.pack(">IIBBBBB", columns, rows, 8, 0 if channels == 1 else 2, 0, 0, 0)
    # Every row begins with its filter: 0, none.
    lines = np.hstack([np.zeros((rows, 1), np.uint8), pixels.reshape(rows, -1)])
    chunks = (b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes())), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(map(_chunk, *zip(*chunks, strict=True)))


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

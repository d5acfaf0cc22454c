"""Texts as token ids, in one flat array."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Integer, UInt8


@dataclass(frozen=True, eq=False)
class Texts:
    """Texts one after another; text i is tokens[offsets[i]:offsets[i + 1]], without special tokens."""

    tokens: Integer[np.ndarray, " token"]
    offsets: Integer[np.ndarray, " text_and_end"]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, number: int) -> np.ndarray:
        return self.tokens[self.offsets[number] : self.offsets[number + 1]]

    def take(self, numbers: Iterable[int]) -> "Texts":
        """The texts with these numbers, in this order."""
        return texts_of([self[int(number)] for number in numbers])

    def first_alike(self) -> Integer[np.ndarray, " text"]:
        """For each text, the number of the first one with the same tokens.

        >>> texts_of([[5, 6], [7], [5, 6]]).first_alike().tolist()
        [0, 1, 0]
        """
        _, firsts, alike = np.unique(self.hashes(), axis=0, return_index=True, return_inverse=True)
        return firsts[alike.reshape(-1)]

    def hashes(self) -> UInt8[np.ndarray, "text 16"]:
        """16 bytes for each text: a hash of its tokens."""
        ids = self.tokens.astype("<i4")
        each = (ids[start:end].tobytes() for start, end in pairwise(self.offsets))
        hashed = b"".join(hashlib.blake2b(text, digest_size=16).digest() for text in each)
        return np.frombuffer(hashed, np.uint8).reshape(-1, 16)


def texts_of(sequences: Sequence[Sequence[int] | np.ndarray]) -> Texts:
    """Lists of token ids as texts.

    >>> texts = texts_of([[5, 6], [], [7]])
    >>> len(texts), texts[0].tolist(), texts[1].tolist()
    (3, [5, 6], [])
    """
    offsets = np.cumsum([0, *map(len, sequences)], dtype=np.int64)
    tokens = np.concatenate([np.zeros(0, np.int32), *(np.asarray(ids, np.int32) for ids in sequences)])
    return Texts(tokens, offsets)

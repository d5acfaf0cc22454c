"""Texts as token ids in one flat array, by the uncased WordPiece tokenizer of BERT."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from jaxtyping import Integer, UInt8

from headcount.data.msmarco.embeddings import SOURCE
from headcount.errors import InvalidInput
from headcount.extras import needed

UNKNOWN = "[UNK]"
MAX_WORD_LENGTH = 100


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


class WordPiece:
    """Text to token ids, without special tokens: lower-case words without accents, then their pieces.

    >>> WordPiece({"[UNK]": 0, "un": 1, "##able": 2, "!": 3, "cafe": 4}).ids("Unable! Café ☃")
    [1, 2, 3, 4, 0]
    """

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        library = needed("tokenizers", extra="real", purpose="WordPiece")
        model = library.models.WordPiece(
            dict(vocabulary), unk_token=UNKNOWN, max_input_chars_per_word=MAX_WORD_LENGTH
        )
        self._tokenizer = library.Tokenizer(model)
        self._tokenizer.normalizer = library.normalizers.BertNormalizer(lowercase=True, strip_accents=True)
        self._tokenizer.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()

    def ids(self, text: str) -> list[int]:
        """The ids of a text, word by word."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids


def wordpiece(path: Path | str) -> WordPiece:
    """The tokenizer of a vocab.txt, one piece per line; a piece's id is the number of its line."""
    path = Path(path)
    expected = f"expected the vocab.txt of BERT, uncased; {SOURCE}"
    try:
        pieces = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    except UnicodeDecodeError:
        raise InvalidInput(f"{path}: is not text in UTF-8; {expected}") from None
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read: {error.strerror or error}; {expected}") from None
    if UNKNOWN not in pieces:
        raise InvalidInput(f"{path}: has no {UNKNOWN}; {expected}")
    return WordPiece({piece.rstrip("\r"): number for number, piece in enumerate(pieces)})

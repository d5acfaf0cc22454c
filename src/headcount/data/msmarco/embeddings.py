"""Frozen embeddings: the vectors of a text before any attention."""

import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Integer
from scipy.sparse import csr_array

from headcount.errors import InvalidInput
from headcount.validation import check_integer

FILE = "bert_embeddings.npz"
SOURCE = "docs/real.md shows how to make it from a BERT checkpoint"
TABLES = {"word": 2, "position": 2, "segment": 2, "ln_weight": 1, "ln_bias": 1}
LAYER_NORM_EPSILON = 1e-12


@dataclass(frozen=True, eq=False)
class FrozenEmbeddings:
    """The word, position and segment tables of a trained model and its first layer norm; and their file."""

    word: Float[np.ndarray, "word width"]
    position: Float[np.ndarray, "position width"]
    segment: Float[np.ndarray, "segment width"]
    ln_weight: Float[np.ndarray, " width"]
    ln_bias: Float[np.ndarray, " width"]
    name: str = FILE

    @property
    def width(self) -> int:
        """Numbers in an embedding: 768 for BERT-base."""
        return self.word.shape[1]

    def pooled(
        self,
        tokens: Integer[np.ndarray, " token"],
        offsets: Integer[np.ndarray, " text_and_end"],
        segment: int,
        *,
        max_tokens: int = 128,
    ) -> Float[np.ndarray, "text width"]:
        """One vector for each text: the mean over its tokens of layer_norm(word + position + segment).

        Once the deviation of each sum is known, the mean is linear in the tables: no token needs a vector.
        Only the first `max_tokens` tokens of a text count; a text without tokens is all zeros.
        """
        try:
            check_integer("segment", segment, at_least=0, at_most=len(self.segment) - 1)
            check_integer("max_tokens", max_tokens, at_least=1, at_most=len(self.position))
        except InvalidInput as problem:
            raise _refused(self.name, str(problem)) from None
        self._check_known(tokens)
        lengths = np.diff(offsets).astype(np.int64)
        place = np.arange(len(tokens)) - offsets[:-1].repeat(lengths)
        read, place = tokens[place < max_tokens], place[place < max_tokens]
        lengths = np.minimum(lengths, max_tokens)
        ends = np.concatenate([[0], lengths.cumsum()])
        words = _centred(self.word)
        places = _centred(self.position[:max_tokens].astype(np.float32) + self.segment[segment])
        squares = np.square(words).sum(axis=1)[:, None] + np.square(places).sum(axis=1)
        variance = np.maximum(squares + 2 * words @ places.T, 0) / self.width
        weights = 1 / np.sqrt(variance[read, place] + LAYER_NORM_EPSILON)
        sums = _weighted(weights, read, ends, words) + _weighted(weights, place, ends, places)
        means = sums / np.maximum(lengths, 1)[:, None] * self.ln_weight + self.ln_bias
        return np.where(lengths[:, None] > 0, means, 0).astype(np.float32)

    def word_means(
        self, tokens: Integer[np.ndarray, " token"], offsets: Integer[np.ndarray, " text_and_end"]
    ) -> Float[np.ndarray, "text width"]:
        """One vector for each text: the mean of its words' vectors, in any order."""
        self._check_known(tokens)
        sums = _weighted(np.ones(len(tokens), np.float32), tokens, offsets, self.word.astype(np.float32))
        return sums / np.maximum(np.diff(offsets), 1).astype(np.float32)[:, None]

    def _check_known(self, tokens: np.ndarray) -> None:
        for token in (tokens.max(initial=0), tokens.min(initial=0)):
            if not 0 <= token < len(self.word):
                raise _refused(self.name, f"token {token} has no word vector; the table has {len(self.word)}")


def _refused(where: object, problem: str) -> InvalidInput:
    return InvalidInput(f"{where}: {problem}; {SOURCE}")


def _centred(table: np.ndarray) -> np.ndarray:
    table = table.astype(np.float32)
    return table - table.mean(axis=1, keepdims=True)


def _weighted(weights: np.ndarray, rows: np.ndarray, ends: np.ndarray, table: np.ndarray) -> np.ndarray:
    """For each text the sum of its tokens' rows of a table, each times its weight."""
    shape = (len(ends) - 1, len(table))
    return csr_array((weights, rows.astype(np.int64), ends.astype(np.int64)), shape=shape) @ table


def frozen_embeddings(folder: Path | str) -> FrozenEmbeddings:
    """The tables in `bert_embeddings.npz`: word, position, segment, ln_weight and ln_bias, of any width."""
    path = Path(folder) / FILE
    expected = f"expected the arrays {', '.join(TABLES)} of a BERT model"
    if not path.is_file():
        raise _refused(path, f"no such file; {expected}")
    try:
        if not zipfile.is_zipfile(path):
            raise ValueError
        with np.load(path, allow_pickle=False) as archive:
            parts = {name: archive[name] for name in TABLES if name in archive.files}
    except Exception:  # damaged archives raise many exception types
        raise _refused(path, f"is damaged, truncated or not an .npz; {expected}") from None
    for name, axes in TABLES.items():
        if name not in parts:
            raise _refused(path, f"has no {name!r}; {expected}")
        shape = parts[name].shape
        if len(shape) != axes or 0 in shape or shape[-1] != parts["word"].shape[-1]:
            raise _refused(path, f"{name} has the shape {shape}; {expected}, of one width >= 1")
        if not (parts[name].dtype.kind == "f" and np.isfinite(parts[name]).all()):
            raise _refused(path, f"{name} has values that are not finite numbers; {expected}")
    return FrozenEmbeddings(**parts, name=str(path))

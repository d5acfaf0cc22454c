"""Hard negatives: the passages that come nearest to a query without answering it."""

from collections.abc import Iterator
from typing import Literal

import numpy as np
from jaxtyping import Float, Integer

from headcount.data.msmarco.embeddings import FrozenEmbeddings
from headcount.data.msmarco.texts import Texts
from headcount.extras import needed

Negatives = Literal["bm25", "dense", "both"]

QUERIES_AT_ONCE = 256


def bm25_scores(queries: Texts, pool: Texts) -> Iterator[Float[np.ndarray, " passage"]]:
    """For each query, how well every passage of the pool matches it word by word ("local")."""
    bm25s = needed("bm25s", extra="real", purpose="BM25 over passages")
    words = 1 + int(max(queries.tokens.max(initial=0), pool.tokens.max(initial=0)))
    index = bm25s.BM25()
    vocabulary = {str(word): word for word in range(words)}
    index.index(([pool[place].tolist() for place in range(len(pool))], vocabulary), show_progress=False)
    for number in range(len(queries)):
        tokens = queries[number].tolist()
        yield index.get_scores(tokens) if tokens else np.zeros(len(pool), np.float32)


def dense_scores(
    queries: Texts, pool: Texts, embeddings: FrozenEmbeddings
) -> Iterator[Float[np.ndarray, " passage"]]:
    """For each query, the cosine of its mean word vector with that of every passage ("global")."""
    asked, passages = (_unit(embeddings.word_means(texts.tokens, texts.offsets)) for texts in (queries, pool))
    for start in range(0, len(asked), QUERIES_AT_ONCE):
        yield from asked[start : start + QUERIES_AT_ONCE] @ passages.T


def hardest(
    scores: Float[np.ndarray, " passage"],
    count: int,
    *,
    without: Integer[np.ndarray, " relevant"],
    among: Integer[np.ndarray, " listed"] | None = None,
) -> Integer[np.ndarray, " negative"]:
    """The places of the highest scores, the highest first; at most `count`, fewer where there are fewer.

    >>> hardest(np.array([3.0, 9.0, 5.0, 1.0]), 2, without=np.array([1])).tolist()
    [2, 0]
    """
    allowed = np.setdiff1d(np.arange(len(scores)) if among is None else among, without)
    values = scores[allowed]
    if count < len(allowed):
        chosen = np.argpartition(-values, count)[:count]
        allowed, values = allowed[chosen], values[chosen]
    return allowed[np.lexsort((allowed, -values))]


def alternating(
    one: Integer[np.ndarray, " passage"], other: Integer[np.ndarray, " passage"], count: int
) -> Integer[np.ndarray, " negative"]:
    """Half from each, in turn and without repeats; where one runs out, the rest comes from the other.

    >>> alternating(np.array([1, 2, 3]), np.array([2, 7, 8, 9]), 5).tolist()
    [1, 2, 7, 3, 8]
    """
    longest = max(len(one), len(other))
    turns = np.full((longest, 2), -1)
    turns[: len(one), 0], turns[: len(other), 1] = one, other
    mixed = [int(passage) for passage in dict.fromkeys(turns.reshape(-1).tolist()) if passage >= 0]
    return np.array(mixed[:count], np.int64)


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)

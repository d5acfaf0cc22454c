"""All tokens kept: a query and its candidates, word by word, as one sequence.

Heads then choose among words and not among candidates, and a step costs some 60 times as much as with one
token for each candidate (headcount.reproduce.real.pooled).
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from headcount.data.msmarco.embeddings import LAYER_NORM_EPSILON, FrozenEmbeddings
from headcount.data.msmarco.texts import Texts
from headcount.models.network import Parameter
from headcount.models.reranker import JoinedReranker, JoinedShape
from headcount.reproduce.real.ranking import PASSAGE, QUERY, EmbeddedRankings, ListSamples, RankingProblem

OF_QUERY = -1  # the owner of a query's tokens
ENDED = -1  # stands where a text has no more tokens


class Embedding(eqx.Module):
    """Frozen tables, on the device."""

    word: Float[Parameter, "word embedding"]
    position: Float[Parameter, "position embedding"]
    segment: Float[Parameter, "segment embedding"]
    gain: Float[Parameter, " embedding"]
    bias: Float[Parameter, " embedding"]

    @classmethod
    def of(cls, frozen: FrozenEmbeddings) -> "Embedding":
        """All of it, in float32."""
        parts = (frozen.word, frozen.position, frozen.segment, frozen.ln_weight, frozen.ln_bias)
        return cls(*(np.asarray(part, np.float32) for part in parts))

    def __call__(
        self, tokens: Int[Array, "*text place"], segment: int
    ) -> Float[Array, "*text place embedding"]:
        """layer_norm(word + position + segment) at every place."""
        places = jnp.asarray(self.position)[: tokens.shape[-1]] + jnp.asarray(self.segment)[segment]
        sums = jnp.asarray(self.word)[jnp.maximum(tokens, 0)] + places
        centred = sums - jnp.mean(sums, axis=-1, keepdims=True)
        variance = jnp.mean(centred**2, axis=-1, keepdims=True)
        return centred * jax.lax.rsqrt(variance + LAYER_NORM_EPSILON) * self.gain + self.bias


class Words(eqx.Module):
    """The frozen embedding, and the first tokens of every text."""

    embedding: Embedding
    queries: Int[Parameter, "query place"]
    passages: Int[Parameter, "passage place"]


class Around(eqx.Module):
    """What stands around the candidates' tokens: the query's, and which of all tokens are there."""

    query: Float[Array, "list place embedding"]
    there: Bool[Array, "list token"]


@dataclass(frozen=True)
class JoinedRanking(RankingProblem):
    """The query's tokens and those of T candidates."""

    shape: JoinedShape

    def start(self, seed: int) -> JoinedReranker:
        """A re-ranker at its random start."""
        return JoinedReranker.initialise(self.shape, seed)

    def texts(self, data: EmbeddedRankings) -> Words:
        """The tables, and the words."""
        return Words(
            Embedding.of(data.embeddings),
            first_tokens(data.rankings.queries, self.shape.query_tokens),
            first_tokens(data.rankings.passages, self.shape.passage_tokens),
        )

    def read(self, texts: Words, lists: ListSamples) -> tuple[Float[Array, "list token embedding"], Around]:
        """The vectors of the candidates' tokens, and what stands around them."""
        asked = jnp.asarray(texts.queries)[lists.query]
        passages = jnp.asarray(texts.passages)[lists.candidates]
        vectors = texts.embedding(passages, PASSAGE)
        there = jnp.concatenate([asked, passages.reshape(len(passages), -1)], axis=1) != ENDED
        around = Around(texts.embedding(asked, QUERY), there)
        return vectors.reshape(len(passages), -1, vectors.shape[-1]), around

    def scores(
        self,
        model: JoinedReranker,
        candidates: Float[Array, "list token embedding"],
        rest: Around,
        *,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "list candidate"]:
        """A score for each candidate."""
        tokens = jnp.concatenate([rest.query, candidates], axis=1)
        owners = jnp.repeat(jnp.arange(self.length), self.shape.passage_tokens)
        owner = jnp.concatenate([jnp.full(rest.query.shape[1], OF_QUERY), owners])
        owner = jnp.broadcast_to(owner, rest.there.shape)
        return model(tokens, rest.there, owner, candidates=self.length, key=key)


def first_tokens(texts: Texts, places: int) -> Int[np.ndarray, "text place"]:
    """The first tokens of each text.

    >>> from headcount.data.msmarco.texts import texts_of
    >>> first_tokens(texts_of([[5, 6, 7], [8]]), 2).tolist()
    [[5, 6], [8, -1]]
    """
    there = np.arange(places) < np.diff(texts.offsets)[:, None]
    at = np.where(there, texts.offsets[:-1, None] + np.arange(places), 0)
    return np.where(there, texts.tokens[at].astype(np.int32), ENDED)

"""Re-rankers: a query and its candidates attend to each other in one encoder; each candidate gets a score.

Tokens come from a frozen embedding. There are no positions, so the order of the candidates cannot matter.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from headcount.models.encoder import (
    AroundEncoder,
    Encoder,
    EncoderShape,
    Linear,
    at_least_float32,
    dropout,
    expect_shape,
    learnt_vectors,
    split_key,
)
from headcount.models.network import Parameter, uniform
from headcount.validation import check_integer, expected


@dataclass(frozen=True)
class RerankerShape(AroundEncoder):
    """Everything about a re-ranker that is not learnt.

    >>> RerankerShape(EncoderShape(heads=4, head_dim=32, layers=2, feedforward=512)).parameters()
    446336

    **Arguments:**

    - `encoder`: the shape of the encoder.
    - `embedding`: how many numbers the frozen embedding has.
    """

    encoder: EncoderShape
    embedding: int = 384

    def __post_init__(self) -> None:
        if not isinstance(self.encoder, EncoderShape):
            raise expected("encoder", "an EncoderShape", self.encoder)
        check_integer("embedding", self.embedding, at_least=1)

    @property
    def token_dim(self) -> int:
        """How many numbers an embedded token has."""
        return self.embedding

    def sequence(self, length: int) -> int:
        """One token each for the query and T candidates."""
        return 1 + length

    def parameters(self) -> int:
        """How many numbers are learnt."""
        width = self.encoder.width
        return (self.embedding + 1) * width + width + self.encoder.parameters() + width


@dataclass(frozen=True)
class JoinedShape(RerankerShape):
    """Every token kept, up to a number for the query and for each candidate; longer texts are cut."""

    query_tokens: int = 16
    passage_tokens: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("query_tokens", "passage_tokens"):
            check_integer(field, getattr(self, field), at_least=1)

    def sequence(self, length: int) -> int:
        """All tokens of the query and of T candidates."""
        return self.query_tokens + length * self.passage_tokens


class Scorer(eqx.Module):
    """The parameters of both re-rankers, with one token per candidate or many.

    A score has no bias: a softmax over the candidates ignores what is added to all of them.
    """

    projection: Linear
    query_mark: Float[Parameter, " width"]
    encoder: Encoder
    score: Float[Parameter, " width"]
    shape: RerankerShape = eqx.field(static=True)

    @classmethod
    def initialise(cls, shape: RerankerShape, seed: int) -> "Scorer":
        """Random initial parameters."""
        random, width = np.random.default_rng(seed), shape.encoder.width
        return cls(
            Linear.initialise(shape.embedding, width, random),
            learnt_vectors(random, (width,)),
            Encoder.initialise(shape.encoder, random),
            uniform(random, (width,), width),
            shape,
        )

    def embed(
        self,
        tokens: Float[Array, "batch token embedding"],
        of_query: Bool[Array, "#batch token"],
        *,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "batch token width"]:
        """The input of the encoder: projected tokens, plus a learnt mark on those of the query."""
        shape = self.shape.encoder
        with jax.default_matmul_precision(shape.precision):
            projected = at_least_float32(self.projection(shape.rounded(tokens)))
        marked = projected + jnp.where(of_query[..., None], self.query_mark, 0)
        return dropout(shape.rounded(marked), shape.dropout, key)

    def states(
        self,
        tokens: Float[Array, "batch token embedding"],
        of_query: Bool[Array, "#batch token"],
        *,
        mask: Bool[Array, "batch token"] | None = None,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "batch token width"]:
        """The last state of every token."""
        of_embedding, of_encoder = split_key(key, 2)
        return self.encoder(self.embed(tokens, of_query, key=of_embedding), mask=mask, key=of_encoder)

    def scores(self, states: Float[Array, "batch candidate width"]) -> Float[Array, "batch candidate"]:
        """A linear function of each candidate's state."""
        with jax.default_matmul_precision("float32"):
            return states @ jnp.asarray(self.score)


class Reranker(eqx.Module):
    """One token for the query and one for each candidate."""

    scorer: Scorer

    @classmethod
    def initialise(cls, shape: RerankerShape, seed: int) -> "Reranker":
        """A model at its random start: the same for the same seed on every machine."""
        return cls(Scorer.initialise(shape, seed))

    def __call__(
        self,
        query: Float[Array, "batch embedding"],
        candidates: Float[Array, "batch candidate embedding"],
        *,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "batch candidate"]:
        """A score for each candidate, before any softmax. Without a key nothing is dropped."""
        expect_shape("query", query, "batch", self.scorer.shape.embedding)
        expect_shape("candidates", candidates, query.shape[0], "candidate", self.scorer.shape.embedding)
        tokens = jnp.concatenate([query[:, None], candidates], axis=1)
        of_query = jnp.arange(tokens.shape[1])[None] == 0
        return self.scorer.scores(self.scorer.states(tokens, of_query, key=key)[:, 1:])


class JoinedReranker(eqx.Module):
    """All tokens of the query and of the candidates, joined into one sequence."""

    scorer: Scorer

    @classmethod
    def initialise(cls, shape: RerankerShape, seed: int) -> "JoinedReranker":
        """A model at its random start: the same for the same seed on every machine."""
        return cls(Scorer.initialise(shape, seed))

    def __call__(
        self,
        tokens: Float[Array, "batch token embedding"],
        mask: Bool[Array, "batch token"],
        owner: Int[Array, "batch token"],
        *,
        candidates: int,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "batch candidate"]:
        """A score for each candidate from the mean of its tokens' last states; without tokens, −∞.

        `mask` is False for padding, `owner` is the candidate that a token belongs to (−1: the query). Without
        a key nothing is dropped.
        """
        expect_shape("tokens", tokens, "batch", "token", self.scorer.shape.embedding)
        for name, array in (("mask", mask), ("owner", owner)):
            expect_shape(name, array, *tokens.shape[:2])
        check_integer("candidates", candidates, at_least=1)
        states = self.scorer.states(tokens, owner == -1, mask=mask, key=key)
        owns = (owner[:, None, :] == jnp.arange(candidates)[:, None]) & mask[:, None, :]
        count = jnp.sum(owns, axis=-1)
        with jax.default_matmul_precision("float32"):
            total = owns.astype(states.dtype) @ states
        scores = self.scorer.scores(total / jnp.maximum(count, 1)[..., None])
        return jnp.where(count > 0, scores, -jnp.inf)

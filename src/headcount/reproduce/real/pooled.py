"""A candidate is one token: the mean of its frozen token embeddings; so is the query.

The paper does not say how a query and its candidates form a sequence. Read so, heads have T + 1 tokens to
look at, as the paper's tables have T. With all tokens kept (reproduce/real/joined.py) a sequence is some
60 times as long, and T is no longer the number of things to choose among.
"""

from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from headcount.models.network import Parameter
from headcount.models.reranker import Reranker
from headcount.reproduce.real.ranking import EmbeddedRankings, ListSamples, RankingProblem


class Vectors(eqx.Module):
    """One for each query and each passage."""

    queries: Float[Parameter, "query embedding"]
    passages: Float[Parameter, "passage embedding"]


@dataclass(frozen=True)
class PooledRanking(RankingProblem):
    """Lists of T tokens, and a query."""

    def start(self, seed: int) -> Reranker:
        """A re-ranker at its random start."""
        return Reranker.initialise(self.shape, seed)

    def texts(self, data: EmbeddedRankings) -> Vectors:
        """The tables of vectors."""
        return Vectors(data.queries, data.passages)

    def read(
        self, texts: Vectors, lists: ListSamples
    ) -> tuple[Float[Array, "list candidate embedding"], Float[Array, "list embedding"]]:
        """The candidates' vectors, and the queries'."""
        return jnp.asarray(texts.passages)[lists.candidates], jnp.asarray(texts.queries)[lists.query]

    def scores(
        self,
        model: Reranker,
        candidates: Float[Array, "list candidate embedding"],
        rest: Float[Array, "list embedding"],
        *,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "list candidate"]:
        """A score for each candidate."""
        return model(rest, candidates, key=key)

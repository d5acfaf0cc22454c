"""MS MARCO re-ranking: what a re-ranker over frozen embeddings learns.

The paper does not say how a query and its candidates form a sequence. Here the query is one token and each
candidate is one: the mean of its frozen token embeddings. Heads then have T + 1 tokens to look at, as the
paper's tables have T; with all tokens kept, a sequence would be some 60 times as long, and T would no longer
be the number of things to choose among.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from headcount.models.network import Parameter
from headcount.models.reranker import Reranker, RerankerShape
from headcount.real.loaded import loaded
from headcount.tasks.rankings import Lists, Rankings

BLOCK, GLANCED, SALIENT_LISTS = 128, 1_024, 256


@dataclass(frozen=True, eq=False)
class EmbeddedRankings:
    """Rankings, and one frozen vector for each query and each passage."""

    rankings: Rankings
    queries: Float[np.ndarray, "query embedding"]
    passages: Float[np.ndarray, "passage embedding"]


class ListSamples(eqx.Module):
    """Lists as places in the tables of vectors; `label` is the place of the positive."""

    query: Int[Parameter, " list"]
    candidates: Int[Parameter, "list candidate"]
    label: Int[Parameter, " list"]


class RankingSamples(eqx.Module):
    """What members learn from, and what they are judged by."""

    queries: Float[Parameter, "query embedding"]
    passages: Float[Parameter, "passage embedding"]
    train: ListSamples
    validation: ListSamples


@dataclass(frozen=True)
class RankingProblem:
    """`fingerprint` says which rankings were loaded; the first queries of each split are used."""

    shape: RerankerShape
    fingerprint: str
    length: int
    train_queries: int
    validation_queries: int

    def start(self, seed: int) -> Reranker:
        """A re-ranker at its random start."""
        return Reranker.initialise(self.shape, seed)

    def samples(self) -> RankingSamples:
        """The tables of vectors, and the lists at T candidates."""
        data = loaded(self.fingerprint, EmbeddedRankings)
        at = data.rankings.at(self.length)
        return RankingSamples(
            data.queries,
            data.passages,
            _first(at.train, self.train_queries),
            _first(at.validation, self.validation_queries),
        )

    def loss(
        self, model: Reranker, samples: RankingSamples, key: PRNGKeyArray, batch_size: int
    ) -> Float[Array, ""]:
        """Cross entropy over the candidates of lists drawn with replacement."""
        draw, drop = jax.random.split(key)
        chosen = jax.random.randint(draw, (batch_size,), 0, len(samples.train.label))
        scores = _scored(model, samples, samples.train, chosen, key=drop)
        right = jnp.take_along_axis(jax.nn.log_softmax(scores), samples.train.label[chosen][:, None], axis=1)
        return -jnp.mean(right)

    def scores(self, model: Reranker, samples: RankingSamples) -> dict[str, Float[Array, ""]]:
        """Top-1 accuracy and mean reciprocal rank of the positive, over all lists of both splits."""
        found = {}
        for split, lists in (("train", samples.train), ("validation", samples.validation)):
            ranks = _ranks(model, samples, lists, len(lists.label))
            found[f"{split}_accuracy"] = jnp.mean(ranks == 1)
            found[f"{split}_mrr"] = jnp.mean(1 / ranks)
        return found

    def outputs(self, model: Reranker, samples: RankingSamples) -> Float[Array, "list candidate"]:
        """The scores of all candidates, for the first training lists."""
        first = jnp.arange(min(GLANCED, len(samples.train.label)))
        return jax.lax.map(
            lambda place: _scored(model, samples, samples.train, place[None])[0], first, batch_size=BLOCK
        )

    def salience(self, model: Reranker, samples: RankingSamples) -> Float[Array, "list candidate"]:
        """The norm of the gradient of the positive's score with respect to each candidate's vector."""
        lists = samples.train
        few = jnp.arange(min(SALIENT_LISTS, len(lists.label)))
        queries = jnp.asarray(samples.queries)[lists.query[few]]
        candidates = jnp.asarray(samples.passages)[lists.candidates[few]]

        def right(candidates: Array, query: Array, label: Array) -> Array:
            return model(query[None], candidates[None])[0, label]

        moved = jax.vmap(jax.grad(right))(candidates, queries, lists.label[few])
        return jnp.linalg.norm(moved, axis=-1)

    def glance(self, model: Reranker, samples: RankingSamples) -> Float[Array, ""]:
        """The training accuracy on the first lists."""
        return jnp.mean(_ranks(model, samples, samples.train, min(GLANCED, len(samples.train.label))) == 1)


def _first(lists: Lists, count: int) -> ListSamples:
    chosen = lists.take(np.arange(min(count, len(lists))))
    return ListSamples(
        *(np.asarray(part, np.int32) for part in (chosen.query, chosen.candidates, chosen.label))
    )


def _scored(
    model: Reranker,
    samples: RankingSamples,
    lists: ListSamples,
    chosen: Int[Array, " list"],
    *,
    key: PRNGKeyArray | None = None,
) -> Float[Array, "list candidate"]:
    query = jnp.asarray(samples.queries)[lists.query[chosen]]
    return model(query, jnp.asarray(samples.passages)[lists.candidates[chosen]], key=key)


def _ranks(model: Reranker, samples: RankingSamples, lists: ListSamples, count: int) -> Float[Array, " list"]:
    """The rank of the positive in each of the first lists; among equal scores it comes last."""
    places = jnp.minimum(jnp.arange(count + -count % BLOCK), count - 1).reshape(-1, BLOCK)

    def ranks(block: Int[Array, " list"]) -> Array:
        scores = _scored(model, samples, lists, block)
        own = jnp.take_along_axis(scores, jnp.asarray(lists.label)[block][:, None], axis=1)
        return jnp.sum(scores >= own, axis=1)

    return jax.lax.map(ranks, places).ravel()[:count].astype(jnp.float32)

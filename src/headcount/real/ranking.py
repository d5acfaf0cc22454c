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
from headcount.real.problem import Answers, loss_and_share_right, ranks
from headcount.tasks.rankings import Lists, Rankings

BLOCK, SALIENT_LISTS = 128, 256


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
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Cross entropy over the candidates of lists drawn with replacement."""
        draw, drop = jax.random.split(key)
        chosen = jax.random.randint(draw, (batch_size,), 0, len(samples.train.label))
        scores = _scored(model, samples, samples.train, chosen, key=drop)
        return loss_and_share_right(scores, samples.train.label[chosen])

    def answers(self, model: Reranker, samples: RankingSamples) -> dict[str, Float[Array, "list candidate"]]:
        """The scores of all candidates of all lists."""
        trained, count = len(samples.train.label), len(samples.train.label) + len(samples.validation.label)
        both = jax.tree.map(lambda *pair: jnp.concatenate(pair), samples.train, samples.validation)
        blocks = jnp.minimum(jnp.arange(count + -count % BLOCK), count - 1)
        found = jax.lax.map(
            lambda places: _scored(model, samples, both, places), blocks.reshape(-1, BLOCK)
        ).reshape(len(blocks), -1)
        return {"train": found[:trained], "validation": found[trained:count]}

    def measures(self, answers: Answers, samples: RankingSamples) -> dict[str, float]:
        """Top-1 accuracy and mean reciprocal rank of the positive, over all lists of both splits."""
        found = {}
        for split, lists in (("train", samples.train), ("validation", samples.validation)):
            places = ranks(np.asarray(answers[split]), np.asarray(lists.label))
            found[f"{split}_accuracy"] = float((places == 1).mean())
            found[f"{split}_mrr"] = float((1 / places).mean())
        return found

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

"""MS MARCO re-ranking: what a re-ranker over frozen embeddings learns, however texts become tokens."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from headcount.data.msmarco.embeddings import FrozenEmbeddings
from headcount.data.msmarco.rankings import Lists, Rankings
from headcount.models.network import Parameter
from headcount.models.reranker import RerankerShape
from headcount.reproduce.real.problem import Answers, Model, loss_and_share_right, ranks

BLOCK, SALIENT_LISTS = 128, 256
QUERY, PASSAGE = 0, 1  # segments of the frozen embedding


@dataclass(frozen=True, eq=False)
class EmbeddedRankings:
    """Rankings and frozen embeddings; with them, one vector for each query and each passage."""

    rankings: Rankings
    embeddings: FrozenEmbeddings
    queries: Float[np.ndarray, "query embedding"]
    passages: Float[np.ndarray, "passage embedding"]

    @classmethod
    def of(cls, rankings: Rankings, embeddings: FrozenEmbeddings) -> "EmbeddedRankings":
        """Every text is also the mean over its tokens."""
        queries, passages = (
            embeddings.pooled(texts.tokens, texts.offsets, segment)
            for texts, segment in ((rankings.queries, QUERY), (rankings.passages, PASSAGE))
        )
        return cls(rankings, embeddings, queries, passages)


class ListSamples(eqx.Module):
    """Lists as places in the tables of texts; `label` is the place of the positive."""

    query: Int[Parameter, " list"]
    candidates: Int[Parameter, "list candidate"]
    label: Int[Parameter, " list"]

    @classmethod
    def of(cls, lists: Lists, count: int) -> "ListSamples":
        """The first ones, as many as asked for."""
        chosen = lists.take(np.arange(min(count, len(lists))))
        return cls(*(np.asarray(part, np.int32) for part in (chosen.query, chosen.candidates, chosen.label)))

    def __getitem__(self, chosen: Int[Array, " chosen"]) -> "ListSamples":
        return jax.tree.map(lambda part: jnp.asarray(part)[chosen], self)


class RankingSamples(eqx.Module):
    """All texts, as their reader needs them, and the lists of both splits."""

    texts: Any
    train: ListSamples
    validation: ListSamples


@dataclass(frozen=True)
class RankingProblem(ABC):
    """Lists of `length` candidates; the first queries of each split are used.

    With `evenly` negatives are drawn at random from all instead of the hardest first.
    """

    shape: RerankerShape
    length: int
    train_queries: int
    validation_queries: int
    evenly: bool = False

    @abstractmethod
    def start(self, seed: int) -> Model:
        """A re-ranker at its random start."""

    @abstractmethod
    def texts(self, data: EmbeddedRankings) -> Any:
        """All texts, in arrays."""

    @abstractmethod
    def read(self, texts: Any, lists: ListSamples) -> tuple[Float[Array, "list token embedding"], Any]:
        """The vectors of all tokens of the candidates, one candidate after the other; and whatever else."""

    @abstractmethod
    def scores(
        self,
        model: Model,
        candidates: Float[Array, "list token embedding"],
        rest: Any,
        *,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "list candidate"]:
        """A score for each candidate."""

    def samples(self, data: EmbeddedRankings) -> RankingSamples:
        """All texts, and the lists at T candidates."""
        at = data.rankings.at(self.length, evenly=self.evenly)
        return RankingSamples(
            self.texts(data),
            ListSamples.of(at.train, self.train_queries),
            ListSamples.of(at.validation, self.validation_queries),
        )

    def loss(
        self, model: Model, samples: RankingSamples, key: PRNGKeyArray, batch_size: int
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Cross entropy over the candidates of lists drawn with replacement."""
        draw, drop = jax.random.split(key)
        lists = samples.train[jax.random.randint(draw, (batch_size,), 0, len(samples.train.label))]
        scores = self.scores(model, *self.read(samples.texts, lists), key=drop)
        return loss_and_share_right(scores, jnp.asarray(lists.label))

    def answers(self, model: Model, samples: RankingSamples) -> dict[str, Float[Array, "list candidate"]]:
        """The scores of all candidates of all lists."""
        trained, count = len(samples.train.label), len(samples.train.label) + len(samples.validation.label)
        both = jax.tree.map(lambda *pair: jnp.concatenate(pair), samples.train, samples.validation)
        blocks = jnp.minimum(jnp.arange(count + -count % BLOCK), count - 1)
        found = jax.lax.map(
            lambda places: self.scores(model, *self.read(samples.texts, both[places])),
            blocks.reshape(-1, BLOCK),
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

    def salience(self, model: Model, samples: RankingSamples) -> Float[Array, "list candidate"]:
        """The norm of the gradient of the positive's score with respect to each candidate's vectors."""
        lists = samples.train[jnp.arange(min(SALIENT_LISTS, len(samples.train.label)))]
        candidates, rest = self.read(samples.texts, lists)

        def right(candidates: Array, rest: Any, label: Array) -> Array:
            alone = jax.tree.map(lambda part: part[None], (candidates, rest))
            return self.scores(model, *alone)[0, label]

        moved = jax.vmap(jax.grad(right))(candidates, rest, lists.label)
        return jnp.linalg.norm(moved.reshape(len(moved), self.length, -1), axis=-1)

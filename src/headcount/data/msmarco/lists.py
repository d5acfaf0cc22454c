"""Lists of candidates from a collection: draw queries, divide passages, find hard negatives."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headcount.data.msmarco.draw import Numbered, drawn, passages_for, questions
from headcount.data.msmarco.embeddings import FrozenEmbeddings, frozen_embeddings
from headcount.data.msmarco.negatives import alternating, bm25_scores, dense_scores, hardest
from headcount.data.msmarco.pools import Question, parted
from headcount.data.msmarco.rankings import Lists, Rankings
from headcount.data.msmarco.source import Collection, Judged, Options, refused
from headcount.data.msmarco.texts import Texts
from headcount.data.msmarco.wordpiece import wordpiece

VOCABULARY = "vocab.txt"


def rankings_of(collection: Collection, tables: Path, options: Options) -> Rankings:
    """Lists from a collection; `tables` has the vocabulary and, for dense negatives, the word vectors."""
    tokenizer = wordpiece(tables / VOCABULARY)
    embeddings = None if options.negatives == "bm25" else frozen_embeddings(tables)
    splits = drawn(collection, options)
    from_runs_alone = embeddings is None and all(split.judged.run for split in splits)
    others = 0 if from_runs_alone else options.pool
    passages = passages_for(splits, collection, tokenizer, others=others, seed=options.seed)
    queries = Numbered(tokenizer)
    train, validation = (questions(split, queries, passages) for split in splits)
    texts = passages.texts()
    parts = parted(train, validation, len(texts), np.random.default_rng(options.seed))
    if not parts.train:
        found = f"each of its {len(train)} training queries has the words or an answer of a validation query"
        raise refused(splits[0].judged.where, found, "queries with words and answers of their own")
    search = _Search(queries.texts(), texts, embeddings, options)
    learnt = search.lists(parts.train, parts.train_pool, splits[0].judged)
    validated = search.lists(validation, parts.validation_pool, splits[1].judged)
    return Rankings(
        name=collection.where,
        passages=search.passages,
        queries=search.queries,
        train=learnt.take(np.arange(len(learnt)) < options.max_train),
        validation=validated.take(np.arange(len(validated)) < options.max_validation),
        left_out=len(train) + len(validation) - len(learnt) - len(validated),
    )


@dataclass(frozen=True, eq=False)
class _Search:
    """Hard negatives for questions, from the pool of their own split."""

    queries: Texts
    passages: Texts
    embeddings: FrozenEmbeddings | None
    options: Options

    def lists(self, asked: Sequence[Question], pool: np.ndarray, judged: Judged) -> Lists:
        """A list for every question that has enough negatives."""
        count = self.options.length - 1
        enough = asked if len(pool) > count else ()
        negatives = self._negatives(enough, pool, judged) if enough else ()
        full = [pair for pair in zip(enough, negatives, strict=True) if len(pair[1]) == count]
        if not full:
            where = judged.run.where if judged.run else judged.where
            found = f"none of {len(asked)} queries has {count} negatives in a pool of {len(pool)} passages"
            raise refused(where, found, "more passages, or a smaller length")
        return Lists(
            query=np.array([question.query for question, _ in full]),
            positive=np.array([question.relevant[0] for question, _ in full]),
            negatives=np.stack([found for _, found in full]),
            seed=self.options.seed,
        )

    def _negatives(self, asked: Sequence[Question], pool: np.ndarray, judged: Judged) -> Iterable[np.ndarray]:
        if self.options.negatives == "bm25":
            return self._by_words(asked, pool, judged)
        if self.options.negatives == "dense":
            return self._by_meaning(asked, pool)
        both = zip(self._by_words(asked, pool, judged), self._by_meaning(asked, pool), strict=True)
        return (alternating(words, meaning, self.options.length - 1) for words, meaning in both)

    def _by_words(self, asked: Sequence[Question], pool: np.ndarray, judged: Judged) -> Iterator[np.ndarray]:
        """As the run ranks them; by BM25 where it has no ranks, or where there is no run."""
        count = self.options.length - 1
        if judged.run and judged.run.ranked:
            for question in asked:
                usable = np.isin(question.listed, pool) & ~np.isin(question.listed, question.relevant)
                yield question.listed[usable][:count]
            return
        scores = bm25_scores(self._texts(asked), self.passages.take(pool))
        for question, values in zip(asked, scores, strict=True):
            among = _places(question.listed, pool) if judged.run else None
            yield pool[hardest(values, count, without=_places(question.relevant, pool), among=among)]

    def _by_meaning(self, asked: Sequence[Question], pool: np.ndarray) -> Iterator[np.ndarray]:
        assert self.embeddings is not None
        scores = dense_scores(self._texts(asked), self.passages.take(pool), self.embeddings)
        for question, values in zip(asked, scores, strict=True):
            without = _places(question.relevant, pool)
            yield pool[hardest(values, self.options.length - 1, without=without)]

    def _texts(self, asked: Sequence[Question]) -> Texts:
        return self.queries.take(question.query for question in asked)


def _places(passages: np.ndarray, pool: np.ndarray) -> np.ndarray:
    """The places of these passages in the sorted pool; those outside it are left out."""
    places = np.searchsorted(pool, passages)
    inside = places < len(pool)
    return places[inside][pool[places[inside]] == passages[inside]]

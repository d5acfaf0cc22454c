"""MS MARCO passage ranking: a query, one passage that answers it, and T - 1 that nearly do."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from headcount.data.msmarco import embeddings
from headcount.data.msmarco.draw import Numbered, Question, drawn, parted, passages_for, questions
from headcount.data.msmarco.files import official
from headcount.data.msmarco.hub import hub
from headcount.data.msmarco.negatives import alternating, bm25_scores, dense_scores, hardest
from headcount.data.msmarco.rankings import Lists, Rankings
from headcount.data.msmarco.source import Collection, Judged, Options, refused, unreadable
from headcount.data.msmarco.texts import Texts, wordpiece

HUB, VOCABULARY = "hub", "vocab.txt"


def load(path: Path | str, options: Options | None = None) -> Rankings:
    """Lists of candidates from a folder, or from the Hugging Face hub if the path is "hub".

    The folder holds the official `collection.tsv`, `queries.train.tsv`, `qrels.train.tsv` and, if there is
    one, a run such as `top1000.train.tsv`; with `validation="dev"` those of the development set too. Held-out
    queries may come in files of the same form, named `heldout`. Any file may be gzipped. A ranked run is read
    to twice as many passages per query as a list needs. `Path("hub")` is a folder if there is one of that
    name.
    """
    options = options or Options()
    folder = Path(path)
    try:
        if path == HUB or (folder == Path(HUB) and not folder.exists()):
            return _from_hub(options)
        return _from_folder(folder, options)
    except OSError as error:
        raise unreadable(folder, error) from None


def _from_hub(options: Options) -> Rankings:
    if options.tables is None:
        found = f"has no {VOCABULARY} and {embeddings.FILE}"
        where = f"a folder with both, given as --tables FOLDER or Options(tables=FOLDER); {embeddings.SOURCE}"
        raise refused(HUB, found, where)
    return _rankings(hub(options.validation), Path(options.tables), options)


def _from_folder(folder: Path, options: Options) -> Rankings:
    if not folder.is_dir():
        found = "is not a folder" if folder.exists() else "no such folder"
        raise refused(folder, found, "a folder with the official collection.tsv")
    collection = official(folder, options.validation)
    if options.validation == "heldout" and options.validation_queries is None and collection.validation:
        options = replace(options, validation_queries=len(collection.validation.relevant))
    return _rankings(collection, Path(options.tables or folder), options)


def _rankings(collection: Collection, tables: Path, options: Options) -> Rankings:
    """Lists from a collection; `tables` has the vocabulary and, for dense negatives, the word vectors."""
    tokenizer = wordpiece(tables / VOCABULARY)
    vectors = None if options.negatives == "bm25" else embeddings.frozen_embeddings(tables)
    splits = drawn(collection, options)
    from_runs_alone = vectors is None and all(split.judged.run for split in splits)
    others = 0 if from_runs_alone else options.pool
    passages = passages_for(splits, collection, tokenizer, others=others, seed=options.seed)
    queries = Numbered(tokenizer)
    train, validation = (questions(split, queries, passages) for split in splits)
    texts = passages.texts()
    kept, pool, other_pool = parted(train, validation, len(texts), np.random.default_rng(options.seed))
    if not kept:
        found = f"each of its {len(train)} training queries has the words or an answer of a validation query"
        raise refused(splits[0].judged.where, found, "queries with words and answers of their own")
    search = _Search(queries.texts(), texts, vectors, options)
    learnt = search.lists(kept, pool, splits[0].judged)
    validated = search.lists(validation, other_pool, splits[1].judged)
    return Rankings(
        name=collection.where,
        passages=search.passages,
        queries=search.queries,
        train=learnt.take(np.arange(len(learnt)) < options.train_queries),
        validation=validated.take(np.arange(len(validated)) < options.max_validation),
    )


@dataclass(frozen=True, eq=False)
class _Search:
    """Hard negatives for questions, from the pool of their own split."""

    queries: Texts
    passages: Texts
    vectors: embeddings.FrozenEmbeddings | None
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
            ahead=self._ahead([question for question, _ in full], pool, judged),
        )

    def _ahead(self, asked: Sequence[Question], pool: np.ndarray, judged: Judged) -> np.ndarray | None:
        """How many negatives of each question a ranked run has above its answer; None without such a run."""
        if self.options.negatives != "bm25" or not (judged.run and judged.run.ranked):
            return None
        found = []
        for question in asked:
            answer = np.flatnonzero(question.listed == question.relevant[0])
            above = question.listed[: answer[0] if len(answer) else None]
            found.append(np.isin(above, pool).sum() - np.isin(above, question.relevant).sum())
        return np.minimum(found, self.options.length - 1)

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
        yield from self._hardest(asked, pool, scores, listed=judged.run is not None)

    def _by_meaning(self, asked: Sequence[Question], pool: np.ndarray) -> Iterator[np.ndarray]:
        assert self.vectors is not None
        scores = dense_scores(self._texts(asked), self.passages.take(pool), self.vectors)
        return self._hardest(asked, pool, scores, listed=False)

    def _hardest(
        self, asked: Sequence[Question], pool: np.ndarray, scores: Iterable[np.ndarray], *, listed: bool
    ) -> Iterator[np.ndarray]:
        for question, values in zip(asked, scores, strict=True):
            among = _places(question.listed, pool) if listed else None
            without = _places(question.relevant, pool)
            yield pool[hardest(values, self.options.length - 1, without=without, among=among)]

    def _texts(self, asked: Sequence[Question]) -> Texts:
        return self.queries.take(question.query for question in asked)


def _places(passages: np.ndarray, pool: np.ndarray) -> np.ndarray:
    """The places of these passages in the sorted pool; those outside it are left out."""
    places = np.searchsorted(pool, passages)
    inside = places < len(pool)
    return places[inside][pool[places[inside]] == passages[inside]]

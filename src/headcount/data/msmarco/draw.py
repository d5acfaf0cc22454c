"""Queries drawn from a collection with every passage that they need; nothing of validation is in training."""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Integer

from headcount.data.msmarco.source import Collection, Judged, Options, refused
from headcount.data.msmarco.texts import Texts, WordPiece, texts_of

TRAIN, VALIDATION, FREE = 0, 1, -1  # sides that a passage may be on


@dataclass(frozen=True, eq=False)
class Question:
    """A query, the passages that answer it, the positive first, and those that a search found for it."""

    query: int
    relevant: Integer[np.ndarray, " relevant"]
    listed: Integer[np.ndarray, " listed"]


@dataclass(frozen=True)
class Drawn:
    """The queries of one split by name, and the passages that a search found for each."""

    judged: Judged
    names: list[str]
    found: dict[str, list[str]]

    def named(self) -> Iterator[tuple[str, str, str]]:
        """Every passage named for these queries: the file, the query, the passage."""
        for query in self.names:
            yield from ((self.judged.where, query, passage) for passage in self.judged.relevant[query])
            if self.judged.run:
                yield from ((self.judged.run.where, query, passage) for passage in self.found[query])


class Numbered(dict[str, int]):
    """The numbers of texts by name, counted as they come; texts with the same tokens have one number."""

    def __init__(self, tokenizer: WordPiece) -> None:
        self._tokenizer = tokenizer
        self._numbers: dict[tuple[int, ...], int] = {}

    def add(self, name: str, text: str) -> bool:
        """Number a text; false if the name already stood for another text."""
        tokens = tuple(self._tokenizer.ids(text))
        number = self._numbers.setdefault(tokens, len(self._numbers))
        before = self.get(name, number)
        self[name] = number
        return before == number

    def texts(self) -> Texts:
        """The texts in the order of their numbers."""
        return texts_of(list(self._numbers))


def drawn(collection: Collection, options: Options) -> tuple[Drawn, Drawn]:
    """Queries to learn from and to validate on, a tenth more than wanted: some will turn out unusable.

    They are drawn at random where there are more, and otherwise kept in the order of their file. Where
    training queries are held back but are too few for both sides, each side gets its share.
    """
    generator = np.random.default_rng(options.seed)
    wanted = [count + count // 10 for count in (options.train_queries, options.max_validation)]
    ours, judged = _usable(collection.train), collection.validation
    if judged is not None:
        ours = _sample(ours, wanted[0], generator)
        theirs = _sample(_usable(judged), wanted[1], generator)
    elif len(ours) < 2:
        expected = "two or more, to learn from one and validate on another"
        raise refused(collection.train.where, "has only one usable query", expected)
    else:
        mixed, judged = _shuffled(ours, generator), collection.train
        held = min(wanted[1], max(1, len(ours) * wanted[1] // sum(wanted)))
        theirs, ours = mixed[:held], mixed[held:][: wanted[0]]
    return _with_found(collection.train, ours, options), _with_found(judged, theirs, options)


def passages_for(
    splits: tuple[Drawn, Drawn], collection: Collection, tokenizer: WordPiece, *, others: int, seed: int
) -> Numbered:
    """Every passage that the queries name, and a random `others` of the rest, in one reading."""
    needed = {passage for split in splits for _, _, passage in split.named()}
    passages = Numbered(tokenizer)
    generator = random.Random(seed)
    sample: list[tuple[str, str]] = []
    count = seen = 0

    def add(name: str, text: str) -> None:
        if not passages.add(name, text):
            raise refused(collection.where, f"has passage {name} twice, with different texts", "each once")

    for name, text in collection.passages():
        count += 1
        if name in needed:
            add(name, text)
            continue
        seen += 1
        if len(sample) < others:
            sample.append((name, text))
        elif (place := generator.randrange(seen)) < others:
            sample[place] = (name, text)
    for name, text in sample:
        add(name, text)
    for split in splits:
        for where, query, passage in split.named():
            if passage not in passages:
                found = f"has {count} passages and lacks {passage}, which {where} names for query {query}"
                raise refused(collection.where, found, "a whole collection, with every passage that is named")
    return passages


def questions(split: Drawn, queries: Numbered, passages: Numbered) -> list[Question]:
    """The queries of a split by number, with the numbers of their passages.

    Where the same words are asked under two names, what answers one answers the other too.
    """

    def numbers(names: Iterable[str]) -> np.ndarray:
        return np.array(list(dict.fromkeys(passages[name] for name in names)), np.int64)

    relevant, answers = split.judged.relevant, dict[int, list[str]]()
    for name in split.names:
        queries.add(name, split.judged.texts[name])
        answers.setdefault(queries[name], []).extend(relevant[name])
    return [
        Question(
            queries[name], numbers([*relevant[name], *answers[queries[name]]]), numbers(split.found[name])
        )
        for name in split.names
    ]


def parted(
    train: Sequence[Question], validation: Sequence[Question], passages: int, random: np.random.Generator
) -> tuple[list[Question], Integer[np.ndarray, " train"], Integer[np.ndarray, " validation"]]:
    """The training questions to keep, and the passages that training and validation may use.

    Each passage goes to one side: answers first, then what was found for validation, then for training. A
    training question that validation asks too, or that shares an answer with it, is dropped. What is left
    over evens out the sizes of the pools as far as possible: then negatives are equally hard on both sides.
    """
    owner = np.full(passages, FREE)
    for question in validation:
        owner[question.relevant] = VALIDATION
    asked = {question.query for question in validation}
    kept = [
        question
        for question in train
        if question.query not in asked and not (owner[question.relevant] == VALIDATION).any()
    ]
    for question in kept:
        owner[question.relevant] = TRAIN
    for side, questions in ((VALIDATION, validation), (TRAIN, kept)):
        for question in questions:
            listed = question.listed
            owner[listed[owner[listed] == FREE]] = side
    left_over = random.permutation(np.flatnonzero(owner == FREE))
    to_train = int(np.clip(passages // 2 - (owner == TRAIN).sum(), 0, len(left_over)))
    owner[left_over[:to_train]], owner[left_over[to_train:]] = TRAIN, VALIDATION
    return kept, np.flatnonzero(owner == TRAIN), np.flatnonzero(owner == VALIDATION)


def _usable(judged: Judged) -> list[str]:
    """The queries that have words, an answer, and passages in the run where there is one."""
    names = [name for name in judged.relevant if judged.run is None or name in judged.run.queries]
    if not names and judged.run:
        raise refused(judged.run.where, f"has no query that {judged.where} has", "one or more")
    asked = [name for name in names if judged.texts[name].strip()]
    if not asked:
        raise refused(judged.where, f"names {len(names)} queries, all of them blank", "queries of words")
    return asked


def _shuffled(names: list[str], generator: np.random.Generator) -> list[str]:
    return [names[place] for place in generator.permutation(len(names))]


def _sample(names: list[str], count: int, generator: np.random.Generator) -> list[str]:
    return names if len(names) <= count else _shuffled(names, generator)[:count]


def _with_found(judged: Judged, names: list[str], options: Options) -> Drawn:
    found = judged.run.found(names, 2 * options.length) if judged.run else {name: [] for name in names}
    return Drawn(judged, names, found)

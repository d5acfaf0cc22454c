"""Ranking as a task: a query and T candidate passages, one of them right."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Integer

from headcount.data.msmarco.texts import Texts
from headcount.errors import InvalidInput
from headcount.validation import check_integer

DRAWN = 1  # beside the seed, for the draw of negatives


@dataclass(frozen=True, eq=False)
class Lists:
    """One list of candidates for each query, the hardest negatives first.

    A model reads `candidates` and `label`. Their order is drawn from the seed, so that places give away
    neither the positive nor the hard negatives. `ahead` says how many of a list's negatives the search that
    found them ranks above the positive, where that is known.

    >>> lists = Lists(np.array([0]), np.array([7]), np.array([[4, 5, 6]]))
    >>> sorted(lists.at(3).candidates[0].tolist()), lists.candidates[0, lists.label[0]].item()
    ([4, 5, 7], 7)
    """

    query: Integer[np.ndarray, " list"]
    positive: Integer[np.ndarray, " list"]
    negatives: Integer[np.ndarray, "list negative"]
    seed: int = 0
    ahead: Integer[np.ndarray, " list"] | None = None

    def __len__(self) -> int:
        return len(self.query)

    @property
    def length(self) -> int:
        """T: the positive and its negatives."""
        return 1 + self.negatives.shape[1]

    def at(self, length: int, *, evenly: bool = False) -> "Lists":
        """The positive and the T - 1 hardest negatives; or, `evenly`, T - 1 drawn at random from all.

        Drawn so, a negative is as hard at every T as at any other, and longer lists hold the shorter ones.

        >>> lists = Lists(np.array([0]), np.array([7]), np.array([[4, 5, 6]]), ahead=np.array([2]))
        >>> [round(lists.at(length).search_right, 2) for length in (2, 3, 4)]
        [0.0, 0.0, 0.33]
        """
        length = check_integer("length", length, at_least=2, at_most=self.length)
        places = np.tile(np.arange(self.length - 1), (len(self), 1))
        if evenly:
            places = np.random.default_rng([self.seed, DRAWN]).permuted(places, axis=1)
        places = np.sort(places[:, : length - 1], axis=1)
        ahead = None if self.ahead is None else (places < self.ahead[:, None]).sum(axis=1)
        return replace(self, negatives=np.take_along_axis(self.negatives, places, axis=1), ahead=ahead)

    @property
    def search_right(self) -> float | None:
        """The share of negatives that the search ranks below their list's positive, where it is known."""
        return None if self.ahead is None else 1 - float(self.ahead.mean()) / (self.length - 1)

    def take(self, rows: np.ndarray) -> "Lists":
        """Some of the lists, by index or by a boolean mask."""
        ahead = None if self.ahead is None else self.ahead[rows]
        return replace(
            self,
            query=self.query[rows],
            positive=self.positive[rows],
            negatives=self.negatives[rows],
            ahead=ahead,
        )

    @cached_property
    def passages(self) -> Integer[np.ndarray, "list candidate"]:
        """The positive first, then the negatives: for counting and checking, not for a model."""
        return np.concatenate([self.positive[:, None], self.negatives], axis=1)

    @cached_property
    def candidates(self) -> Integer[np.ndarray, "list candidate"]:
        """The passages in the order in which a model reads them."""
        return np.take_along_axis(self.passages, self._order, axis=1)

    @cached_property
    def label(self) -> Integer[np.ndarray, " list"]:
        """The place of the positive among the candidates."""
        return self._order.argmin(axis=1)

    @cached_property
    def _order(self) -> np.ndarray:
        random = np.random.default_rng([self.seed, self.length])
        return random.permuted(np.tile(np.arange(self.length), (len(self), 1)), axis=1)


@dataclass(frozen=True, eq=False)
class Rankings:
    """Lists to learn from and lists to validate on, which share no query and no passage."""

    name: str
    passages: Texts
    queries: Texts
    train: Lists
    validation: Lists

    def __post_init__(self) -> None:
        for split, lists in (("train", self.train), ("validation", self.validation)):
            if not len(lists):
                raise InvalidInput(f"{self.name}: {split} has no queries; expected one or more")
            for what, numbers, count in (
                ("query", lists.query, len(self.queries)),
                ("passage", lists.passages, len(self.passages)),
            ):
                wrong = numbers[(numbers < 0) | (numbers >= count)]
                if len(wrong):
                    raise InvalidInput(
                        f"{self.name}: {split} names {what} {wrong[0]}; expected 0 to {count - 1}"
                    )
        self._check_disjoint()

    def at(self, length: int, *, evenly: bool = False) -> "Rankings":
        """The same queries with T candidates each; negatives as `Lists.at` has them."""
        check_integer(f"{self.name}: length", length, at_least=2, at_most=self.train.length)
        train, validation = (lists.at(length, evenly=evenly) for lists in (self.train, self.validation))
        return replace(self, train=train, validation=validation)

    @property
    def content(self) -> tuple[np.ndarray, ...]:
        """What a model may read, however texts are numbered: hashed texts, and labels, of both splits."""
        queries, passages = self.queries.hashes(), self.passages.hashes()
        return tuple(
            part
            for lists in (self.train, self.validation)
            for part in (queries[lists.query], passages[lists.candidates], lists.label)
        )

    def _check_disjoint(self) -> None:
        """Refuse what would give answers away: texts in both splits, and negatives that equal their positive.

        Texts are compared by their tokens: the same words under another number are the same text.
        """
        asked, alike = self.queries.first_alike(), self.passages.first_alike()
        for what, train, validation in (
            ("query", asked[self.train.query], asked[self.validation.query]),
            ("passage", alike[self.train.passages], alike[self.validation.passages]),
        ):
            shared = np.intersect1d(train, validation)
            if len(shared):
                found = f"train and validation share {what} {shared[0]} ({len(shared)} in all)"
                raise InvalidInput(f"{self.name}: {found}; expected none")
        for split, lists in (("train", self.train), ("validation", self.validation)):
            twice = (alike[lists.negatives] == alike[lists.positive][:, None]).any(axis=1)
            if twice.any():
                found = (
                    f"{split} has a negative with the text of the positive for query {lists.query[twice][0]}"
                )
                raise InvalidInput(f"{self.name}: {found}; expected none")

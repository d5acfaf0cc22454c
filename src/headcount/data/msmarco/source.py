"""What any source of MS MARCO gives, and what a person may choose."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from headcount.data.msmarco.negatives import Negatives
from headcount.errors import InvalidInput
from headcount.validation import check_integer, shown

SITE = "https://microsoft.github.io/msmarco/"
TRAIN_QUERIES, VALIDATION_QUERIES = 28_000, 2_000  # the paper's

Validation = Literal["heldout", "dev"]


def refused(where: object, found: str, expected: str) -> InvalidInput:
    """One line: which file, what is wrong with it, what should be there, and where to get it."""
    return InvalidInput(f"{where}: {found}; expected is {expected}; the data are at {SITE}")


def unreadable(path: object, error: OSError) -> InvalidInput:
    """One line for a file that is there but gives nothing."""
    where = error.filename or path
    return refused(where, f"cannot be read: {error.strerror or error}", "a file that can be read")


@dataclass(frozen=True)
class Options:
    """What to make of the data.

    - `validation`: `heldout` keeps training queries back; `dev` takes the official development queries.
    - `train_queries`, `validation_queries`: at most so many. Without them the paper's 28,000 and 2,000, or
      all that a file of finished lists has.
    - `length`: candidates for each query, the largest T.
    - `negatives`: by words (`bm25`, or the run file where there is one), by meaning (`dense`), or `both`,
      half of each.
    - `pool`: how many passages to search beside those that the queries themselves name.
    - `tables`: the folder with `vocab.txt` and `bert_embeddings.npz`, if they are not with the data.
    """

    validation: Validation = "heldout"
    train_queries: int | None = None
    validation_queries: int | None = None
    length: int = 64
    negatives: Negatives = "bm25"
    pool: int = 200_000
    tables: Path | str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("validation", self.validation, get_args(Validation)),
            ("negatives", self.negatives, get_args(Negatives)),
        ):
            if value not in allowed:
                raise InvalidInput(f"{name} = {shown(value)}: allowed are {', '.join(allowed)}")
        for name, number in (
            ("train_queries", self.train_queries),
            ("validation_queries", self.validation_queries),
        ):
            if number is not None:
                check_integer(name, number, at_least=1)
        check_integer("length", self.length, at_least=2)
        check_integer("pool", self.pool, at_least=0)
        check_integer("seed", self.seed, at_least=0)

    @property
    def max_train(self) -> int:
        """How many training queries to make lists for."""
        return self.train_queries or TRAIN_QUERIES

    @property
    def max_validation(self) -> int:
        """How many validation queries to make lists for."""
        return self.validation_queries or VALIDATION_QUERIES


@dataclass(frozen=True)
class Run:
    """Passages that a search engine found for queries.

    - `found(queries, depth)`: for each of these queries its passages: the first `depth`, the best first, or
      all of them where the file does not say which is best.
    """

    where: str
    ranked: bool
    queries: frozenset[str]
    found: Callable[[Iterable[str], int], dict[str, list[str]]]


@dataclass(frozen=True)
class Judged:
    """Queries by their names, and the names of the passages that answer each."""

    where: str
    texts: Mapping[str, str]
    relevant: Mapping[str, list[str]]
    run: Run | None = None


@dataclass(frozen=True)
class Collection:
    """Every passage, by name and text, and the queries about them."""

    where: str
    passages: Callable[[], Iterator[tuple[str, str]]]
    train: Judged
    dev: Judged | None = None

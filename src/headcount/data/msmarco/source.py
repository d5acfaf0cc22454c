"""What every source of MS MARCO provides, and what a user may choose."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from headcount.data.msmarco.negatives import Negatives
from headcount.errors import InvalidInput
from headcount.validation import check_choice, check_integer

SITE = "https://microsoft.github.io/msmarco/"
TRAIN_QUERIES, VALIDATION_QUERIES = 28_000, 2_000  # the paper's

Validation = Literal["heldout", "dev"]


def refused(where: object, found: str, expected: str) -> InvalidInput:
    """One line: which file, what is wrong with it, what was expected, and where to get it."""
    return InvalidInput(f"{where}: {found}; expected {expected}; MS MARCO is at {SITE}")


def unreadable(path: object, error: OSError) -> InvalidInput:
    """One line for a file that exists but cannot be read."""
    where = error.filename or path
    return refused(where, f"cannot be read: {error.strerror or error}", "a readable file")


@dataclass(frozen=True)
class Options:
    """What to make of the data.

    - `validation`: `heldout` takes the queries of `queries.heldout.tsv` and, where there is no such file,
      keeps training queries back; `dev` takes the official development queries.
    - `train_queries`, `validation_queries`: at most this many; by default the paper's 28,000 and 2,000, or
      all of `queries.heldout.tsv`.
    - `length`: candidates per query, the largest T.
    - `negatives`: by words (`bm25`, or the run file where there is one), by meaning (`dense`), or `both`,
      half of each.
    - `pool`: how many passages to search besides those that the files name for the queries.
    - `tables`: the folder with `vocab.txt` and `bert_embeddings.npz`, if they are not with the data.
    """

    validation: Validation = "heldout"
    train_queries: int = TRAIN_QUERIES
    validation_queries: int | None = None
    length: int = 64
    negatives: Negatives = "bm25"
    pool: int = 200_000
    tables: Path | str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice("validation", self.validation, get_args(Validation))
        check_choice("negatives", self.negatives, get_args(Negatives))
        for name, smallest in {"train_queries": 1, "length": 2, "pool": 0, "seed": 0}.items():
            check_integer(name, getattr(self, name), at_least=smallest)
        if self.validation_queries is not None:
            check_integer("validation_queries", self.validation_queries, at_least=1)

    @property
    def max_validation(self) -> int:
        """How many validation queries to make lists for."""
        return self.validation_queries or VALIDATION_QUERIES


@dataclass(frozen=True)
class Run:
    """Passages that a search engine found for queries.

    - `found(queries, depth)`: the passages of each of these queries: the first `depth`, best first, or all of
      them where the run has no ranks.
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
    """Every passage, by name and text, and the queries about them.

    - `validation`: the queries to validate on; without them, training queries are held back.
    """

    where: str
    passages: Callable[[], Iterator[tuple[str, str]]]
    train: Judged
    validation: Judged | None = None

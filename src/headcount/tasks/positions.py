"""The positions a coordinate looks at: the sets S_i. Positions count from 0."""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from headcount.errors import InvalidInput
from headcount.validation import check_integer, expected, is_integer

Rule = Callable[[int], Iterable[int]]

RULES: dict[str, Rule] = {
    "all": lambda length: range(length),
    "first half": lambda length: range((length + 1) // 2),
    "second half": lambda length: range((length + 1) // 2, length),
    "even": lambda length: range(0, length, 2),
    "odd": lambda length: range(1, length, 2),
}
POSITIONS = f"one of {', '.join(RULES)}, or a list of indices"


@dataclass(frozen=True)
class Positions:
    """S = {t_1, ..., t_m}, a non-empty set of positions in a sequence of any length.

    Lengths are known before anything is compiled, so a set becomes plain indices: an extremum over
    them is exact, and a token outside affects neither a value nor a gradient.

    `rule` is a name ("all", "first half", "second half", "even", "odd"), the indices themselves, or a
    function from the length to the indices.

    >>> Positions("odd").indices(6)
    array([1, 3, 5])
    >>> Positions([2, 0]).mask(4)
    array([ True, False,  True, False])
    >>> Positions(lambda length: range(length - 2, length)).indices(9)
    array([7, 8])
    """

    rule: str | Iterable[int] | Rule = "all"

    def __post_init__(self) -> None:
        if isinstance(self.rule, str):
            if self.rule not in RULES:
                raise expected("positions", POSITIONS, self.rule)
        elif not callable(self.rule):
            # Sorted and frozen, equal sets become equal, hashable objects.
            object.__setattr__(self, "rule", _index_set(self.rule))

    def indices(self, length: int) -> Int[np.ndarray, " positions"]:
        """The positions in a sequence of this length, ascending."""
        length = check_integer("length", length, at_least=1)
        if isinstance(self.rule, str):
            rule: object = RULES[self.rule](length)
        else:
            rule = self.rule(length) if callable(self.rule) else self.rule
        chosen = _index_set(rule, where=f" at length {length}")
        if chosen[-1] >= length:
            raise expected("positions", f"indices from 0 to {length - 1} at length {length}", chosen[-1])
        return np.asarray(chosen)

    def mask(self, length: int) -> Bool[np.ndarray, " length"]:
        """True at the positions of the set."""
        inside = np.zeros(length, dtype=bool)
        inside[self.indices(length)] = True
        return inside


def position_sets(choice: object) -> tuple[Positions, ...]:
    """One position set per entry, or a single one to be shared by all coordinates.

    A list of integers is one set of indices; any other list holds one set per coordinate.

    >>> len(position_sets([0, 1, 2])), len(position_sets(["all", [0, 1], "even"]))
    (1, 3)
    """
    if isinstance(choice, list | tuple) and not all(is_integer(entry) for entry in choice):
        return tuple(_position_set(entry) for entry in choice)
    return (_position_set(choice),)


def _position_set(choice: object) -> Positions:
    return choice if isinstance(choice, Positions) else Positions(choice)  # type: ignore[arg-type]


def _index_set(indices: object, where: str = "") -> tuple[int, ...]:
    if not isinstance(indices, Iterable):
        raise expected("positions", POSITIONS, indices)
    chosen = sorted(check_integer("position", index, at_least=0) for index in indices)
    if not chosen:
        raise InvalidInput(f"positions: expected at least one{where}, got none")
    for earlier, later in itertools.pairwise(chosen):
        if earlier == later:
            raise InvalidInput(f"positions: expected each index once, got {later} twice")
    return tuple(chosen)

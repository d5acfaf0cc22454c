"""How large a density may be: refused before anything is computed, with the size that it would have."""

import itertools
import math

from headcount.errors import InvalidInput
from headcount.theory.density.polynomial import monomials
from headcount.theory.density.recovery import retrievals
from headcount.validation import check_integer

SHORTEST = 4
MAX_RETRIEVALS = 2_000
MAX_MONOMIALS = 5_000
_COUNTABLE_LENGTH = 200  # beyond, the number of sets has more digits than anyone reads


def check_size(*, length: int, token_dim: int, degree: int) -> None:
    """2 d C(T, m) ≤ 2,000 retrievals and C(Td + p, p) ≤ 5,000 monomials, or one line that says what fits.

    >>> check_size(length=8, token_dim=2, degree=4)
    >>> check_size(length=8, token_dim=2, degree=5)
    Traceback (most recent call last):
    headcount.errors.InvalidInput: degree = 5: allowed is 4 or less for 16 numbers; it would take \
20,349 monomials, and 5,000 are the limit
    """
    check_integer("length", length, at_least=SHORTEST)
    check_integer("token_dim", token_dim, at_least=1)
    check_integer("degree", degree, at_least=1)
    _check_token_dim(token_dim)
    _check_length(length, token_dim)
    _check_degree(degree, variables=length * token_dim)


def _check_token_dim(token_dim: int) -> None:
    count = retrievals(length=SHORTEST, token_dim=token_dim)
    if count > MAX_RETRIEVALS:
        most = MAX_RETRIEVALS // retrievals(length=SHORTEST, token_dim=1)
        raise InvalidInput(
            f"token_dim = {token_dim}: allowed is {most} or less; even length {SHORTEST} would take "
            f"{_counted(count)} retrievals, and {MAX_RETRIEVALS:,} are the limit"
        )


def _check_length(length: int, token_dim: int) -> None:
    longest = next(
        each
        for each in itertools.count(SHORTEST)
        if retrievals(length=each + 1, token_dim=token_dim) > MAX_RETRIEVALS
    )
    if length > longest:
        # C(T, T/4) ≥ (T / (T/4))^(T/4) = 2^(T/2)
        countable = length <= _COUNTABLE_LENGTH
        count = _counted(retrievals(length=length, token_dim=token_dim)) if countable else ""
        raise InvalidInput(
            f"length = {length}: allowed is {longest} or less at token_dim {token_dim}; it would take "
            f"{count or f'more than 2^{length // 2}'} retrievals, and {MAX_RETRIEVALS:,} are the limit"
        )


def _check_degree(degree: int, *, variables: int) -> None:
    count = monomials(variables=variables, degree=degree)
    if count > MAX_MONOMIALS:
        most = next(
            each
            for each in itertools.count(1)
            if monomials(variables=variables, degree=each + 1) > MAX_MONOMIALS
        )
        raise InvalidInput(
            f"degree = {degree}: allowed is {most} or less for {variables} numbers; it would take "
            f"{_counted(count)} monomials, and {MAX_MONOMIALS:,} are the limit"
        )


def _counted(count: int) -> str:
    return f"{count:,}" if count < 10**9 else f"about 1e{math.log10(count):.0f}"

"""How large a density may be: refused before anything is computed, with the size that it would have."""

import itertools
import math

from headcount.errors import InvalidInput
from headcount.theory.density.polynomial import monomials
from headcount.theory.density.recovery import retrievals
from headcount.validation import check_integer

MIN_LENGTH = 4
MAX_RETRIEVALS = 2_000
MAX_MONOMIALS = 5_000
_COUNTABLE_LENGTH = 200  # beyond, the number of sets has more digits than anyone reads


def check_size(*, length: int, token_dim: int, degree: int) -> None:
    """2 d C(T, m) ≤ 2,000 retrievals and C(Td + p, p) ≤ 5,000 monomials, or an error that names what fits.

    >>> check_size(length=8, token_dim=2, degree=4)
    >>> check_size(length=8, token_dim=2, degree=5)
    Traceback (most recent call last):
    headcount.errors.InvalidInput: degree: expected an integer <= 4 for 16 numbers, got 5, which needs \
20,349 monomials; the limit is 5,000
    """
    check_integer("length", length, at_least=MIN_LENGTH)
    check_integer("token_dim", token_dim, at_least=1)
    check_integer("degree", degree, at_least=1)
    _check_token_dim(token_dim)
    _check_length(length, token_dim)
    _check_degree(degree, variables=length * token_dim)


def _check_token_dim(token_dim: int) -> None:
    count = retrievals(length=MIN_LENGTH, token_dim=token_dim)
    if count > MAX_RETRIEVALS:
        max_token_dim = MAX_RETRIEVALS // retrievals(length=MIN_LENGTH, token_dim=1)
        raise InvalidInput(
            f"token_dim: expected an integer <= {max_token_dim}, got {token_dim}, which needs "
            f"{_counted(count)} retrievals even at length {MIN_LENGTH}; the limit is {MAX_RETRIEVALS:,}"
        )


def _check_length(length: int, token_dim: int) -> None:
    max_length = next(
        each
        for each in itertools.count(MIN_LENGTH)
        if retrievals(length=each + 1, token_dim=token_dim) > MAX_RETRIEVALS
    )
    if length > max_length:
        # C(T, T/4) ≥ (T / (T/4))^(T/4) = 2^(T/2)
        countable = length <= _COUNTABLE_LENGTH
        count = _counted(retrievals(length=length, token_dim=token_dim)) if countable else ""
        raise InvalidInput(
            f"length: expected an integer <= {max_length} at token_dim {token_dim}, got {length}, which "
            f"needs {count or f'more than 2^{length // 2}'} retrievals; the limit is {MAX_RETRIEVALS:,}"
        )


def _check_degree(degree: int, *, variables: int) -> None:
    count = monomials(variables=variables, degree=degree)
    if count > MAX_MONOMIALS:
        max_degree = next(
            each
            for each in itertools.count(1)
            if monomials(variables=variables, degree=each + 1) > MAX_MONOMIALS
        )
        raise InvalidInput(
            f"degree: expected an integer <= {max_degree} for {variables} numbers, got {degree}, which needs "
            f"{_counted(count)} monomials; the limit is {MAX_MONOMIALS:,}"
        )


def _counted(count: int) -> str:
    return f"{count:,}" if count < 10**9 else f"about 1e{math.log10(count):.0f}"

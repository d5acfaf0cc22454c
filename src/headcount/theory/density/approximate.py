"""Theorem 1 as software: any continuous target of a short sequence, as a retrieval target close to it.

The D extrema over all sets of a quarter of the positions give back the sequence, smoothly and up to
log(C(T, m) + 1) / λ; a polynomial of the sequence then follows the target. The proof is in
docs/theory/density.md.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import jax
import jax.numpy as jnp

from headcount.errors import InvalidInput
from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.density.departure import (
    Flat,
    PolynomialOff,
    Sequences,
    Target,
    TaskOff,
    recovery_off,
    retrieval_task,
    starts,
    task_off,
)
from headcount.theory.density.limits import check_size
from headcount.theory.density.minimax import fit
from headcount.theory.density.polynomial import Polynomial
from headcount.theory.density.recovery import Recovery, retrievals
from headcount.theory.search import Highest, highest
from headcount.validation import check_integer, check_number

BLUNTEST, SHARPEST = 1e-3, 1e9


@dataclass(frozen=True, eq=False)
class Density:
    """F_0(zbar(x)) ≈ target(x) on [0,1]^{T×d}: F_0 recovers x from its D retrievals and applies a polynomial.

    |F_0(zbar(x)) − target(x)| ≤ sup |polynomial − target| + the most that the target changes when every
    entry of x moves by at most `recovery_bound`. The first falls with the degree, the second with the
    sharpness.
    """

    target: Target
    recovery: Recovery
    polynomial: Polynomial
    seed: int

    @cached_property
    def task(self) -> RetrievalTask:
        """The retrieval target, for everything in this package that takes a task."""
        return retrieval_task(self.recovery, self.polynomial)

    @property
    def dimension(self) -> int:
        """D, the number of retrievals."""
        return retrievals(length=self.recovery.length, token_dim=self.recovery.token_dim)

    @property
    def monomials(self) -> int:
        """The number of monomials in the polynomial."""
        return len(self.polynomial.basis.pairs[0])

    @property
    def guarantees(self) -> tuple[str, ...]:
        """What the theorem rests on, and what was not checked."""
        return (
            "continuity of the target: taken as given; where it jumps, no degree brings the error down",
            "recovery: proven for every sequence, no assumption needed",
            "no rate is promised: the theorem says that the error falls, not how fast",
        )

    @property
    def recovery_bound(self) -> float:
        """No entry of the sequence that F_0 recovers is further than this from the true one: proved."""
        return self.recovery.bound

    def sharpened(self, sharpness: float) -> "Density":
        """The same polynomial behind another sharpness."""
        return replace(self, recovery=replace(self.recovery, sharpness=_sharpness(sharpness)))

    def recovery_error(self) -> float:
        """The largest |recovered − x| that is found; up to rounding it cannot exceed `recovery_bound`."""
        return highest(recovery_off, self._starts, self.recovery.sharpness).value

    def polynomial_error(self) -> float:
        """The largest |polynomial − target| that is found: what is left however sharp the recovery."""
        off = PolynomialOff(self.target, self.polynomial.basis)
        return highest(off, self._starts, self.polynomial.coefficients).value

    def measured_error(self) -> float:
        """The largest |task.target − target| over [0,1]^{T×d} that ascents from many starts find."""
        return self.worst.value

    @cached_property
    def worst(self) -> Highest:
        """Where the task is furthest from the target, and how far."""
        off = TaskOff(self.target, self.polynomial.basis)
        parameters = (self.polynomial.coefficients, self.recovery.sharpness)
        point = highest(off, self._starts, *parameters).point
        with jax.enable_x64(True):
            return Highest(float(task_off(off, point, *parameters)), point)

    @cached_property
    def _starts(self) -> Sequences:
        # Another seed than the fit's: points that it has seen would flatter it.
        return starts(length=self.recovery.length, token_dim=self.recovery.token_dim, seed=self.seed + 1)


def approximate_target(
    target: Target,
    *,
    token_dim: int,
    length: int = 8,
    sharpness: float = 1_000.0,
    degree: int = 4,
    seed: int = 0,
) -> Density:
    """A retrieval target near `target`, a JAX function of an array (length, token_dim) to a number.

    >>> density = approximate_target(lambda x: x[0, 0] * x[3, 0], token_dim=1, length=4, degree=2)
    >>> density.dimension, density.monomials, density.measured_error() < 2.1 * density.recovery_bound
    (8, 15, True)
    """
    check_size(length=length, token_dim=token_dim, degree=degree)
    recovery = Recovery(length, token_dim, _sharpness(sharpness))
    check_integer("seed", seed, at_least=0)
    target = _hashable(target)
    _check_scalar(target, length=length, token_dim=token_dim)
    flat = Flat(target, length, token_dim)
    polynomial = fit(flat, variables=length * token_dim, degree=degree, seed=seed)
    return Density(target, recovery, polynomial, seed)


def _hashable(target: Target) -> Target:
    """A program is kept for each target, and found again by it; a model with arrays in it has no hash."""
    try:
        hash(target)
    except TypeError:
        return lambda x: target(x)
    return target


def _check_scalar(target: Target, *, length: int, token_dim: int) -> None:
    where = f"an array of shape ({length}, {token_dim})"
    try:
        with jax.enable_x64(True):
            found = jax.eval_shape(target, jnp.zeros((length, token_dim)))
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        if isinstance(error, InvalidInput):
            raise
        reason = str(error).partition("\n")[0]
        raise InvalidInput(f"target cannot be applied to {where}: {reason}") from error
    shape, dtype = getattr(found, "shape", "unknown"), getattr(found, "dtype", "unknown")
    if shape != () or jnp.issubdtype(dtype, jnp.complexfloating):
        raise InvalidInput(
            f"target: expected one real number for {where}, got the shape {shape} and type {dtype}"
        )


def _sharpness(value: float) -> float:
    return check_number("sharpness", value, at_least=BLUNTEST, at_most=SHARPEST)

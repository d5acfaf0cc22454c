"""Theorem 1 as software: any continuous target of a short sequence, as a retrieval target close to it.

The D extrema over all sets of a quarter of the positions give back the sequence, smoothly and up to
log(C(T, m) + 1) / λ; a polynomial of the sequence then follows the target. The proof is in
docs/theory/density.md.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from headcount.errors import InvalidInput
from headcount.tasks.precision import check_precision
from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.density.minimax import Basis, Polynomial, fit, monomials, spread
from headcount.theory.density.recovery import Recovery, retrievals
from headcount.theory.search import Highest, highest
from headcount.validation import check_integer, check_number

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
    at_least = retrievals(length=MIN_LENGTH, token_dim=token_dim)
    if at_least > MAX_RETRIEVALS:
        max_token_dim = MAX_RETRIEVALS // retrievals(length=MIN_LENGTH, token_dim=1)
        raise InvalidInput(
            f"token_dim: expected an integer <= {max_token_dim}, got {token_dim}, which needs "
            f"{_counted(at_least)} retrievals even at length {MIN_LENGTH}; the limit is {MAX_RETRIEVALS:,}"
        )
    _check_length(length, token_dim)
    _check_degree(degree, variables=length * token_dim)


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


Sequence = Float[Array, "length token_dim"]
Sequences = Float[np.ndarray, "count length token_dim"]
Target = Callable[[Sequence], Float[Array, ""]]
Coefficients = Float[np.ndarray, "left right"]

LOOKS = 4_000  # random sequences: no largest error is below that of any of them
_MAX_CORNERS, _ANYWHERE = 256, 96


@dataclass(frozen=True)
class Flat:
    """f as a function of T·d numbers in a row."""

    target: Target
    length: int
    token_dim: int

    def __call__(self, u: Float[Array, " numbers"]) -> Float[Array, ""]:
        """f(u), in the precision of u."""
        return jnp.asarray(self.target(u.reshape(self.length, self.token_dim)), u.dtype)


@dataclass(frozen=True)
class PolynomialOff:
    """|q(x) − f(x)|."""

    target: Target
    basis: Basis

    def __call__(self, x: Sequence, coefficients: Coefficients) -> Float[Array, ""]:
        """At x, for the polynomial q with these coefficients."""
        return jnp.abs(self.basis.sum(coefficients, x.ravel()) - self.target(x))


@dataclass(frozen=True)
class TaskOff:
    """|q(recovered x) − f(x)|: all retrievals at once, as one by one they take minutes to compile."""

    target: Target
    basis: Basis

    def __call__(self, x: Sequence, coefficients: Coefficients, sharpness: float) -> Float[Array, ""]:
        """At x, for the polynomial q with these coefficients behind this sharpness."""
        return jnp.abs(self.basis.sum(coefficients, _recovered(x, sharpness).ravel()) - self.target(x))


@partial(jax.jit, static_argnums=0)
def task_off(off: TaskOff, x: Sequence, coefficients: Coefficients, sharpness: float) -> Float[Array, ""]:
    """The same by the task itself, as a result should be: one point, and no gradient."""
    length, token_dim = x.shape
    task = retrieval_task(Recovery(length, token_dim, sharpness), Polynomial(off.basis, coefficients))
    return jnp.abs(task.target(x)[0] - off.target(x))


def retrieval_task(recovery: Recovery, polynomial: Polynomial) -> RetrievalTask:
    """F_0 = q ∘ recovery, of the extrema that the recovery needs."""
    return RetrievalTask(
        name="density",
        token_dim=recovery.token_dim,
        coordinate_functions=recovery.coordinate_functions,
        positions=recovery.positions,
        extrema=recovery.extrema,
        outer=lambda z: polynomial(recovery(z).ravel()),
    )


def recovery_off(x: Sequence, sharpness: float) -> Float[Array, ""]:
    """The largest |recovered x − x| of all entries."""
    return jnp.max(jnp.abs(_recovered(x, sharpness) - x))


def _recovered(x: Sequence, sharpness: float) -> Sequence:
    length, token_dim = x.shape
    recovery = Recovery(length, token_dim, sharpness)
    return recovery(recovery.extrema_of(x))


def starts(*, length: int, token_dim: int, seed: int) -> Sequences:
    """Where to climb from: anywhere, corners, all tokens equal, sorted, and one token apart from the rest.

    Retrievals are least certain where entries tie, and polynomials near the faces.
    """
    random = np.random.default_rng(seed)
    shape = (length, token_dim)
    variables = length * token_dim
    corners = (
        np.indices((2,) * variables).reshape(variables, -1).T
        if 2**variables <= _MAX_CORNERS
        else random.integers(0, 2, (_MAX_CORNERS, variables))
    )
    anywhere = random.uniform(size=(_ANYWHERE, *shape))
    near_faces = spread(random, _ANYWHERE, variables).reshape(-1, *shape)
    ties = np.broadcast_to(random.uniform(size=(16, 1, token_dim)), (16, *shape))
    ordered = np.sort(random.uniform(size=(16, *shape)), axis=1)
    apart = np.broadcast_to(np.eye(length)[:, :, None], (length, *shape))
    return np.concatenate(
        [
            *(ties, ordered, ordered[:, ::-1], apart, 1 - apart),
            corners.reshape(-1, *shape).astype(np.float64),
            *(anywhere, near_faces),
        ]
    )


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
        return highest(recovery_off, self._starts, self.recovery.sharpness, looks=self._looks).value

    def polynomial_error(self) -> float:
        """The largest |polynomial − target| that is found: what is left however sharp the recovery."""
        off = PolynomialOff(self.target, self.polynomial.basis)
        return highest(off, self._starts, self.polynomial.coefficients, looks=self._looks).value

    def measured_error(self) -> float:
        """The largest |task.target − target| over [0,1]^{T×d} that ascents find: from structured sequences,
        and from the worst of `LOOKS` random ones.
        """
        return self.worst.value

    @cached_property
    def worst(self) -> Highest:
        """Where the task is furthest from the target, and how far."""
        off = TaskOff(self.target, self.polynomial.basis)
        parameters = (self.polynomial.coefficients, self.recovery.sharpness)
        point = highest(off, self._starts, *parameters, looks=self._looks).point
        with jax.enable_x64(True):
            return Highest(float(task_off(off, point, *parameters)), point)

    @cached_property
    def _starts(self) -> Sequences:
        # Another seed than the fit's: points that it has seen would flatter it.
        return starts(length=self.recovery.length, token_dim=self.recovery.token_dim, seed=self.seed + 1)

    @cached_property
    def _looks(self) -> Sequences:
        shape = (LOOKS, self.recovery.length, self.recovery.token_dim)
        return np.random.default_rng(self.seed + 2).uniform(size=shape)


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
    check_precision("target", target, (length, token_dim))
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

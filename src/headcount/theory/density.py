"""Theorem 1 as software: any continuous target of a short sequence, as a retrieval target close to it.

The D extrema over all sets of a quarter of the positions give back the sequence, smoothly and up to
log(C(T, m) + 1) / λ; a polynomial of the sequence then follows the target. The proof is in
docs/theory/density.md.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from headcount.errors import InvalidInput
from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.ascent import Highest, highest
from headcount.theory.minimax import fit, spread
from headcount.theory.polynomial import Polynomial, monomials
from headcount.theory.recovery import Recovery, retrievals
from headcount.validation import finite_number, whole_number

Target = Callable[[Float[Array, "length token_dim"]], Float[Array, ""]]
Sequences = Float[np.ndarray, "count length token_dim"]

SHORTEST = 4
MOST_RETRIEVALS = 2_000
MOST_MONOMIALS = 5_000
BLUNTEST, SHARPEST = 1e-3, 1e9
_COUNTABLE_LENGTH = 200  # beyond, the number of sets has more digits than anyone reads
_MOST_CORNERS, _CLOUD = 256, 2048


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
        recovery, polynomial = self.recovery, self.polynomial
        return RetrievalTask(
            name="density",
            token_dim=recovery.token_dim,
            coordinate_functions=recovery.coordinate_functions,
            positions=recovery.positions,
            extrema=recovery.extrema,
            outer=lambda z: polynomial(recovery(z).ravel()),
        )

    @property
    def dimension(self) -> int:
        """D, the number of retrievals."""
        return retrievals(length=self.recovery.length, token_dim=self.recovery.token_dim)

    @property
    def monomials(self) -> int:
        """The number of monomials in the polynomial."""
        return len(self.polynomial.basis.pairs[0])

    @property
    def recovery_bound(self) -> float:
        """No entry of the sequence that F_0 recovers is further than this from the true one: proved."""
        return self.recovery.bound

    def sharpened(self, sharpness: float) -> "Density":
        """The same polynomial behind another sharpness."""
        return replace(self, recovery=replace(self.recovery, sharpness=_sharpness(sharpness)))

    def recovery_error(self) -> float:
        """The largest |recovered − x| that is found; it cannot exceed `recovery_bound`."""

        def off(x: Float[Array, "length token_dim"]) -> Float[Array, ""]:
            return jnp.max(jnp.abs(self.recovery(self.recovery.extrema_of(x)) - x))

        return highest(off, self._starts).value

    def polynomial_error(self) -> float:
        """The largest |polynomial − target| that is found: what is left however sharp the recovery."""
        return highest(lambda x: jnp.abs(self.polynomial(x.ravel()) - self.target(x)), self._starts).value

    def measured_error(self) -> float:
        """The largest |task.target − target| over [0,1]^{T×d} that ascents from many starts find."""
        return self.worst.value

    @cached_property
    def worst(self) -> Highest:
        """Where the task is furthest from the target, and how far."""

        def off(x: Float[Array, "length token_dim"]) -> Float[Array, ""]:
            # What the task does, with all retrievals at once: one by one they take minutes to compile.
            recovered = self.recovery(self.recovery.extrema_of(x))
            return jnp.abs(self.polynomial(recovered.ravel()) - self.target(x))

        point = highest(off, self._starts).point
        with jax.enable_x64(True):
            x = jnp.asarray(point)
            return Highest(float(jnp.abs(self.task.target(x)[0] - self.target(x))), point)

    @cached_property
    def _starts(self) -> Sequences:
        # Another seed than the fit's: points that it has seen would flatter it.
        return starts(length=self.recovery.length, token_dim=self.recovery.token_dim, seed=self.seed + 1)


def dense(
    target: Target,
    *,
    token_dim: int,
    length: int = 8,
    sharpness: float = 1_000.0,
    degree: int = 4,
    seed: int = 0,
) -> Density:
    """A retrieval target near `target`, a JAX function of an array (length, token_dim) to a number.

    >>> density = dense(lambda x: x[0, 0] * x[3, 0], token_dim=1, length=4, degree=2)
    >>> density.dimension, density.monomials, density.measured_error() < 2.1 * density.recovery_bound
    (8, 15, True)
    """
    check_size(length=length, token_dim=token_dim, degree=degree)
    recovery = Recovery(length, token_dim, _sharpness(sharpness))
    whole_number("seed", seed, at_least=0)
    _check_scalar(target, length=length, token_dim=token_dim)

    def flat(u: Float[Array, " numbers"]) -> Float[Array, ""]:
        return jnp.asarray(target(u.reshape(length, token_dim)), u.dtype)

    polynomial = fit(flat, variables=length * token_dim, degree=degree, seed=seed)
    return Density(target, recovery, polynomial, seed)


def check_size(*, length: int, token_dim: int, degree: int) -> None:
    """Refuse what is not possible or would be too large, before anything is computed."""
    whole_number("length", length, at_least=SHORTEST)
    whole_number("token_dim", token_dim, at_least=1)
    whole_number("degree", degree, at_least=1)
    limit = f"{MOST_RETRIEVALS:,} retrievals are the limit"
    if retrievals(length=SHORTEST, token_dim=token_dim) > MOST_RETRIEVALS:
        most = MOST_RETRIEVALS // retrievals(length=SHORTEST, token_dim=1)
        raise InvalidInput(
            f"token_dim = {token_dim}: allowed is {most} or less; length {SHORTEST} would take "
            f"{_counted(retrievals(length=SHORTEST, token_dim=token_dim))}, and {limit}"
        )
    longest = SHORTEST
    while retrievals(length=longest + 1, token_dim=token_dim) <= MOST_RETRIEVALS:
        longest += 1
    if length > longest:
        takes = (
            _counted(retrievals(length=length, token_dim=token_dim))
            if length <= _COUNTABLE_LENGTH
            else f"more than 2^{length // 2}"
        )
        raise InvalidInput(
            f"length = {length}: allowed is {longest} or less at token_dim {token_dim}; "
            f"it would take {takes}, and {limit}"
        )
    variables = length * token_dim
    size = monomials(variables=variables, degree=degree)
    if size > MOST_MONOMIALS:
        most = 1
        while monomials(variables=variables, degree=most + 1) <= MOST_MONOMIALS:
            most += 1
        raise InvalidInput(
            f"degree = {degree}: allowed is {most} or less for {variables} numbers; "
            f"it would take {_counted(size)} monomials, and {MOST_MONOMIALS:,} are the limit"
        )


def starts(*, length: int, token_dim: int, seed: int) -> Sequences:
    """Where to climb from: anywhere, corners, all tokens equal, sorted, and one token apart from the rest.

    Retrievals are least certain where entries tie, and polynomials near the faces.
    """
    random = np.random.default_rng(seed)
    shape = (length, token_dim)
    variables = length * token_dim
    corners = (
        np.indices((2,) * variables).reshape(variables, -1).T
        if 2**variables <= _MOST_CORNERS
        else random.integers(0, 2, (_MOST_CORNERS, variables))
    )
    anywhere = random.uniform(size=(_CLOUD, *shape))
    near_faces = spread(random, _CLOUD, variables).reshape(-1, *shape)
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


def _check_scalar(target: Target, *, length: int, token_dim: int) -> None:
    where = f"an array of shape ({length}, {token_dim})"
    try:
        found = jax.eval_shape(target, jnp.zeros((length, token_dim)))
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        if isinstance(error, InvalidInput):
            raise
        reason = str(error).partition("\n")[0]
        raise InvalidInput(f"target cannot be applied to {where}: {reason}") from error
    shape, dtype = getattr(found, "shape", None), getattr(found, "dtype", None)
    if shape != () or dtype is None or jnp.issubdtype(dtype, jnp.complexfloating):
        raise InvalidInput(f"target gives {found} for {where}: allowed is one real number")


def _sharpness(value: float) -> float:
    return finite_number("sharpness", value, at_least=BLUNTEST, at_most=SHARPEST)


def _counted(count: int) -> str:
    return f"{count:,}" if count < 10**9 else f"about 1e{math.log10(count):.0f}"

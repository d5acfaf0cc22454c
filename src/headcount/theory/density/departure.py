"""How far a retrieval target is from what it stands for, and where on the cube to look for the worst.

What is compiled is a frozen object: equal ones, as for another sharpness or seed, share one program.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.density.minimax import spread
from headcount.theory.density.polynomial import Basis, Polynomial
from headcount.theory.density.recovery import Recovery

Sequence = Float[Array, "length token_dim"]
Sequences = Float[np.ndarray, "count length token_dim"]
Target = Callable[[Sequence], Float[Array, ""]]
Coefficients = Float[np.ndarray, "left right"]

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

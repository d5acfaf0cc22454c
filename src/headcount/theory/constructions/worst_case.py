"""The input at which a model is furthest from its target, by many ascents in float64."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from headcount.models.transformer import Transformer
from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.search import climbs, minima

_FEATURES = 1 << 25


@dataclass(frozen=True, eq=False)
class WorstCase:
    """The largest |model − target| that was found, and the sequence it was found at."""

    error: float
    x: Float[np.ndarray, "length token_dim"]
    starts: int

    def __float__(self) -> float:
        return self.error


def worst_case(
    model: Transformer, task: RetrievalTask, length: int, *, starts: int, steps: int, seed: int
) -> WorstCase:
    """Max |model(x) − target(x)| over x in [0,1]^(T×d), a lower estimate.

    Signed gradient steps inside the cube, each ascent with a step size of its own from the cube's edge down
    to the reach of the softmax, 1/β. Of every ascent the best point counts, not the last.
    """
    with jax.enable_x64(True):
        begin = jnp.asarray(starting_points(task, length, starts, model.architecture.beta, seed))
        smallest = min(1e-2, 1 / model.architecture.beta)
        order = np.random.default_rng(seed).permutation(starts)
        sizes = np.geomspace(0.1, smallest, starts)[order, None] * (1 - np.linspace(0, 1, steps + 1))
        errors, points = (np.asarray(part) for part in _ascend(model, task, begin, jnp.asarray(sizes)))
    worst = int(np.argmax(errors))
    return WorstCase(float(errors[worst]), points[worst], starts)


def starting_points(
    task: RetrievalTask, length: int, starts: int, beta: float, seed: int
) -> Float[np.ndarray, "start length token_dim"]:
    """Sequences of five kinds in turn, four of them where an attention has the hardest time.

    Anywhere; corners of the cube; one token repeated, so that all positions tie; one token repeated but
    moved about by a random amount between 1/β, where a softmax no longer tells tokens apart, and 1; and
    on one S_i the token that its head likes least, off it the one that it likes most.
    """
    random = np.random.default_rng(seed)
    shape = (starts, length, task.token_dim)
    anywhere = random.uniform(size=shape)
    repeated = np.broadcast_to(random.uniform(size=(starts, 1, task.token_dim)), shape)
    reach = np.exp(random.uniform(-np.log(max(beta, 10.0)), 0, size=(starts, 1, 1)))
    moved = np.clip(repeated + reach * random.normal(size=shape), 0, 1)
    kinds = np.stack([anywhere, anywhere.round(), repeated, moved, _against_the_gates(task, shape, seed)])
    return kinds[np.arange(starts) % 5, np.arange(starts)]


def _against_the_gates(
    task: RetrievalTask, shape: tuple[int, int, int], seed: int
) -> Float[np.ndarray, "start length token_dim"]:
    """On S_i the least liked, off it the most liked; then a mixture off it; then only the one or the other.

    Every fifth start takes the next coordinate, and when all had their turn the next of these. The mixture
    is there for the case that the errors of two heads cancel.
    """
    sign = np.where(np.array(task.extrema) == "min", 1.0, -1.0)

    def least_and_most(token: Float[Array, " token_dim"]) -> Float[Array, " twice_dimension"]:
        values = sign * jnp.stack([function(token) for function in task.coordinate_functions])
        return jnp.concatenate([-values, values])

    found = np.stack([low.point for low in minima(least_and_most, inputs=task.token_dim, seed=seed)])
    least, most = np.split(found, 2)
    turn, coordinate = np.divmod(np.arange(shape[0]) // 5, task.dimension)
    inside = np.stack([positions.mask(shape[1]) for positions in task.positions])[coordinate]
    mixture = np.random.default_rng(seed).uniform(size=inside.shape) < 0.5
    nowhere = np.zeros_like(inside)
    liked = np.stack([~inside, ~inside & mixture, nowhere, ~nowhere])[turn % 4, np.arange(shape[0])]
    return np.where(liked[..., None], most[coordinate, None], least[coordinate, None])


@eqx.filter_jit
def _ascend(
    model: Transformer,
    task: RetrievalTask,
    begin: Float[Array, "start length token_dim"],
    sizes: Float[Array, "start step"],
) -> tuple[Float[Array, " start"], Float[Array, "start length token_dim"]]:
    def error(x: Float[Array, "length token_dim"]) -> Float[Array, ""]:
        found = jnp.max(jnp.abs(model(x) - task.target(x)))
        return jnp.where(jnp.isnan(found), jnp.inf, found)  # NaN is as wrong as can be

    return climbs(error, begin, sizes, direction=jnp.sign, batch_size=_at_once(model, begin))


def _at_once(model: Transformer, begin: Float[Array, "start length token_dim"]) -> int:
    """As many ascents as keep the features of all their tokens within the memory of any laptop."""
    architecture = model.architecture
    widest = max(*architecture.encoder_sizes, *architecture.readout_sizes)
    return max(1, min(len(begin), _FEATURES // (begin.shape[1] * widest)))

"""The one search over the unit cube: projected gradient ascent from many starts, in float64.

What it finds is evidence, not a proof: a peak narrower than the gaps between the starts can be missed.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

Function = Callable[..., Float[Array, ""]]
VectorFunction = Callable[[Float[Array, " inputs"]], Float[Array, " outputs"]]
BatchFunction = Callable[..., Float[Array, " points"]]
Direction = Callable[[Float[Array, "..."]], Float[Array, "..."]]
Point = Float[np.ndarray, " inputs"]
Points = Float[np.ndarray, "points inputs"]

HEADROOM = 1.1  # a largest value that was found, not proven, counts for this much more
_CLOUD = 1 << 14
_LEADERS, _LEADER_STEPS = 256, 400
_MAX_CORNERS = 4096
_ROWS = 1 << 11  # of a cloud at a time, so that the features of wide networks stay small
_SIZES = np.geomspace(0.2, 1e-5, 200)  # of the cube's edge
_DESCENT_CLOUD, _DESCENTS = 2048, 16
_DESCENT_SIZES = np.geomspace(0.2, 1e-12, 600)
_LOOKED_UP_FROM = 64
_HUGE = 1e100  # stands for infinity, and can still be squared
_AS_LOW = 1e-7  # of the spread of the values: kinks stop a descent this early
_APART = 1e-2  # of the cube's edge: two descents into one flat well may end this far from each other


@dataclass(frozen=True, eq=False)
class Highest:
    """max_{x in cube} f(x) as found: the supremum is at least this, and here is where."""

    value: float
    point: Float[np.ndarray, "..."]


@dataclass(frozen=True)
class Minimum:
    """min_{x in [0,1]^d} f(x) as found: the point, the value, and the furthest other point as low."""

    point: Point
    value: float
    rival: Point | None
    all_finite: bool


def cloud(inputs: int, seed: int, count: int = _CLOUD) -> Points:
    """Random points of the cube, the same with some entries on its faces, a grid, and the corners."""
    random = np.random.default_rng(seed)
    scattered = random.uniform(size=(count, inputs))
    edges = np.where(random.uniform(size=scattered.shape) < 0.3, scattered.round(), scattered)
    side = max(2, int(count ** (1 / inputs)))
    grid = itertools.islice(itertools.product(np.linspace(0, 1, side), repeat=inputs), count)
    corners = itertools.islice(itertools.product((0.0, 1.0), repeat=inputs), _MAX_CORNERS)
    return np.concatenate([scattered, edges, np.asarray(list(grid)), np.asarray(list(corners))])


def steepest(slope: Float[Array, "..."]) -> Float[Array, "..."]:
    """∇f / max|∇f|: a kink or a slope of any size is climbed alike."""
    return slope / jnp.maximum(jnp.max(jnp.abs(slope)), jnp.finfo(slope.dtype).tiny)


def climbs(
    function: Function,
    starts: Float[Array, "starts ..."],
    sizes: Float[Array | np.ndarray, "*starts steps"],
    *,
    direction: Direction = steepest,
    batch_size: int | None = None,
) -> tuple[Float[Array, " starts"], Float[Array, "starts ..."]]:
    """(x ← clip(x + η direction(∇f)) with η from `sizes`): the best value of each path, and where.

    The sizes are those of all starts or, row by row, of each. The best point of a path is kept, not its last;
    NaN is never the best. With a `batch_size` only this many starts climb at the same time.
    """
    each = jnp.broadcast_to(jnp.asarray(sizes), (len(starts), np.shape(sizes)[-1]))

    def climb(start: Array, sizes: Array) -> tuple[Array, Array]:
        return _climb(function, direction, start, sizes)

    if batch_size is None:
        return jax.vmap(climb)(starts, each)
    return jax.lax.map(lambda pair: climb(*pair), (starts, each), batch_size=batch_size)


def _climb(
    function: Function, direction: Direction, start: Float[Array, "..."], sizes: Float[Array, " steps"]
) -> tuple[Float[Array, ""], Float[Array, "..."]]:
    def step(path: tuple[Array, Array, Array], size: Array) -> tuple[tuple[Array, Array, Array], None]:
        point, best, best_point = path
        value, slope = jax.value_and_grad(function)(point)
        better = value > best
        moved = jnp.clip(point + size * direction(jnp.nan_to_num(slope)), 0, 1)
        return (moved, jnp.where(better, value, best), jnp.where(better, point, best_point)), None

    (_, best, best_point), _ = jax.lax.scan(step, (start, jnp.asarray(-jnp.inf, start.dtype), start), sizes)
    return best, best_point


def highest(
    function: Function,
    starts: Float[np.ndarray, "starts ..."],
    *parameters: float | np.ndarray,
    looks: Float[np.ndarray, "looks ..."] | None = None,
) -> Highest:
    """The best of the climbs from all starts on function(x, *parameters). Equal functions compile once.

    `looks` are further points, of which the highest are climbed from: the value is never below any of them.

    >>> highest(lambda x, centre: -jnp.sum(jnp.abs(x - centre)), np.zeros((1, 2)), 0.25).point.round(3)
    array([0.25, 0.25])
    """
    with jax.enable_x64(True):
        seen, seen_at = np.zeros(0), starts[:0]
        if looks is not None:
            values = np.asarray(_values_with(function, looks, *parameters))
            leaders = np.argsort(np.nan_to_num(values, nan=-np.inf))[-_LOOKED_UP_FROM:]
            seen, seen_at = values[leaders], looks[leaders]
        begin, sizes = np.concatenate([starts, seen_at]), np.tile(_SIZES, (len(starts), 1))
        if looks is not None:  # steps no longer than the gaps between them: a narrow peak is not left again
            gap = 0.3 * len(looks) ** (-1 / looks[0].size)
            sizes = np.concatenate([sizes, np.tile(_SIZES * gap / _SIZES[0], (len(seen), 1))])
        values, points = map(np.asarray, _climbs_with(function, begin, sizes, *parameters))
        values, points = np.concatenate([values, seen]), np.concatenate([points, seen_at])
        top = int(np.argmax(values))
        return Highest(float(values[top]), points[top])


@partial(jax.jit, static_argnums=0)
def _values_with(function: Function, points: Array, *parameters: Array) -> Array:
    return jax.lax.map(lambda x: function(x, *parameters), points, batch_size=_ROWS // 8)


@partial(jax.jit, static_argnums=0)
def _climbs_with(function: Function, starts: Array, sizes: Array, *parameters: Array) -> tuple[Array, Array]:
    return climbs(lambda x: function(x, *parameters), starts, sizes)


def largest(heights: BatchFunction, *, inputs: int, seed: int = 0) -> float:
    """Max heights(x) over [0,1]^inputs: of a cloud of points, and of the climbs from its highest ones.

    `heights` maps points to numbers, row by row, and is a JAX function.

    >>> round(largest(lambda x: 1 - ((x - 0.3) ** 2).sum(axis=1), inputs=2), 6)
    1.0
    """
    points = cloud(inputs, seed)
    gap = 0.3 * _CLOUD ** (-1 / inputs)
    sizes = np.geomspace(gap, 1e-5 * gap, _LEADER_STEPS)
    with jax.enable_x64(True):
        slices = np.array_split(points, -(-len(points) // _ROWS))
        values = np.concatenate([np.asarray(heights(jnp.asarray(part))) for part in slices])
        leaders = points[np.argsort(values)[-_LEADERS:]]
        climbed, _ = jax.jit(partial(climbs, lambda x: heights(x[None])[0]))(leaders, sizes)
        return float(max(np.max(values), np.max(np.asarray(climbed))))


def looked_at(inputs: int) -> int:
    """At how many points `largest` looks: those of the cloud, and of its climbs."""
    return len(cloud(inputs, 0)) + _LEADERS * _LEADER_STEPS


def minima(
    function: VectorFunction, *, inputs: int, seed: int, count: int = _DESCENT_CLOUD
) -> tuple[Minimum, ...]:
    """The global minimum of each output on [0,1]^inputs, by descents from the lowest points of a cloud.

    As many descents start from other points, to find minimisers that are not unique. A well that none of the
    points lies in is not seen; `count` says how many there are.

    >>> (lowest,) = minima(lambda x: jnp.sum((x - 0.25) ** 2)[None], inputs=2, seed=0)
    >>> lowest.point.round(3), lowest.rival
    (array([0.25, 0.25]), None)
    """
    points = cloud(inputs, seed, count)
    with jax.enable_x64(True):
        values = np.asarray(jax.jit(jax.vmap(function))(points))
        lowest_first = np.argsort(values, axis=0)[: _DESCENTS // 2]
        starts = np.stack(
            [points[np.concatenate([lowest, np.arange(_DESCENTS // 2)])] for lowest in lowest_first.T]
        )

        def descents(output: Array, starts: Array) -> tuple[Array, Array]:
            return climbs(lambda x: -function(x)[output], starts, _DESCENT_SIZES)

        heights, ends = jax.jit(jax.vmap(descents))(np.arange(len(starts)), starts)
    found = zip(-np.asarray(heights), np.asarray(ends), values.T, strict=True)
    return tuple(_lowest(*output) for output in found)


def _lowest(
    depths: Float[np.ndarray, " descents"], ends: Points, seen: Float[np.ndarray, " points"]
) -> Minimum:
    depths = np.clip(depths, -_HUGE, _HUGE)
    best = int(np.argmin(depths))
    spread = float(np.ptp(np.clip(np.nan_to_num(seen, nan=_HUGE), -_HUGE, _HUGE)))
    as_low = depths <= depths[best] + _AS_LOW * spread
    distances = np.where(as_low, np.linalg.norm(ends - ends[best], axis=-1), 0.0)
    furthest = int(np.argmax(distances))
    return Minimum(
        point=ends[best],
        value=float(depths[best]),
        rival=ends[furthest] if distances[furthest] > _APART else None,
        all_finite=bool(np.isfinite(seen).all()),
    )

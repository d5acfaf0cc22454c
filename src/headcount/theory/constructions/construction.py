"""What a construction returns: a member of the model class, what it promises, what can be measured of it."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from headcount.errors import InvalidInput
from headcount.models.architecture import Architecture
from headcount.models.transformer import Transformer
from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.assumptions.checks import Assumptions, check_assumptions
from headcount.theory.constructions.bound import Bound, Estimate
from headcount.theory.evaluate import outputs
from headcount.theory.search import climbs, minima
from headcount.validation import check_integer, check_matrix, check_number, expected

MAX_LENGTH = 1 << 14
_FEATURES = 1 << 25
_LOOKS = 1 << 16


@dataclass(frozen=True, eq=False)
class WorstCase:
    """The largest |model − target| that was found, the sequence it was found at, and of how many."""

    error: float
    x: Float[np.ndarray, "length token_dim"]
    starts: int
    points: int

    def __float__(self) -> float:
        return self.error


def worst_case(
    model: Transformer,
    task: RetrievalTask,
    length: int,
    *,
    starts: int,
    steps: int,
    seed: int,
    tokens: Float[np.ndarray, "tokens token_dim"] | None = None,
) -> WorstCase:
    """Max |model(x) − target(x)| over x in [0,1]^(T×d), a lower estimate.

    Signed gradient steps inside the cube, each ascent with a step size of its own from the cube's edge down
    to the reach of the softmax, 1/β. Of every ascent the best point counts, not the last. Sequences that
    repeat one of `tokens` are starts too, for what is known and hard to find.
    """
    with jax.enable_x64(True):
        begin = starting_points(task, length, starts, model.architecture.beta, seed)
        if tokens is not None:
            repeated = np.repeat(np.asarray(tokens, np.float64)[:, None], length, axis=1)
            begin, starts = np.concatenate([begin, repeated]), starts + len(repeated)
        smallest = min(1e-2, 1 / model.architecture.beta)
        order = np.random.default_rng(seed).permutation(starts)
        sizes = np.geomspace(0.1, smallest, starts)[order, None] * (1 - np.linspace(0, 1, steps + 1))
        errors, points = (
            np.asarray(part) for part in _ascend(model, task, jnp.asarray(begin), jnp.asarray(sizes))
        )
    worst = int(np.argmax(errors))
    return WorstCase(float(errors[worst]), points[worst], starts, starts * (steps + 1))


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

    found = np.stack(
        [low.point for low in minima(least_and_most, inputs=task.token_dim, seed=seed, count=_LOOKS)]
    )
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


@dataclass(frozen=True, eq=False)
class Construction:
    """Explicit weights for a task at one length.

    - `model`: a `Transformer` of the class in models/, in float64.
    - `labels`: what each number of the representation holds.
    - `error`: how far it can be from the target: a proven `Bound`, or an `Estimate` that is none.
    - `guarantees`: what holds and what is lost, assumption by assumption.
    """

    name: str
    task: RetrievalTask
    length: int
    epsilon: float
    model: Transformer
    labels: tuple[str, ...]
    error: Bound | Estimate
    guarantees: tuple[str, ...]

    def predict(self, x: Float[Any, "*batch length token_dim"]) -> Float[np.ndarray, "*batch output_dim"]:
        """The model's outputs, in float64."""
        x = np.asarray(x, np.float64)
        if x.ndim < 2 or x.shape[-2:] != (self.length, self.task.token_dim):
            raise InvalidInput(
                f"x: expected the shape (..., {self.length}, {self.task.token_dim}), got {x.shape}"
            )
        with jax.enable_x64(True):
            flat = outputs(self.model, jnp.asarray(x.reshape(-1, *x.shape[-2:])))
            return np.asarray(flat).reshape(*x.shape[:-2], self.task.output_dim)

    def measured_error(
        self,
        *,
        starts: int = 64,
        steps: int = 150,
        seed: int = 0,
        tokens: Float[Any, "tokens token_dim"] | None = None,
    ) -> WorstCase:
        """The largest |model − target| that many ascents in float64 find.

        `made.error.including(found)` is what to report: of an estimate, never less than what was found. A
        function that is unusual at places too small to be found by chance has them given as `tokens`.
        """
        return worst_case(
            self.model,
            self.task,
            self.length,
            starts=check_integer("starts", starts, at_least=1),
            steps=check_integer("steps", steps, at_least=1),
            seed=seed,
            tokens=None if tokens is None else self._tokens(tokens),
        )

    def _tokens(self, tokens: Float[Any, "tokens token_dim"]) -> Float[np.ndarray, "tokens token_dim"]:
        rows = np.shape(tokens)[0] if np.ndim(tokens) == 2 else 1
        found = np.array(check_matrix("tokens", tokens, rows=rows, columns=self.task.token_dim))
        if found.min() < 0 or found.max() > 1:
            raise expected("tokens", "entries from 0 to 1", tokens)
        return found

    def to_json(self) -> dict[str, Any]:
        """All but the weights, ready for JSON."""
        architecture = self.model.architecture
        return {
            "construction": self.name,
            "task": self.task.name,
            "dimension": self.task.dimension,
            "token_dim": self.task.token_dim,
            "length": self.length,
            "epsilon": self.epsilon,
            "layers": architecture.layers,
            "heads": architecture.heads,
            "kv_heads": architecture.key_value_heads,
            "head_dim": architecture.head_dim,
            "width": architecture.width,
            "reading": _reading(architecture),
            "encoder_hidden": list(architecture.encoder_hidden),
            "readout_hidden": list(architecture.readout_hidden),
            "beta": architecture.beta,
            "counted_parameters": architecture.counted_parameters(),
            **self.error.to_json(),
            "labels": list(self.labels),
            "guarantees": list(self.guarantees),
        }


def _reading(architecture: Architecture) -> str:
    return "last token" if architecture.reader == "last token" else architecture.class_reads


def checked(epsilon: float, length: int) -> tuple[float, int]:
    """Epsilon and length, validated."""
    length = check_integer("length", length, at_least=1, at_most=MAX_LENGTH)
    return check_number("epsilon", epsilon, above=0), length


@lru_cache(maxsize=64)
def assumptions_of(task: RetrievalTask, length: int, seed: int) -> Assumptions:
    """A task is checked once, however many constructions are made for it."""
    return check_assumptions(task, length=length, seed=seed)


def guarantees(found: Assumptions, *, proven: bool) -> tuple[str, ...]:
    """What the assumptions behind the upper bounds promise, and what is lost where one fails."""
    lines = [
        "domain: tokens lie in [0,1]^d, as the error assumes"
        if found.holds("domain")
        else "domain fails: the error is that on [0,1]^d, and this task's tokens leave it",
        "range: the f_i lie in [0,1]"
        if found.holds("range")
        else "range fails: the f_i leave [0,1] and are rescaled to it; nothing is lost",
    ]
    kinks = found.verdict("smoothness") == "fails"
    if not proven:
        state, between = ("fails", " between kinks") if kinks else ("unknown", "")
        measured = f"the sup error of the fitted networks is measured{between}, so no bound is proven"
        rate = "assumption 3 unknown: the width was found by trying; no rate in epsilon is promised"
        return (*lines, f"smoothness {state}: {measured}", rate)
    if kinks:
        lines.append("smoothness fails, but the knots do not rest on it")
    return (*lines, "assumption 3: explicit knots, so each width follows from epsilon by a formula")

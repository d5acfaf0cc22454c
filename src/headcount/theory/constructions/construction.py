"""What a construction returns: a member of the model class, what it promises, what can be measured of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from headcount.errors import InvalidInput
from headcount.models.transformer import Transformer
from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.assumptions.checks import check_assumptions
from headcount.theory.assumptions.findings import Assumptions
from headcount.theory.constructions.worst_case import WorstCase, worst_case
from headcount.theory.evaluate import outputs
from headcount.validation import check_integer, check_number


@dataclass(frozen=True)
class Bound:
    """How far the model may be from the target anywhere on [0,1]^(T×d), and where each part comes from."""

    parts: Mapping[str, float]
    proven: bool

    @property
    def total(self) -> float:
        """The sum of all parts."""
        return sum(self.parts.values())


@dataclass(frozen=True, eq=False)
class Construction:
    """Explicit weights for a task at one length.

    - `model`: a `Transformer` of the class in models/, in float64.
    - `labels`: what each number of the representation holds.
    - `bound`: the error it cannot exceed, proven or, where networks were measured, as far as was seen.
    - `guarantees`: what holds and what is lost, assumption by assumption.
    """

    name: str
    task: RetrievalTask
    length: int
    epsilon: float
    model: Transformer
    labels: tuple[str, ...]
    bound: Bound
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

    def measured_error(self, *, starts: int = 64, steps: int = 150, seed: int = 0) -> WorstCase:
        """The largest |model − target| that many ascents in float64 find."""
        return worst_case(
            self.model,
            self.task,
            self.length,
            starts=check_integer("starts", starts, at_least=1),
            steps=check_integer("steps", steps, at_least=1),
            seed=seed,
        )

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
            "heads": architecture.heads,
            "head_dim": architecture.head_dim,
            "encoder_hidden": list(architecture.encoder_hidden),
            "readout_hidden": list(architecture.readout_hidden),
            "beta": architecture.beta,
            "counted_parameters": architecture.counted_parameters(),
            "bound": self.bound.total,
            "bound_parts": dict(self.bound.parts),
            "bound_proven": self.bound.proven,
            "labels": list(self.labels),
            "guarantees": list(self.guarantees),
        }


def checked(epsilon: float, length: int) -> tuple[float, int]:
    """Epsilon and length, validated."""
    return check_number("epsilon", epsilon, above=0), check_integer(
        "length", length, at_least=1, at_most=MAX_LENGTH
    )


MAX_LENGTH = 1 << 14


@lru_cache(maxsize=64)
def assumptions_of(task: RetrievalTask, length: int, seed: int) -> Assumptions:
    """A task is checked once, however many constructions are made for it."""
    return check_assumptions(task, length=length, seed=seed)


def guarantees(found: Assumptions, *, fitted: bool) -> tuple[str, ...]:
    """What the assumptions behind the upper bounds promise, and what is lost where one fails."""
    lines = [_domain(found), _range(found), _smoothness(found, fitted), _rate(found, fitted)]
    return tuple(line for line in lines if line)


def _domain(found: Assumptions) -> str:
    if found.holds("domain"):
        return "domain: tokens lie in [0,1]^d, where the bound holds"
    return "domain fails: the bound speaks of [0,1]^d alone, and this task's tokens leave it"


def _range(found: Assumptions) -> str:
    if found.holds("range"):
        return "range: the f_i lie in [0,1]"
    return "range fails: the f_i leave [0,1] and are rescaled to it; nothing is lost"


def _smoothness(found: Assumptions, fitted: bool) -> str:
    verdict = found.verdict("smoothness")
    if not fitted:
        return "" if verdict != "fails" else "smoothness fails, but the knots do not rest on it"
    if verdict == "fails":
        return "smoothness fails: the sup error of the fitted networks is measured between kinks, not proven"
    return "smoothness unknown: the sup error of the fitted networks is measured, not proven"


def _rate(found: Assumptions, fitted: bool) -> str:
    if fitted:
        return "assumption 3 unknown: the width was found by trying; no rate in epsilon is promised"
    return "assumption 3: explicit knots, so each width follows from epsilon by a formula"

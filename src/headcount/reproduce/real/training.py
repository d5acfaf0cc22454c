"""The training of a pack on real data: members of one shape that share their samples on the device.

Nothing is selected: the state after the last step is the one that is evaluated. Early in the training a few
looks measure what is measured at the end, for what they foretell.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int
from scipy.special import logsumexp

from headcount.engine import member
from headcount.engine.lanes import for_each_member, on_all_devices, stack
from headcount.engine.member import Schedule, learning_rate_at
from headcount.engine.train import Call, ChunkByChunk
from headcount.estimate.salience import QUANTILE, SALIENT, Salience
from headcount.models.network import Parameter
from headcount.reproduce.real.problem import KEPT, Answers, Model, Problem, Samples
from headcount.trials.machine import Machine
from headcount.trials.pack import Pack
from headcount.trials.row import Outcome
from headcount.trials.training import Training

LOOKS = (0.05, 0.1)  # of the training, where an evaluation period ends there
SKETCH, SKETCHED = 16, 256  # numbers that stand for the answers to so many training samples
MIN_LOG = -50.0  # of a probability: a candidate without tokens has none
SEEN = ("train_error", "validation_error", "tokens_that_matter")


class Learner(eqx.Module):
    """A member under way; `accuracy` is the share of the last period's batches that it got right.

    `early` holds what the looks so far have seen: `SEEN`, then the sketch of its answers.
    """

    model: Model
    optimizer: Any
    step: Int[Array, ""]
    diverged: Bool[Array, ""]
    accuracy: Float[Array, ""]
    early: Float[Parameter, "look number"]


class RealTraining(ChunkByChunk):
    """The same to a run as `PackTraining` is, for models and samples of another kind."""

    def __init__(
        self,
        pack: Pack,
        machine: Machine,
        problem: Problem,
        samples: Samples,
        *,
        state: Learner | None = None,
    ) -> None:
        self.pack, self.machine, self.tuned = pack, machine, False
        self.training = pack.trials[0].training
        self.problem, self.on_host = problem, samples
        self.samples: Samples = on_all_devices(jax.device_put(samples), machine)
        self.schedules = stack(Schedule.of(trial) for trial in pack.trials)
        self.state = initial_learners(pack, problem) if state is None else state
        self.looks = looks(self.training)

    @property
    def next_stop(self) -> int:
        """The next look, or the end."""
        later = [step for step in self.looks.values() if step > self.step]
        return min(later, default=self.training.steps)

    @property
    def errors(self) -> Float[np.ndarray, " member"]:
        """The share of the last batches that each member got wrong, with dropout."""
        return 1 - np.asarray(self.state.accuracy)

    def outcomes(self) -> list[Outcome]:
        """Every member as it is after its last step, judged on all samples."""
        models, diverged, early = jax.device_get((self.state.model, self.state.diverged, self.state.early))
        found = []
        for place, (own, measures) in enumerate(self._judged(self.state)):
            found.append(
                Outcome(
                    model=jax.tree.map(lambda leaf, place=place: leaf[place], models),
                    train_error=1 - measures["train_accuracy"],
                    validation_error=1 - measures["validation_accuracy"],
                    test_error=np.nan,  # no test split: nothing is selected, so that validation serves as one
                    best_step=self.training.steps,
                    diverged=bool(diverged[place]),
                    outputs=np.asarray(own["train"][:KEPT]),
                    outputs_of="train",
                    scores={**measures, **_named(early[place], self.looks), **_sketch_named(sketch(own))},
                )
            )
        return found

    def _advance(self, periods: int) -> Learner:
        state: Learner = super()._advance(periods)
        for place, look in enumerate(self.looks.values()):
            if int(np.max(state.step)) == look:
                early = np.array(state.early)
                for member_place, (own, measures) in enumerate(self._judged(state)):
                    errors = (1 - measures["train_accuracy"], 1 - measures["validation_accuracy"])
                    seen = (*errors, measures["tokens_that_matter"])
                    early[member_place, place] = [*seen, *sketch(own)]
                state = replace(state, early=early)
        return state

    def _judged(self, state: Learner) -> Iterator[tuple[Answers, dict[str, float]]]:
        """The answers of every member, and what is measured of them."""
        program, _, shared = self._judging
        answers, moved = jax.device_get(for_each_member(program, (state.model,), shared, self.machine))
        for place in range(len(self.pack.trials)):
            own = {split: scores[place] for split, scores in answers.items()}
            yield (
                own,
                {
                    **self.problem.measures(own, self.on_host),
                    "tokens_that_matter": Salience.of(moved[place]).typical(SALIENT, QUANTILE),
                },
            )

    def _advancing(self, periods: int) -> Call:
        program = partial(advance, problem=self.problem, training=_alike(self.training))
        return program, (self.state, self.schedules), (self.samples, np.int32(periods))

    @property
    def _judging(self) -> Call:
        return partial(judge, problem=self.problem), (self.state.model,), (self.samples,)


def optimizer(training: Training) -> optax.GradientTransformation:
    """The same as on synthetic tasks, over all parameters as one vector: a program of far fewer parts."""
    return optax.flatten(member.optimizer(training))


def initial_learners(pack: Pack, problem: Problem) -> Learner:
    """Every member at its own random start."""
    training = pack.trials[0].training
    models = stack(problem.start(trial.seed) for trial in pack.trials)
    with jax.default_device(jax.local_devices(backend="cpu")[0]):  # zeros and copies: nothing for a GPU
        state: Learner = jax.device_get(jax.vmap(partial(begin, training=training))(models))
    return state


def begin(model: Model, training: Training) -> Learner:
    """A member before its first step."""
    model = jax.tree.map(jnp.asarray, model)
    nothing = jnp.full((len(LOOKS), len(SEEN) + SKETCH), jnp.nan, jnp.float32)
    return Learner(
        model, optimizer(training).init(model), jnp.int32(0), jnp.bool_(False), jnp.float32(jnp.nan), nothing
    )


def advance(
    learner: Learner,
    schedule: Schedule,
    samples: Samples,
    periods: Int[Array, ""],
    *,
    problem: Problem,
    training: Training,
) -> Learner:
    """Train for some periods."""
    update = optimizer(training).update

    def step(now: tuple[Any, Any, Any, Any], _: None) -> tuple[tuple[Any, Any, Any, Any], Array]:
        model, state, count, diverged = now
        key = jax.random.fold_in(schedule.key, count)
        (loss, right), gradient = jax.value_and_grad(problem.loss, has_aux=True)(
            model, samples, key, training.batch_size
        )
        direction, state = update(gradient, state, model)
        rate = learning_rate_at(count, schedule)
        model = jax.tree.map(lambda weight, move: weight - rate * move, model, direction)
        return (model, state, count + 1, diverged | ~jnp.isfinite(loss)), right

    def period(_: Int[Array, ""], now: Learner) -> Learner:
        start = (now.model, now.optimizer, now.step, now.diverged)
        after, right = jax.lax.scan(step, start, length=training.evaluate_every)
        return Learner(*after, jnp.mean(right).astype(now.accuracy.dtype), now.early)

    return jax.lax.fori_loop(0, periods, period, learner)


def looks(training: Training) -> dict[float, int]:
    """The steps of the early looks: those at which an evaluation period ends.

    >>> looks(Training(steps=1_000, evaluate_every=100))
    {0.1: 100}
    """
    steps = {share: round(share * training.steps) for share in LOOKS}
    return {share: step for share, step in steps.items() if step and step % training.evaluate_every == 0}


def sketch(answers: Answers) -> Float[np.ndarray, " number"]:
    """A few numbers that lie about as far apart for two members as what they answer does.

    A random projection, always the same, of log p for the first training samples; distances are kept on
    average, one to about sqrt(1 / (2 · 16)), 18%. A distance is scaled to a root mean square over answers.
    """
    scores = np.asarray(answers["train"][:SKETCHED], np.float64)
    logs = np.maximum(scores - logsumexp(scores, axis=1, keepdims=True), MIN_LOG)
    directions = np.random.default_rng(0).normal(size=(SKETCH, logs.size))
    found: np.ndarray = directions @ logs.ravel() / np.sqrt(SKETCH * logs.size)
    return found


def _named(early: Float[np.ndarray, "look number"], at: Mapping[float, int]) -> dict[str, float]:
    """What the looks have seen, by name."""
    found: dict[str, float] = {}
    for place, share in enumerate(at):
        seen, answered = np.split(early[place].astype(float), [len(SEEN)])
        before = f"early_{100 * share:g}_"
        found |= {f"{before}{name}": float(f"{value:.5g}") for name, value in zip(SEEN, seen, strict=True)}
        found |= _sketch_named(answered, before)
    return found


def _sketch_named(numbers: Float[np.ndarray, " number"], before: str = "") -> dict[str, float]:
    return {f"{before}sketch_{place}": float(f"{number:.4g}") for place, number in enumerate(numbers)}


def judge(
    model: Model, samples: Samples, *, problem: Problem
) -> tuple[Answers, Float[Array, "sample token"]]:
    """All that is measured of one member."""
    return problem.answers(model, samples), problem.salience(model, samples)


def _alike(training: Training) -> Training:
    """The training less what a program need not know: how long it lasts reaches members as a number."""
    return replace(training, steps=training.evaluate_every, warmup=0, data_seed=0)

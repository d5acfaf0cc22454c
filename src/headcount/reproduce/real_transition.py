"""Where the estimator of `headcount estimate` sees a transition in members that learnt real data."""

from collections.abc import Sequence

import numpy as np

from headcount.engine import Store, Trial
from headcount.estimate.curve import Curve, Tried
from headcount.estimate.verdict import Estimate, decide
from headcount.real.trial import RealTrial
from headcount.reproduce.claims import Verdict


def transitions(trials: Sequence[Trial], store: Store) -> list[Verdict]:
    """The estimate at every length, from what members put out for training samples.

    Training accuracy is what the paper locates its transition by, so members are selected and compared on
    samples that they learnt from.
    """
    errors = store.frame().set_index("trial")["train_error"]
    verdicts = []
    for length in sorted({trial.length for trial in trials}):
        members = [trial for trial in trials if trial.length == length and trial.id in errors.index]
        tried = tuple(
            Tried(
                trial.architecture.heads,
                float(errors[trial.id]),
                outputs,
                surprise(outputs, right_answers(trial)[: len(outputs)]),
            )
            for trial in members
            if (outputs := store.test_outputs(trial)) is not None
        )
        claim = f"at T = {length}, the estimator sees a transition"
        if len({member.heads for member in tried}) < 3:
            verdicts.append(Verdict(claim, None, "needs members of three head counts"))
            continue
        found = decide(Curve(tried, labels=True))
        holds = None if found.dimension is None else found.dimension > 1
        verdicts.append(Verdict(claim, holds, _told(found)))
    return verdicts


def _told(found: Estimate) -> str:
    """Width grows with these heads, so that no D is named: only where more of both change nothing more."""
    if found.dimension is None or found.interval is None or found.dimension == 1:
        return found.sentence.partition(" Try --")[0].removesuffix(".")  # options of another command
    low, high = found.interval
    interval = f"{low} alone" if low == high else f"{low} to {high}"
    enough = f"from h = {found.dimension} on ({interval})"
    return f"{enough}, more heads and the width that comes with them change little"


def right_answers(trial: Trial) -> np.ndarray:
    """The places of the right answers among the outputs, for the training samples."""
    assert isinstance(trial, RealTrial)
    train = trial.problem.samples().train
    return np.asarray(train.label if hasattr(train, "label") else train.y)


def surprise(scores: np.ndarray, right: np.ndarray) -> np.ndarray:
    """−log p of the right answer over that of a guess: knowing nothing costs 1 on average.

    >>> surprise(np.zeros((2, 4)), np.array([0, 3]))
    array([1., 1.])
    """
    scores = np.asarray(scores, np.float64)
    logs = scores - scores.max(axis=1, keepdims=True)
    logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
    costs: np.ndarray = -logs[np.arange(len(right)), right] / np.log(scores.shape[1])
    return costs

"""What the estimator makes of members on real data, by what they put out for training samples."""

from collections.abc import Sequence

import numpy as np

from headcount.estimate.curve import Curve, Tried
from headcount.estimate.verdict import Estimate, decide
from headcount.reproduce.claims import Verdict
from headcount.reproduce.real.trial import RealTrial, samples_of
from headcount.results.store import Store

MIN_HEAD_COUNTS = 5  # of heads: the three largest are what the others are held against
STILL_FALLS = 0.01  # of all samples


def transitions(trials: Sequence[RealTrial], store: Store) -> list[Verdict]:
    """The estimate at every length, from the outputs of members for training samples.

    Training accuracy is what the paper locates its transition by, so members are selected and compared on
    samples that they learnt from.
    """
    verdicts = []
    for length in sorted({trial.length for trial in trials}):
        tried = tried_by([trial for trial in trials if trial.length == length], store)
        claim = f"at T = {length}, the estimator sees a transition"
        if len({member.heads for member in tried}) < MIN_HEAD_COUNTS:
            verdicts.append(Verdict(claim, None, f"needs members of {MIN_HEAD_COUNTS} head counts"))
            continue
        verdicts.append(_judged(claim, decide(Curve(tried, labels=True)), tried))
    return verdicts


def finds(trials: Sequence[RealTrial], store: Store, *, dimension: int) -> Verdict:
    """Whether the estimator finds the D that was planted in the data of these members, all of one width."""
    claim = f"the estimator finds D = {dimension} by what members put out"
    tried = tried_by(trials, store)
    if len({member.heads for member in tried}) < MIN_HEAD_COUNTS:
        return Verdict(claim, None, f"needs members of {MIN_HEAD_COUNTS} head counts")
    found = decide(Curve(tried, labels=True))
    if found.dimension is None or found.interval is None:
        return Verdict(claim, None, found.sentence.removesuffix("."))
    low, high = found.interval
    evidence = f"D = {found.dimension} (95% interval {low} to {high}), {len(tried)} members of one width"
    return Verdict(claim, found.dimension == dimension, evidence)


def tried_by(trials: Sequence[RealTrial], store: Store) -> tuple[Tried, ...]:
    """The members whose outputs the store keeps, as the estimate sees them."""
    errors = store.frame().set_index("trial")["train_error"]
    return tuple(
        Tried(
            trial.architecture.heads,
            float(errors[trial.id]),
            outputs,
            surprise(outputs, right_answers(trial)[: len(outputs)]),
        )
        for trial in trials
        if trial.id in errors.index and (outputs := store.train_outputs(trial)) is not None
    )


def _judged(claim: str, found: Estimate, tried: Sequence[Tried]) -> Verdict:
    """Width grows with these heads, so that no D is named: only from where more of both change little."""
    if found.dimension is None or found.interval is None:
        return Verdict(claim, None, found.sentence.removesuffix("."))
    here, most = (
        float(np.mean([member.validation_error for member in tried if member.heads == heads]))
        for heads in (found.dimension, max(member.heads for member in tried))
    )
    if here - most > STILL_FALLS:
        settled = f"what members put out settles at h = {found.dimension}"
        fewer = 100 * (here - most)
        return Verdict(claim, None, f"{settled}, but {fewer:.1f} points fewer are wrong with the most heads")
    if found.dimension == 1:
        return Verdict(claim, False, found.sentence.removesuffix("."))
    low, high = found.interval
    interval = f"{low} alone" if low == high else f"{low} to {high}"
    enough = f"from h = {found.dimension} on (95% interval: {interval})"
    return Verdict(
        claim, low > 1 or None, f"{enough}, more heads and the width that comes with them change little"
    )


def right_answers(trial: RealTrial) -> np.ndarray:
    """The places of the right answers among the outputs, for the training samples."""
    train = samples_of(trial).train
    return np.asarray(train.label if hasattr(train, "label") else train.y)


def surprise(scores: np.ndarray, right: np.ndarray) -> np.ndarray:
    """−log p of the right answer over that of a guess: knowing nothing costs 1 on average.

    >>> surprise(np.zeros((2, 4)), np.array([0, 3]))
    array([1., 1.])
    """
    scores = np.asarray(scores, np.float64)
    logs = scores - scores.max(axis=1, keepdims=True)
    logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
    return -logs[np.arange(len(right)), right] / np.log(scores.shape[1])

"""The stages of a study: members to be trained, and two questions asked of those that are."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headcount.models.architecture import PositionInput
from headcount.trials.trial import TaskTrial

# Positions are used where they take the error, plus this, below that share of it.
SLACK, SHARE = 3e-3, 0.8
STUCK = 1.2  # times the error of fewer heads


@dataclass(frozen=True)
class Stage:
    """Members to be trained, and what for."""

    name: str
    trials: tuple[TaskTrial, ...]


def helpful_positions(trials: Sequence[TaskTrial], errors: Mapping[str, float]) -> PositionInput:
    """The position input that these members have; of two, the one that helps the widest of them more."""
    widest, best = (
        max((trial.architecture.heads for trial in trials), default=0),
        dict[PositionInput, float](),
    )
    for trial in trials:
        if trial.architecture.heads == widest:
            kind = trial.architecture.positions
            best[kind] = min(best.get(kind, np.inf), np.nan_to_num(errors[trial.id], nan=np.inf))
    if len(best) == 1:
        return next(iter(best))
    helps = "both" in best and best["both"] + SLACK < SHARE * (best["none"] + SLACK)
    return "both" if helps else "none"


def stuck_heads(
    trials: Sequence[TaskTrial], errors: Mapping[str, float], *, again: Collection[int] = ()
) -> list[int]:
    """The head counts whose members did worse than fewer heads, and those to be tried again anyway."""
    lowest, stuck = np.inf, list[int]()
    for count in dict.fromkeys(trial.architecture.heads for trial in trials):
        own = [errors[trial.id] for trial in trials if trial.architecture.heads == count]
        best = float(np.nanmin([*own, np.inf]))
        if count in again or best > STUCK * lowest + SLACK / 3:
            stuck.append(count)
        lowest = min(lowest, best)
    return stuck

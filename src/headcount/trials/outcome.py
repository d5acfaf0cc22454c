"""What training made of a member."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from headcount.models.transformer import Transformer


@dataclass(frozen=True)
class Outcome:
    """What training made of one member.

    Errors are 1 for knowing nothing (engine/metrics.py), NaN if it diverged before its first evaluation;
    `test_outputs` are what it puts out for the test samples, y standardised, where it was not polished;
    `scores` are further measures by name.
    """

    model: Transformer
    train_error: float
    validation_error: float
    test_error: float
    best_step: int
    diverged: bool
    test_outputs: Float[np.ndarray, "sample output"] | None = None
    scores: Mapping[str, float] = field(default_factory=dict)

"""What training made of a member."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class Outcome:
    """What training made of one member.

    Errors are 1 for knowing nothing (engine/metrics.py), NaN if it diverged before its first evaluation;
    `test_error` is NaN where there is no test split. `outputs` are the model's for the samples of the split
    `outputs_of`, y standardised, where they are kept; `scores` are further measures by name.
    """

    model: Any
    train_error: float
    validation_error: float
    test_error: float
    best_step: int
    diverged: bool
    outputs: Float[np.ndarray, "sample output"] | None = None
    outputs_of: Literal["train", "test"] = "test"
    scores: Mapping[str, float] = field(default_factory=dict)

"""What each sample costs a member, in units in which knowing nothing of x costs 1 on average."""

import numpy as np
from jaxtyping import Array, Float
from scipy.special import entr, logsumexp

from headcount.engine.data import Split
from headcount.trials.training import Loss

Costs = Float[np.ndarray, "member sample"]


def sample_costs(
    predicted: Float[Array, "member sample output"], split: Split, datasets: np.ndarray, loss: Loss
) -> Costs:
    """Squared errors over the variance of y, or −log p over the entropy of the labels; in float64."""
    truth = np.asarray(split.y, np.float64)[datasets]
    outputs = np.asarray(predicted, np.float64)
    if loss == "squared":
        shares: Costs = ((outputs - truth) ** 2 / truth.var(axis=1, keepdims=True)).mean(axis=-1)
        return shares
    surprise = logsumexp(outputs, axis=-1) - (truth * outputs).sum(axis=-1)
    relative: Costs = surprise / entr(truth.mean(axis=1)).sum(axis=-1, keepdims=True)
    return relative

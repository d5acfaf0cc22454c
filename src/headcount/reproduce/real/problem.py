"""What the members of a real-data experiment learn: samples on the device, a loss, and how well it went."""

from collections.abc import Mapping
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

Model = Any
Samples = Any
Answers = Mapping[str, Float[Array, "sample answer"]]
KEPT = 1_000  # training samples whose answers are kept with a member


class Problem(Protocol):
    """Hashable, and without arrays: what a compiled program is made for."""

    def start(self, seed: int) -> Model:
        """A model at its random start, in NumPy arrays."""

    def samples(self, data: Any) -> Samples:
        """All that members of any seed learn from and are evaluated on: NumPy arrays, of what was read."""

    def loss(
        self, model: Model, samples: Samples, key: PRNGKeyArray, batch_size: int
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """The loss on a batch that the key draws, dropout and all, and the share of it that is right."""

    def answers(self, model: Model, samples: Samples) -> Answers:
        """The scores of all answers, for all samples: of `train` and of `validation`."""

    def measures(self, answers: Answers, samples: Samples) -> dict[str, float]:
        """What the scores say: `train_accuracy` and `validation_accuracy` among others; on the host."""

    def salience(self, model: Model, samples: Samples) -> Float[Array, "sample token"]:
        """How much the score of the right answer moves with each token, for a few training samples."""


def loss_and_share_right(
    scores: Float[Array, "sample answer"], right: Int[Array, " sample"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The mean of −log p of the right answers, and how often they score highest."""
    logs = jnp.take_along_axis(jax.nn.log_softmax(scores), right[:, None], axis=1)
    return -jnp.mean(logs), jnp.mean(jnp.argmax(scores, axis=1) == right)


def ranks(scores: Float[np.ndarray, "sample answer"], right: Int[np.ndarray, " sample"]) -> np.ndarray:
    """The rank of the right answer of each sample; among equal scores it comes last.

    >>> ranks(np.array([[0.1, 0.7, 0.2], [0.5, 0.5, 0.0]]), np.array([2, 0]))
    array([2, 2])
    """
    return (scores >= np.take_along_axis(scores, right[:, None], axis=1)).sum(axis=1)

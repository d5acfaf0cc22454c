"""What the members of a real-data experiment learn: samples on the device, a loss, and how well it went."""

from typing import Any, Protocol

from jaxtyping import Array, Float, PRNGKeyArray

Model = Any
Samples = Any


class Problem(Protocol):
    """Hashable, and without arrays: what a compiled program is made for."""

    def start(self, seed: int) -> Model:
        """A model at its random start, in NumPy arrays."""

    def samples(self) -> Samples:
        """All that members of any seed learn from and are judged by, in NumPy arrays."""

    def loss(self, model: Model, samples: Samples, key: PRNGKeyArray, batch_size: int) -> Float[Array, ""]:
        """The loss on a batch that the key draws, dropout and all."""

    def scores(self, model: Model, samples: Samples) -> dict[str, Float[Array, ""]]:
        """How well the model does on all samples; `train_accuracy` and `validation_accuracy` among others."""

    def outputs(self, model: Model, samples: Samples) -> Float[Array, "sample output"]:
        """The scores of all answers, for the first training samples."""

    def salience(self, model: Model, samples: Samples) -> Float[Array, "sample token"]:
        """How much the score of the right answer moves with each token, for a few training samples."""

    def glance(self, model: Model, samples: Samples) -> Float[Array, ""]:
        """The training accuracy on a part of the samples, cheap enough for a look in between."""

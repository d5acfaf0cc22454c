"""A vision transformer: patches of an image, and a class token whose last state gives the scores."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from headcount.data.cifar10.frames import PATCHES, SIDES
from headcount.models.encoder import (
    AroundEncoder,
    Encoder,
    EncoderShape,
    Linear,
    at_least_float32,
    dropout,
    expect_shape,
    learnt_vectors,
    split_key,
)
from headcount.models.network import Parameter
from headcount.validation import check_integer, expected, is_integer

COLOURS = 3


@dataclass(frozen=True)
class VitShape(AroundEncoder):
    """Everything about a vision transformer that is not learnt.

    >>> VitShape(32, 4, 10, EncoderShape(heads=4, head_dim=16, layers=4, feedforward=256)).length
    65

    **Arguments:**

    - `side`, `patch`: of the square image and of the square patches that it is cut into, in pixels.
    - `classes`: how many there are.
    - `encoder`: the shape of the encoder.
    """

    side: int
    patch: int
    classes: int
    encoder: EncoderShape

    def __post_init__(self) -> None:
        for field, allowed in (("side", SIDES), ("patch", PATCHES)):
            value = getattr(self, field)
            if not is_integer(value) or value not in allowed:
                raise expected(field, f"one of {', '.join(map(str, allowed))}", value)
        check_integer("classes", self.classes, at_least=2)
        if not isinstance(self.encoder, EncoderShape):
            raise expected("encoder", "an EncoderShape", self.encoder)

    @property
    def patches(self) -> int:
        """How many patches an image has."""
        return (self.side // self.patch) ** 2

    @property
    def token_dim(self) -> int:
        """How many numbers a patch has."""
        return self.patch**2 * COLOURS

    @property
    def length(self) -> int:
        """T: the patches and the class token."""
        return 1 + self.patches

    def parameters(self) -> int:
        """How many numbers are learnt."""
        width = self.encoder.width
        embedding = (self.token_dim + 1) * width + width + self.length * width
        return embedding + self.encoder.parameters() + (width + 1) * self.classes


class Vit(eqx.Module):
    """Class scores from the last state of the class token."""

    embedding: Linear
    class_token: Float[Parameter, " width"]
    positions: Float[Parameter, "token width"]
    encoder: Encoder
    head: Linear
    shape: VitShape = eqx.field(static=True)

    @classmethod
    def initialise(cls, shape: VitShape, seed: int) -> "Vit":
        """A model at its random start: the same for the same seed on every machine."""
        random, width = np.random.default_rng(seed), shape.encoder.width
        return cls(
            Linear.initialise(shape.token_dim, width, random),
            learnt_vectors(random, (width,)),
            learnt_vectors(random, (shape.length, width)),
            Encoder.initialise(shape.encoder, random),
            Linear.initialise(width, shape.classes, random),
            shape,
        )

    def __call__(
        self, patches: Float[Array, "batch patch numbers"], *, key: PRNGKeyArray | None = None
    ) -> Float[Array, "batch classes"]:
        """Class scores, before any softmax. Without a key nothing is dropped."""
        of_embedding, of_encoder = split_key(key, 2)
        states = self.encoder(self.embed(patches, key=of_embedding), key=of_encoder, read=1)
        with jax.default_matmul_precision("float32"):
            return self.head(states[:, 0])

    def embed(
        self, patches: Float[Array, "batch patch numbers"], *, key: PRNGKeyArray | None = None
    ) -> Float[Array, "batch token width"]:
        """The input of the encoder: the class token, then the patches, each plus its position."""
        expect_shape("patches", patches, "batch", self.shape.patches, self.shape.token_dim)
        shape = self.shape.encoder
        with jax.default_matmul_precision(shape.precision):
            embedded = at_least_float32(self.embedding(shape.rounded(patches)))
        first = jnp.broadcast_to(self.class_token, (len(patches), 1, shape.width))
        tokens = jnp.concatenate([first, embedded], axis=1) + self.positions
        return dropout(shape.rounded(tokens), shape.dropout, key)

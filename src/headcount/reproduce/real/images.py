"""CIFAR-10 in a larger frame: what a vision transformer learns.

Frames are made inside the compiled step, from the small images: an expanded data set is never in memory.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt8

from headcount.data.cifar10.files import Cifar10
from headcount.data.cifar10.frames import framed, patches, random_corner
from headcount.models.network import Parameter
from headcount.models.vit import Vit, VitShape
from headcount.reproduce.real.problem import Answers, loss_and_share_right, ranks

# Of the pixels of the training images, a colour each.
MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
BLOCK, SALIENT_IMAGES = 250, 128


class Images(eqx.Module):
    """Images and their classes."""

    x: UInt8[Parameter, "image 32 32 3"]
    y: Int[Parameter, " image"]


class ImageSamples(eqx.Module):
    """What members learn from, and what they are evaluated on."""

    train: Images
    validation: Images


@dataclass(frozen=True)
class ImageProblem:
    """So many images in all, the first ones of each class.

    With `placed_once` a training image stays at one random place of its frame, where it is evaluated too;
    else it has a new place at each visit.
    """

    shape: VitShape
    train_images: int
    validation_images: int
    placed_once: bool = False

    def start(self, seed: int) -> Vit:
        """A vision transformer at its random start."""
        return Vit.initialise(self.shape, seed)

    def samples(self, data: Cifar10) -> ImageSamples:
        """The first images of each class."""
        return ImageSamples(
            Images(*balanced(data.train_images, data.train_labels, self.train_images)),
            Images(*balanced(data.test_images, data.test_labels, self.validation_images)),
        )

    def loss(
        self, model: Vit, samples: ImageSamples, key: PRNGKeyArray, batch_size: int
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Cross entropy over images drawn with replacement, each at a random place of its frame."""
        draw, place, drop = jax.random.split(key, 3)
        chosen = jax.random.randint(draw, (batch_size,), 0, len(samples.train.y))
        places = its_own_keys(chosen) if self.placed_once else jax.random.split(place, batch_size)
        scores = model(self._seen(samples.train.x[chosen], places), key=drop)
        return loss_and_share_right(scores, samples.train.y[chosen])

    def answers(self, model: Vit, samples: ImageSamples) -> dict[str, Float[Array, "image class"]]:
        """The scores of all classes, each image at one random place of its frame."""
        counts = [len(part.y) for part in (samples.train, samples.validation)]
        both = jax.tree.map(lambda *pair: jnp.concatenate(pair), samples.train, samples.validation)
        own = jnp.concatenate([jnp.arange(count) for count in counts])

        def scores(places: Int[Array, " image"]) -> Array:
            return model(self._seen(both.x[places], its_own_keys(own[places])))

        blocks = jnp.minimum(jnp.arange(sum(counts) + -sum(counts) % BLOCK), sum(counts) - 1)
        found = jax.lax.map(scores, blocks.reshape(-1, BLOCK)).reshape(len(blocks), -1)
        return {"train": found[: counts[0]], "validation": found[counts[0] : sum(counts)]}

    def measures(self, answers: Answers, samples: ImageSamples) -> dict[str, float]:
        """The shares of images whose class has the highest score."""
        return {
            f"{split}_accuracy": float((ranks(np.asarray(answers[split]), np.asarray(part.y)) == 1).mean())
            for split, part in (("train", samples.train), ("validation", samples.validation))
        }

    def salience(self, model: Vit, samples: ImageSamples) -> Float[Array, "image patch"]:
        """The norm of the gradient of the right class's score with respect to each patch."""
        few = jnp.arange(min(SALIENT_IMAGES, len(samples.train.y)))
        seen = self._seen(samples.train.x[few], its_own_keys(few))

        def right(patches: Array, label: Array) -> Array:
            return model(patches[None])[0, label]

        return jnp.linalg.norm(jax.vmap(jax.grad(right))(seen, samples.train.y[few]), axis=-1)

    def _seen(
        self, images: UInt8[Array, "image 32 32 3"], places: PRNGKeyArray
    ) -> Float[Array, "image patch pixels"]:
        """The patches of images, each where its key puts it in its frame, every colour standardised."""

        def one(image: Array, place: Array) -> Array:
            small = (image.astype(jnp.float32) / 255 - jnp.array(MEAN)) / jnp.array(DEVIATION)
            corner = random_corner(place, self.shape.side)
            return patches(framed(small, corner, self.shape.side), self.shape.patch)

        return jax.vmap(one)(images, places)


def its_own_keys(numbers: Int[Array, " image"]) -> PRNGKeyArray:
    """The same key for the same number of an image, always."""
    return jax.vmap(lambda number: jax.random.fold_in(jax.random.PRNGKey(0), number))(numbers)


def balanced(images: np.ndarray, labels: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The first of each class in turn, as many as asked for, in the order in which they come."""
    rank = np.empty(len(labels), np.int64)
    for label in np.unique(labels):
        mine = np.flatnonzero(labels == label)
        rank[mine] = np.arange(len(mine))
    chosen = np.sort(np.lexsort((labels, rank))[:count])
    return images[chosen], labels[chosen]

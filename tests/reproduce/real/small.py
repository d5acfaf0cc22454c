"""Data small enough to learn in seconds: images that show their class, passages that resemble their query."""

import numpy as np

from headcount.data.cifar10.files import Cifar10
from headcount.data.msmarco.embeddings import FrozenEmbeddings
from headcount.data.msmarco.rankings import Lists, Rankings
from headcount.data.msmarco.texts import Texts
from headcount.models.encoder import EncoderShape
from headcount.models.reranker import JoinedShape, RerankerShape
from headcount.models.vit import VitShape
from headcount.reproduce.real.ranking import EmbeddedRankings
from headcount.reproduce.real.trial import RealData
from headcount.trials.task_choice import Training
from headcount.trials.trial import Trial


def images(count=200, seed=0):
    """Class c is a bright block in row c of a dark, noisy image."""
    random = np.random.default_rng(seed)

    def drawn(number):
        labels = np.arange(number, dtype=np.int32) % 10
        pixels = random.integers(0, 60, size=(number, 32, 32, 3))
        for image, label in zip(pixels, labels, strict=True):
            image[3 * label : 3 * label + 3] += 150
        return pixels.astype(np.uint8), labels

    return Cifar10(*drawn(count), *drawn(count // 2))


def image_trial(seed=0, *, heads=2, side=32, steps=40, data=None, **options):
    data = data or images()
    choice = RealData.read("cifar10", data, data.train_images, data.train_labels)
    shape = VitShape(side, 8, 10, EncoderShape(heads, 8, 2, 32, **options))
    training = Training(
        steps=steps,
        batch_size=32,
        evaluate_every=10,
        train_samples=len(data.train_labels),
        validation_samples=len(data.test_labels),
        loss="cross_entropy",
    )
    return Trial(choice, shape.length, shape, 3e-3, seed, training)


def rankings(queries=120, candidates=8, width=12, seed=0):
    """A positive is its query's vector and a little noise; negatives are unrelated."""
    random = np.random.default_rng(seed)
    half = queries * 3 // 4
    vectors = random.normal(size=(queries, width)).astype(np.float32)
    passages = np.concatenate(
        [vectors + 0.1 * random.normal(size=vectors.shape), random.normal(size=(2 * queries, width))]
    ).astype(np.float32)
    texts = Texts(np.arange(3 * queries), np.arange(3 * queries + 1))

    def lists(low, high, first, last):
        negatives = np.stack(
            [random.permutation(np.arange(first, last))[: candidates - 1] for _ in range(low, high)]
        )
        return Lists(np.arange(low, high), np.arange(low, high), negatives)

    made = Rankings(
        "small",
        texts,
        Texts(np.arange(queries), np.arange(queries + 1)),
        lists(0, half, queries, 2 * queries),
        lists(half, queries, 2 * queries, 3 * queries),
    )
    words = FrozenEmbeddings(
        passages, np.zeros((8, width)), np.zeros((2, width)), np.ones(width), np.zeros(width)
    )
    return EmbeddedRankings(made, words, vectors, passages)


def ranking_trial(seed=0, *, length=4, heads=2, steps=60, data=None, joined=False):
    data = data or rankings()
    choice = RealData.read("msmarco", data, data.queries, data.passages)
    encoder, embedding = EncoderShape(heads, 8, 2, 32), data.queries.shape[1]
    shape = JoinedShape(encoder, embedding, 2, 3) if joined else RerankerShape(encoder, embedding)
    training = Training(
        steps=steps,
        batch_size=32,
        evaluate_every=20,
        train_samples=len(data.rankings.train),
        validation_samples=len(data.rankings.validation),
        loss="cross_entropy",
    )
    return Trial(choice, length, shape, 1e-2, seed, training)

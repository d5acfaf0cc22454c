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
from headcount.trials.training import Training
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


def recipe(steps, evaluate_every, train, validation):
    samples = {"train_samples": len(train), "validation_samples": len(validation)}
    options = {"batch_size": 32, "evaluate_every": evaluate_every, "loss": "cross_entropy"}
    return Training(steps=steps, **samples, **options)


def image_trial(seed=0, *, heads=2, side=32, steps=40, data=None, **options):
    data = data or images()
    choice = RealData.read("cifar10", data, data.train_images, data.train_labels)
    shape = VitShape(side, 8, 10, EncoderShape(heads, 8, 2, 32, **options))
    training = recipe(steps, 10, data.train_labels, data.test_labels)
    return Trial(choice, shape.length, shape, 3e-3, seed, training)


def rankings(queries=120, candidates=8, width=12, seed=0):
    """A positive is its query's vector and a little noise; negatives are unrelated."""
    random = np.random.default_rng(seed)
    half = queries * 3 // 4
    vectors = random.normal(size=(queries, width)).astype(np.float32)
    positives = vectors + 0.1 * random.normal(size=vectors.shape)
    negatives = random.normal(size=(2 * queries, width))
    passages = np.concatenate([positives, negatives]).astype(np.float32)

    def lists(low, high, first, last):
        drawn = [random.permutation(np.arange(first, last))[: candidates - 1] for _ in range(low, high)]
        return Lists(np.arange(low, high), np.arange(low, high), np.stack(drawn))

    texts = [Texts(np.arange(count), np.arange(count + 1)) for count in (3 * queries, queries)]
    splits = lists(0, half, queries, 2 * queries), lists(half, queries, 2 * queries, 3 * queries)
    tables = np.zeros((8, width)), np.zeros((2, width)), np.ones(width), np.zeros(width)
    words = FrozenEmbeddings(passages, *tables)
    return EmbeddedRankings(Rankings("small", *texts, *splits), words, vectors, passages)


def ranking_trial(seed=0, *, length=4, heads=2, steps=60, data=None, joined=False):
    data = data or rankings()
    choice = RealData.read("msmarco", data, data.queries, data.passages)
    encoder, embedding = EncoderShape(heads, 8, 2, 32), data.queries.shape[1]
    shape = JoinedShape(encoder, embedding, 2, 3) if joined else RerankerShape(encoder, embedding)
    training = recipe(steps, 20, data.rankings.train, data.rankings.validation)
    return Trial(choice, length, shape, 1e-2, seed, training)

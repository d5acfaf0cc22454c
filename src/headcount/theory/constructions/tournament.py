"""One head with n = T·d numbers for a sum of maxima, by a readout of log2(T) hidden layers: exact.

`memorise` finds a minimum by levels, in two hidden layers of many units. Where T is a power of two a
tournament does it in few: of a pair a, b the larger is relu(a − b) + relu(b) − relu(−b), three units, and a
hidden layer halves how many are left. Up to T = 16 four hidden layers are enough, and widths that are trained
(reproduce/deep_readout.py): weights of that very class that have no error.

Tokens may be any within ±reach. The encoder's slot (t, j) is relu(x_j + reach (2 e_t − 1)): x_j + reach at t
and 0 elsewhere. With a class token of 0 the head averages, and the first layer of F undoes the average.
"""

from itertools import pairwise
from math import log2

import numpy as np
from scipy.linalg import block_diag

from headcount.errors import InvalidInput
from headcount.models.architecture import Architecture
from headcount.models.network import Network
from headcount.models.transformer import Attention, Transformer
from headcount.tasks.library import Projection
from headcount.tasks.retrieval import RetrievalTask
from headcount.validation import check_integer, expected

# What relu(a − b), relu(b) and relu(−b) are of (a, b), and what the larger is of them.
OF_PAIR = np.array([[1.0, -1.0], [0.0, 1.0], [0.0, -1.0]])
LARGER = np.array([[1.0, 1.0, -1.0]])
KEPT = np.array([[1.0], [-1.0]])  # a number through a layer: relu(a) − relu(−a)


def tournament(
    task: RetrievalTask, *, length: int, layers: int = 4, hidden: int = 128, reach: float = 8.0
) -> Transformer:
    """A model with one head that is Σ_i max_t a_i·x(t); its F has `layers` hidden layers of `hidden` units.

    >>> from headcount.tasks.library import max_sum
    >>> task = max_sum(dimension=2, token_dim=2)
    >>> model = tournament(task, length=4, layers=2, hidden=16)
    >>> model.architecture.head_dim, model.architecture.readout_hidden
    (8, (16, 16))
    """
    length = check_integer("length", length, at_least=2)
    rounds = log2(length)
    if not rounds.is_integer() or rounds > layers:
        raise expected("length", f"a power of two up to 2^{layers}", length)
    if not all(isinstance(each, Projection) for each in task.coordinate_functions) or set(task.extrema) != {
        "max"
    }:
        raise InvalidInput(f"task: expected a sum of maxima of projections, got {task.name}")
    slots, dimension = length * task.token_dim, task.dimension
    needed = max(slots, 3 * dimension * length // 2)
    if needed > hidden:
        raise expected("hidden", f"at least {needed} at length {length}", hidden)
    architecture = Architecture(
        token_dim=task.token_dim,
        heads=1,
        head_dim=slots,
        encoder_hidden=(hidden,),
        readout_hidden=(hidden,) * layers,
        readout_activation="relu",
        positions="one_hot",
        length=length,
    )
    nothing, as_it_is = np.zeros((1, slots, slots)), np.eye(slots)
    return Transformer(
        encoder=_filled(_encoder(length, task.token_dim, reach), architecture.encoder_sizes),
        token_layers=(),
        class_token=np.zeros(slots),
        attention=Attention(nothing, nothing, as_it_is[None], as_it_is[:, None]),
        readout=_filled(_readout(task, length, layers, reach), architecture.readout_sizes),
        architecture=architecture,
    )


def _encoder(length: int, token_dim: int, reach: float) -> Network:
    slots = length * token_dim
    tokens = np.tile(np.eye(token_dim), (length, 1))
    places = 2 * reach * np.repeat(np.eye(length), token_dim, axis=0)
    first = np.concatenate([tokens, places], axis=1)
    return Network((first, np.eye(slots)), (np.full(slots, -reach), np.zeros(slots)), "relu")


def _readout(task: RetrievalTask, length: int, layers: int, reach: float) -> Network:
    """The numbers a_i·x(t), their larger ones of pairs until one is left, and the sum of those."""
    directions = np.array([each.direction for each in task.coordinate_functions])  # type: ignore[attr-defined]
    # Number (i, t) of what the head reads, (x(t) + reach) / T in slot t.
    reading = np.concatenate([np.kron(length * np.eye(length), row[None]) for row in directions])
    moved = np.repeat(-reach * directions.sum(axis=1), length)
    weights, biases, left = [], [], length
    for _ in range(layers):
        pairs = left > 1
        of = block_diag(*[OF_PAIR if pairs else KEPT] * (task.dimension * left // (2 if pairs else 1)))
        weights.append(of @ reading)
        biases.append(of @ moved)
        left = left // 2 if pairs else left
        reading = block_diag(*[LARGER if pairs else KEPT.T] * (task.dimension * left))
        moved = np.zeros(len(reading))
    weights.append(reading.sum(axis=0, keepdims=True))
    return Network(tuple(weights), (*biases, np.zeros(1)), "relu")


def _filled(network: Network, sizes: tuple[int, ...]) -> Network:
    """The same function with units of zeros, up to these sizes."""
    weights = [np.zeros((outputs, inputs)) for inputs, outputs in pairwise(sizes)]
    biases = [np.zeros(outputs) for outputs in sizes[1:]]
    for weight, bias, part, offset in zip(weights, biases, network.weights, network.biases, strict=True):
        weight[: part.shape[0], : part.shape[1]] = part
        bias[: len(offset)] = offset
    return Network(tuple(weights), tuple(biases), network.activation)

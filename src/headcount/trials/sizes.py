"""A user's data in arrays of few sizes: another data set of about the same size finds its programs compiled.

What is added changes no result (engine/rounding.py). On a processor it hardly costs time either: 18 tokens
take a step as long as 24, and 8 numbers in a token a tenth longer than 4.
"""

from dataclasses import replace
from typing import NamedTuple

from headcount.models.architecture import Architecture
from headcount.trials.task_choice import DATA
from headcount.trials.trial import TaskTrial

MAX_PLACES = 256  # tokens of a sequence, in which members on a user's data may see positions
MAX_ROUNDED_BYTES = 256 << 20  # larger data stays as it is: twice the memory costs more than compiling


class ArraySizes(NamedTuple):
    """Samples in the arrays of the three splits, and tokens in a sequence of them."""

    train: int
    validation: int
    test: int
    length: int


def are_rounded(trial: TaskTrial) -> bool:
    """Whether its arrays have more room than its data needs: tasks of the library keep their sizes."""
    training = trial.training
    samples = training.train_samples + training.validation_samples + training.test_samples
    small = 4 * samples * trial.length * trial.architecture.token_dim <= MAX_ROUNDED_BYTES
    return trial.task.name == DATA and small


def array_sizes(trial: TaskTrial) -> ArraySizes:
    """The sizes of the arrays that hold its data."""
    training = trial.training
    exact = (training.train_samples, training.validation_samples, training.test_samples, trial.length)
    return ArraySizes(*(map(rounded_up, exact) if are_rounded(trial) else exact))


def array_shape(architecture: Architecture, trial: TaskTrial) -> Architecture:
    """The architecture with room for the arrays that hold the data of a trial."""
    if not are_rounded(trial):
        return architecture
    return replace(
        architecture,
        token_dim=rounded_up(architecture.token_dim),
        output_dim=rounded_up(architecture.output_dim),
        length=architecture.length and rounded_up(architecture.length),
    )


def rounded_up(size: int) -> int:
    """The next of 1, 2 and 8, and from there of four sizes to each doubling.

    >>> [rounded_up(size) for size in (1, 2, 4, 5, 9, 18, 20, 100, 3_360, 3_500)]
    [1, 2, 8, 8, 10, 20, 20, 112, 3584, 3584]
    """
    if size <= 8:
        return size if size <= 2 else 8
    between = 1 << ((size - 1).bit_length() - 3)
    return -(-size // between) * between

"""Passages divided into two pools, so that nothing of validation is seen in training."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Integer

TRAIN, VALIDATION, FREE = 0, 1, -1


@dataclass(frozen=True, eq=False)
class Question:
    """A query, the passages that answer it, the positive first, and those that a search found for it."""

    query: int
    relevant: Integer[np.ndarray, " relevant"]
    listed: Integer[np.ndarray, " listed"]


class Parted(NamedTuple):
    """The training questions that share nothing with validation, and the passages that each side may use."""

    train: list[Question]
    train_pool: Integer[np.ndarray, " passage"]
    validation_pool: Integer[np.ndarray, " passage"]


def parted(
    train: Sequence[Question], validation: Sequence[Question], passages: int, random: np.random.Generator
) -> Parted:
    """Each passage goes to one side: answers first, then what was found for validation, then for training.

    A training question that validation asks too, or that shares an answer with it, is dropped. What is left
    over evens out the sizes of the pools as far as possible: then negatives are equally hard on both sides.
    """
    owner = np.full(passages, FREE)
    for question in validation:
        owner[question.relevant] = VALIDATION
    asked = {question.query for question in validation}
    kept = [
        question
        for question in train
        if question.query not in asked and not (owner[question.relevant] == VALIDATION).any()
    ]
    for question in kept:
        owner[question.relevant] = TRAIN
    for side, questions in ((VALIDATION, validation), (TRAIN, kept)):
        for question in questions:
            listed = question.listed
            owner[listed[owner[listed] == FREE]] = side
    left_over = random.permutation(np.flatnonzero(owner == FREE))
    to_train = int(np.clip(passages // 2 - (owner == TRAIN).sum(), 0, len(left_over)))
    owner[left_over[:to_train]], owner[left_over[to_train:]] = TRAIN, VALIDATION
    return Parted(kept, np.flatnonzero(owner == TRAIN), np.flatnonzero(owner == VALIDATION))

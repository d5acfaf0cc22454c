"""Sums of NumPy or of PyTorch, worked on by the library, and on the device, where they are."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

Array = Any  # of NumPy, or a tensor of PyTorch


def library(array: Array) -> Any:
    """The module with the functions for an array.

    >>> library(np.zeros(1)).__name__
    'numpy'
    """
    return np if isinstance(array, np.ndarray) else sys.modules["torch"]


def solved(gram: Array, right: Array) -> Array:
    """G⁻¹ R, of a positive definite G.

    >>> solved(2 * np.eye(2), np.ones((2, 1))).ravel()
    array([0.5, 0.5])
    """
    if not len(gram):
        return right
    if isinstance(gram, np.ndarray):
        return cho_solve(cho_factor(gram), right)
    torch = library(gram)
    return torch.cholesky_solve(right, torch.linalg.cholesky(gram))


def identity(like: Array) -> Array:
    """The identity matrix of the size of a square one.

    >>> identity(np.ones((2, 2)))
    array([[1., 0.],
           [0., 1.]])
    """
    return library(like).eye(len(like), dtype=like.dtype, device=like.device)


def to_numpy(array: Array) -> np.ndarray:
    """A copy on the CPU where it is elsewhere."""
    return array if isinstance(array, np.ndarray) else array.cpu().numpy()


def root_of(metric: Array) -> Array:
    """R with M = R Rᵀ.

    >>> root_of(np.diag([1.0, 4.0]))
    array([[1., 0.],
           [0., 2.]])
    """
    sizes, vectors = library(metric).linalg.eigh(metric)
    return vectors * sizes.clip(0.0) ** 0.5


@contextmanager
def single_threaded() -> Iterator[None]:
    """One thread of PyTorch on the CPU: with matrices of a few hundred rows, several mostly wait for each
    other, and for long where other programs use the same cores.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)

"""The hash of a task's code: what is read, and what is refused."""

import functools
import threading

import jax
import numpy as np
import pytest

from headcount.errors import InvalidInput
from headcount.tasks.registry import register_task
from headcount.tasks.source import code_version


class Scaled:
    """A callable with state and a class of its own."""

    factor = 2.0

    def __init__(self, shift):
        self.shift = shift

    def __call__(self, value):
        return self.factor * value + self.shift

    @property
    def doubled(self):
        return 2 * self.shift


def recursive(value):
    return value if value < 1 else recursive(value - 1)


def builder_of(value):
    return lambda: value


CONSTANTS = [1, True, "text", None, (1, 2), [1, 2], {"one": 1}, frozenset({1, 2})]
ARRAYS = [np.arange(3), np.float32(1), jax.numpy.ones(2)]
FUNCTIONS = [jax.jit(recursive), recursive, functools.partial(recursive, 3), np.max, np.add, len]
VALUES = [*CONSTANTS, *ARRAYS, *FUNCTIONS, np, Scaled, Scaled(1.0), Scaled(2.0), Scaled(2.0).__call__]


def test_whatever_a_closure_holds_is_distinguished_and_found_again():
    found = [code_version("own", builder_of(value)) for value in VALUES]
    assert found == [code_version("own", builder_of(value)) for value in VALUES]
    assert len(set(found)) == len(found)


def test_a_list_that_holds_itself_has_an_end():
    loop = [1]
    loop.append(loop)
    assert code_version("own", builder_of(loop))


def test_what_cannot_be_read_asks_for_a_version():
    with pytest.raises(InvalidInput, match=r"task 'own': expected a version.*version='1'.*lock"):
        code_version("own", builder_of(threading.Lock()))


@pytest.mark.parametrize("version", ["", 2])
def test_a_version_is_a_string(version):
    with pytest.raises(InvalidInput, match="version: expected a non-empty string"):
        register_task("own", version=version)

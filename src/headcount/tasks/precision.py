"""Functions of a user's own in both precisions: training is in float32, the theory in float64.

JAX turns an array of float64 that a function refers to into float32 when it first traces the function in
single precision, and keeps the result: in double precision the function then fails, or quietly computes with
numbers of seven digits. A cast to the precision of the input, `jnp.asarray(W, z.dtype)`, is right in both.
"""

import functools
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr

from headcount.errors import InvalidInput
from headcount.tasks.retrieval import LIBRARIES, home_of

FLOATS = {np.dtype(np.float32), np.dtype(np.float64)}


def check_precision(name: str, function: Callable[..., Any], shape: tuple[int, ...]) -> None:
    """Refuse a function that computes with an array of float64 as it is.

    >>> W = np.eye(2)
    >>> check_precision("outer", functools.partial(jnp.matmul, W), (2,))
    Traceback (most recent call last):
    headcount.errors.InvalidInput: outer: expected constants in the precision of its input, as in \
jnp.asarray(W, z.dtype), got an array of float64 of shape (2, 2)
    """
    arrays = list(_arrays(function))
    if not arrays:
        return
    with jax.enable_x64(True):
        for precision in (jnp.float32, jnp.float64):
            try:
                traced = jax.make_jaxpr(function)(jax.ShapeDtypeStruct(shape, precision))
            except (TypeError, ValueError, AttributeError, IndexError):
                return  # no JAX function at all: refused with its reason where its shape is looked at
            kinds = FLOATS - {np.dtype(precision)}
            other = [np.asarray(each) for each in _constants(traced) if each.dtype in kinds]
            for array in arrays:
                if any(_taken_from(each, array) for each in other):
                    raise InvalidInput(
                        f"{name}: expected constants in the precision of its input, as in "
                        f"jnp.asarray(W, z.dtype), got an array of float64 of shape {array.shape}"
                    )


def _constants(traced: ClosedJaxpr) -> Iterator[Any]:
    yield from traced.consts
    for equation in traced.jaxpr.eqns:
        for given in equation.params.values():
            for each in given if isinstance(given, tuple | list) else (given,):
                if isinstance(each, ClosedJaxpr):
                    yield from _constants(each)


def _taken_from(constant: np.ndarray, array: np.ndarray | jax.Array) -> bool:
    return bool(np.isin(constant.astype(np.float32), np.asarray(array).astype(np.float32)).all())


def _arrays(function: object) -> Iterator[np.ndarray | jax.Array]:
    """The arrays of float64 among all that a function refers to, in what it is made of and in globals."""
    waiting, seen = [function], {}
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value  # kept alive, so that no id is given out twice
        if isinstance(value, np.ndarray | jax.Array):
            if value.dtype == np.float64:
                yield value
        elif home_of(value) not in LIBRARIES:
            waiting.extend(_parts(value))


def _parts(value: object) -> Iterator[object]:
    if isinstance(value, types.FunctionType):
        yield from (value.__defaults__ or ())
        yield from (value.__kwdefaults__ or {}).values()
        yield from _cells(value)
        yield from (value.__globals__[name] for name in _names(value.__code__) if name in value.__globals__)
    elif isinstance(value, types.MethodType):
        yield from (value.__func__, value.__self__)
    elif isinstance(value, functools.partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, tuple | list | set | frozenset):
        yield from value
    elif hasattr(value, "__wrapped__"):  # by jax.jit and its like
        yield value.__wrapped__
    elif not isinstance(value, types.ModuleType | type):
        yield from vars(value).values() if hasattr(value, "__dict__") else ()
        yield vars(type(value)).get("__call__")


def _cells(function: types.FunctionType) -> Iterator[object]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not assigned yet
            continue


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)

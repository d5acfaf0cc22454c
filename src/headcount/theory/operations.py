"""How many operations a JAX function takes: what rounding grows with."""

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr
from jaxtyping import Array


def operations_of(function: Callable[..., Array], inputs: int) -> int:
    """The numbers that a function of one point computes, and those that its sums add up.

    >>> operations_of(lambda x: jnp.sum(2 * x), 3)
    6
    """
    return _counted(jax.make_jaxpr(function)(jnp.zeros(inputs)).jaxpr)


def _counted(jaxpr: Jaxpr) -> int:
    total = 0
    for equation in jaxpr.eqns:
        inside = list(_inside(equation.params.values()))
        if inside:
            total += equation.params.get("length", 1) * sum(map(_counted, inside))
        else:
            numbers = (*equation.invars, *equation.outvars)
            total += max(prod(getattr(each.aval, "shape", ())) for each in numbers)
    return total


def _inside(parameters: Any) -> Iterator[Jaxpr]:
    for each in parameters:
        if isinstance(each, ClosedJaxpr):
            yield each.jaxpr
        elif isinstance(each, Jaxpr):
            yield each
        elif isinstance(each, tuple | list):
            yield from _inside(each)

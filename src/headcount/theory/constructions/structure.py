"""What a function on the unit cube is made of, and the network that this allows."""

import numpy as np

from headcount.theory.constructions.fit import fit
from headcount.theory.constructions.ridge import ridge
from headcount.theory.constructions.shallow import Function, Shallow, additive, evaluated, everywhere

_MIXED = 1e-9  # a mixed difference below this, relative to the function's spread, counts as none


def network_of(function: Function, inputs: int, tolerance: float, *, seed: int = 0) -> Shallow:
    """By knots where a function is a sum over the axes, or one of a single direction; fitted otherwise.

    Structure is found by looking, so a network by knots must also pass a search of the whole cube.
    """
    if inputs == 1:
        return additive(function, inputs, tolerance)  # which looks along the one axis there is
    if is_additive(function, inputs, seed=seed):
        summed = everywhere(additive(function, inputs, tolerance), function, inputs)
        if summed.error <= tolerance:
            return summed
    return ridge(function, inputs, tolerance) or fit(function, inputs, tolerance, seed=seed)


def is_additive(function: Function, inputs: int, *, seed: int = 0) -> bool:
    """Whether no two inputs act on each other: all mixed differences vanish, at random places and corners."""
    random = np.random.default_rng(seed)
    places = random.uniform(size=(2, 1024, inputs))
    places[:, ::2] = places[:, ::2].round()
    base, moved = places
    part = random.uniform(size=base.shape) < 0.5
    one, other = np.where(part, moved, base), np.where(part, base, moved)
    a, b, c, d = (evaluated(function, x) for x in (base, one, other, moved))
    spread = np.ptp(np.concatenate([a, b, c, d]), axis=0)
    return bool((np.abs(a - b - c + d).max(axis=0) <= _MIXED * spread).all())

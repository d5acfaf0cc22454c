"""The parameters of `HeadCount`: their old names, and what `fit` makes of them."""

import functools
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec

import numpy as np

from headcount.errors import InvalidInput
from headcount.trials.training import MAX_SEED
from headcount.validation import check_integer, expected

Parameters = ParamSpec("Parameters")
Sampler = Callable[[int, int, int], Any]
RandomState = int | np.random.RandomState | np.random.Generator | None

MAX_RANDOM_STATE = MAX_SEED - 8  # members start from this seed and a few after it


def with_old_names(**renamed: str) -> Callable[[Callable[Parameters, None]], Callable[Parameters, None]]:
    """Accept old names of keyword arguments for one release, with a warning."""

    def decorated(function: Callable[Parameters, None]) -> Callable[Parameters, None]:
        @functools.wraps(function)
        def called(*args: Any, **given: Any) -> None:
            for old in given.keys() & renamed.keys():
                if renamed[old] in given:
                    raise TypeError(f"{old}= and {renamed[old]}= are one argument: expected one of them")
                warnings.warn(f"{old}= is now {renamed[old]}=", FutureWarning, stacklevel=2)
                given[renamed[old]] = given.pop(old)
            function(*args, **given)

        return called

    return decorated


def seed_of(random_state: RandomState) -> int:
    """The seed of one `fit`; from a generator, the next one that it draws."""
    match random_state:
        case None:
            return int(np.random.default_rng().integers(MAX_RANDOM_STATE))
        case np.random.RandomState():
            return int(random_state.randint(MAX_RANDOM_STATE))
        case np.random.Generator():
            return int(random_state.integers(MAX_RANDOM_STATE))
    return check_integer("random_state", random_state, at_least=0, at_most=MAX_RANDOM_STATE)


def sampled(sampler: Sampler, seed: int, samples: int, length: int) -> Any:
    """Sequences from a user's sampler, in the shape that was asked for."""
    x = sampler(seed, samples, length)
    shape = getattr(x, "shape", None)
    if tuple((shape or ())[:2]) != (samples, length):
        raise InvalidInput(f"sampler: expected the shape ({samples}, {length}, token_dim), got {shape}")
    return x


@contextmanager
def folder_of(out: Path | str | None) -> Iterator[Path]:
    """The folder for the trained members; None means one that is removed afterwards."""
    if out is None:
        with tempfile.TemporaryDirectory(prefix="headcount-") as temporary:
            yield Path(temporary)
        return
    if out == "":
        raise expected("out", "a path or None", out)
    try:
        folder = Path(out)
    except TypeError:
        raise expected("out", "a path or None", out) from None
    yield folder

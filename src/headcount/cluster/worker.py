"""What a worker does: train a pack and return its rows. It writes nothing to disk but compiled programs."""

import io
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import jax

from headcount.cluster.payload import Payload, unpack, with_data
from headcount.engine.train import trainer_of
from headcount.results.store import write_model
from headcount.trials.machine import DeviceKind, Machine, this_machine
from headcount.trials.pack import Pack
from headcount.trials.row import Row

# One core for each worker: the threads of several workers would slow each other down.
ONE_CORE = ("NPROC", "PJRT_NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

# A worker allocates GPU memory as it needs it: Ray starts the next worker while the previous one is still
# ending, and by default JAX would take most of the memory at once. Packs fill half of what JAX may take.
AS_NEEDED = ("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
MAX_CHARACTERS = 300  # of a reason
GPU_FIRST = "cuda,cpu"  # explicit, so that JAX reports why CUDA cannot be used

_opened: dict[str, Payload] = {}  # the last one alone: a worker may serve many sweeps


class DeviceUnavailable(Exception):
    """A worker without the device it was scheduled on: a failure of the node and not of the pack."""


@dataclass(frozen=True)
class Trained:
    """The rows of a pack and, if asked for, its models as the bytes of files for the store."""

    rows: tuple[Row, ...]
    models: tuple[bytes, ...] = ()


def train_pack(pack: Pack, kind: DeviceKind, payload: Sequence[Any], keep_models: bool) -> Trained:
    """The pack, trained on this worker from its first step to its last."""
    machine = machine_of_worker(kind)
    for opened in open_payload(payload):
        pack = with_data(pack, opened.data)
    began = time.perf_counter()
    training = trainer_of(pack.trials[0]).train(pack, machine)
    training.finish()
    outcomes = training.outcomes()
    each = (time.perf_counter() - began) / len(pack.trials)
    rows = tuple(Row.of(*pair, machine, seconds=each) for pair in zip(pack.trials, outcomes, strict=True))
    if not keep_models:
        return Trained(rows)
    files = [io.BytesIO() for _ in outcomes]
    for outcome, file in zip(outcomes, files, strict=True):
        write_model(outcome, file)
    return Trained(rows, tuple(file.getvalue() for file in files))


@cache
def machine_of_worker(kind: DeviceKind) -> Machine:
    """The device of this worker: its GPU, or one core; raises DeviceUnavailable where JAX cannot use it."""
    if kind == "cpu":
        os.environ.update(dict.fromkeys(ONE_CORE, "1"))  # read when the first program is compiled
        jax.config.update("jax_platforms", "cpu")
    else:
        os.environ.setdefault(*AS_NEEDED)
        if not jax.config.values["jax_platforms"]:
            jax.config.update("jax_platforms", GPU_FIRST)
    try:
        machine = this_machine()
    except RuntimeError as error:  # from a backend that does not start
        raise DeviceUnavailable(f"JAX cannot use its {kind.upper()}: {error}") from None
    if machine.kind != kind:
        raise DeviceUnavailable(f"JAX finds no {kind.upper()} but {machine.name}")
    if kind == "gpu" and machine.lanes > 1:
        raise DeviceUnavailable(f"JAX finds {machine.lanes} GPUs, but Ray has reserved one")
    return replace(machine, lanes=1)


def reason_of(error: BaseException) -> str:
    r"""The type and message of an error in one line; where Ray wraps what a worker raised, of the latter.

    >>> reason_of(ValueError("two\nlines"))
    'ValueError: two lines'
    """
    cause = getattr(error, "cause", None)
    found = cause if isinstance(cause, BaseException) else error
    text = str(found).strip()
    if "Traceback (most recent call last)" in text:  # whose last line has the type and the message
        return text.splitlines()[-1].strip()[:MAX_CHARACTERS]
    return f"{type(found).__name__}: {' '.join(text.split())}"[:MAX_CHARACTERS]


def open_payload(payload: Sequence[Any]) -> list[Payload]:
    """Unpack what the trials need, once for all packs of a sweep; Ray resolves no references in a list."""
    import ray

    names = [part.hex() for part in payload]
    for name in set(_opened) - set(names):
        del _opened[name]
    for name, part in zip(names, payload, strict=True):
        if name not in _opened:
            _opened[name] = unpack(ray.get(part))
    return [_opened[name] for name in names]

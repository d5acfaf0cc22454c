"""What a worker does: train a pack and hand back its rows. Its disk keeps compiled programs alone."""

import io
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import jax

from headcount.cluster.payload import Payload, unpack
from headcount.engine.device import this_machine
from headcount.engine.trainers import trainer_of
from headcount.results.store import write_model
from headcount.trials.machine import DeviceKind, Machine
from headcount.trials.pack import Pack
from headcount.trials.row import Row

# One core for each worker: threads of several workers would only get into each other's way.
ONE_CORE = ("NPROC", "PJRT_NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

# A worker on a GPU takes memory as it needs it, and not most of the card at once: Ray starts the next one
# while the last one is still ending. Packs fill half of what JAX may take, so that there is room for both.
AS_NEEDED = ("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
GPU_FIRST = "cuda,cpu"  # named, so that JAX says why the first cannot be had

_opened: dict[str, Payload] = {}  # the last one alone: a worker may serve many sweeps


class Unfit(Exception):
    """A worker that has not got the device it was given: the node's fault, and not the pack's."""


@dataclass(frozen=True)
class Trained:
    """The rows of a pack, and its models as the files that a store keeps, where they were asked for."""

    rows: tuple[Row, ...]
    models: tuple[bytes, ...] = ()


def train_pack(pack: Pack, kind: DeviceKind, payload: Sequence[Any], keep_models: bool) -> Trained:
    """The pack, trained on this worker from its first step to its last."""
    machine = machine_of_worker(kind)
    for opened in open_payload(payload):
        pack = opened.give_data(pack)
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
    """The device of this worker: its GPU, or one core; where it has not got that it is unfit."""
    if kind == "cpu":
        os.environ.update(dict.fromkeys(ONE_CORE, "1"))  # read when the first program is compiled
        jax.config.update("jax_platforms", "cpu")
    else:
        os.environ.setdefault(*AS_NEEDED)
        if not jax.config.values["jax_platforms"]:
            jax.config.update("jax_platforms", GPU_FIRST)
    try:
        machine = this_machine()
    except RuntimeError as error:  # of a backend that does not start
        raise Unfit(f"JAX cannot use its {kind.upper()}: {error}") from None
    if machine.kind != kind:
        raise Unfit(f"JAX finds no {kind.upper()} there, but {machine.name}")
    if kind == "gpu" and machine.lanes > 1:
        raise Unfit(f"JAX finds {machine.lanes} GPUs, though Ray has set aside one of them")
    return replace(machine, lanes=1)


def open_payload(payload: Sequence[Any]) -> list[Payload]:
    """What the trials need, opened once for all packs of a sweep; it lies in the object store, in a list."""
    import ray

    names = [part.hex() for part in payload]
    for name in set(_opened) - set(names):
        del _opened[name]
    for name, part in zip(names, payload, strict=True):
        if name not in _opened:
            _opened[name] = unpack(ray.get(part))
    return [_opened[name] for name in names]

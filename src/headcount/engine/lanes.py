"""How a program for one member runs for all members of a pack: at once on a GPU, core by core on a CPU.

Several GPUs share the members out evenly. None needs to know of another's, so that nothing is exchanged.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from threading import Lock
from typing import Any, TypeVar

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spread

from headcount.trials.machine import Machine

Tree = TypeVar("Tree")
Program = Callable[..., Any]

# On a GPU the compiler writes kernels for the matrix products and tries each in many variants. A program
# that runs for a short while is done sooner with the kernels that a library has ready, the first that fits.
QUICK_TO_COMPILE: dict[str, str | bool | int] = {
    "xla_gpu_enable_triton_gemm": False,
    "xla_gpu_autotune_level": 0,
}

UNKNOWN_OPTION = "No such compile option"  # what the compiler says of an option that it has not got

# Programs kept ready. Packs of one shape are trained one after the other and an estimate has about twenty
# shapes, so that more would only fill memory, some MB each; what is needed again is read from the disk.
MAX_PROGRAMS = 64


class Programs:
    """The programs used last, each compiled once even where several threads ask for it at a time."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.compiling = Stopwatch()
        self._entries: OrderedDict[Any, _Entry] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Any, compile: Callable[[], Any]) -> Any:
        """The program of this key, compiled where it is not there."""
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            if len(self._entries) > self.size:
                self._entries.popitem(last=False)
        with entry.lock:
            if entry.program is None:
                with self.compiling:
                    entry.program = compile()
            return entry.program


@dataclass
class _Entry:
    lock: Lock = field(default_factory=Lock)
    program: Any = None


class Stopwatch:
    """The seconds in which one thread or more was inside."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._inside, self._began = 0, 0.0
        self._lock = Lock()

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._began = time.perf_counter()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self.seconds += time.perf_counter() - self._began


_programs = Programs(MAX_PROGRAMS)


def compile_seconds() -> float:
    """For how long this process has compiled programs for members, or read them from the disk."""
    return _programs.compiling.seconds


def for_each_member(
    program: Program, each: tuple[Any, ...], shared: tuple[Any, ...], machine: Machine, *, tuned: bool = False
) -> Any:
    """program(*each member's own, *shared) for every member; results have a leading member axis again.

    `tuned` spends longer on compiling for a GPU, for a program that runs long.

    `program` is a module-level function or a `functools.partial` of one, so that its compiled form is
    found again for the same shapes.
    """
    call, count = compiled(program, each, shared, machine, tuned=tuned), _count(each)
    if machine.kind == "gpu":
        found = call(*_spread(each, machine), *on_all_devices(shared, machine))
        return jax.tree.map(lambda leaf: leaf[:count], found) if count % machine.lanes else found
    members = [_member(each, place) for place in range(count)]
    return stack(_cores(machine.lanes).map(lambda mine: jax.device_get(call(*mine, *shared)), members))


def compiled(
    program: Program, each: tuple[Any, ...], shared: tuple[Any, ...], machine: Machine, *, tuned: bool = False
) -> Any:
    """What `for_each_member` calls, made ready and not called: for all members, or for one on a CPU."""
    if machine.kind == "gpu":
        axes = (0,) * len(each) + (None,) * len(shared)
        arguments = (*_spread(each, machine), *on_all_devices(shared, machine))
        return _executable(program, arguments, axes, None if tuned else QUICK_TO_COMPILE, machine.lanes)
    return _executable(program, (*_member(each, 0), *shared), None, None)


def on_all_devices(shared: Tree, machine: Machine) -> Tree:
    """What all members share, on each of several devices; what is there already does not move."""
    if machine.kind == "cpu" or machine.lanes == 1:
        return shared
    placed: Tree = jax.device_put(shared, NamedSharding(_devices(machine.lanes), Spread()))
    return placed


def _spread(each: tuple[Any, ...], machine: Machine) -> tuple[Any, ...]:
    """As many members on every GPU, the last one again where they do not go round."""
    if machine.lanes == 1:
        return each
    places = np.arange(_count(each) + -_count(each) % machine.lanes).clip(max=_count(each) - 1)
    full = each if len(places) == _count(each) else jax.tree.map(lambda leaf: leaf[places], each)
    spread: tuple[Any, ...] = jax.device_put(full, NamedSharding(_devices(machine.lanes), Spread("member")))
    return spread


@cache
def _devices(count: int) -> Mesh:
    return Mesh(np.array(jax.local_devices()[:count]), ("member",))


def _count(each: tuple[Any, ...]) -> int:
    return len(jax.tree.leaves(each)[0])


def _member(each: tuple[Any, ...], place: int) -> tuple[Any, ...]:
    one: tuple[Any, ...] = jax.tree.map(lambda leaf: np.asarray(leaf)[place], each)
    return one


def stack(trees: Iterable[Tree]) -> Tree:
    """Trees of one structure as one tree with a leading member axis, on the host."""
    stacked: Tree = jax.tree.map(lambda *leaves: np.stack(leaves), *trees)
    return stacked


def _executable(
    program: Program,
    arguments: tuple[Any, ...],
    axes: tuple[int | None, ...] | None,
    compiler_options: dict[str, str | bool | int] | None,
    devices: int = 1,
) -> Any:
    """The program compiled for these shapes, once for all packs that have them."""
    leaves, structure = jax.tree.flatten(arguments)
    function, options = getattr(program, "func", program), getattr(program, "keywords", {})
    shapes = tuple((np.shape(leaf), str(leaf.dtype)) for leaf in leaves)
    key = (function, tuple(options.items()), axes, compiler_options is None, devices, structure, shapes)

    def compile() -> Any:
        batched = program if axes is None else jax.vmap(program, axes)
        if devices > 1 and axes is not None:
            specs = tuple(Spread() if axis is None else Spread("member") for axis in axes)
            batched = jax.shard_map(
                batched, mesh=_devices(devices), in_specs=specs, out_specs=Spread("member"), check_vma=False
            )
        return compiled_with(jax.jit(batched).lower(*arguments), compiler_options)

    return _programs.get(key, compile)


def compiled_with(lowered: Any, options: dict[str, str | bool | int] | None) -> Any:
    """The program compiled with these options, or with none where the compiler does not know them."""
    try:
        return lowered.compile(compiler_options=options)
    except jax.errors.JaxRuntimeError as error:
        if options is None or UNKNOWN_OPTION not in str(error):
            raise
        return lowered.compile()


@cache
def _cores(lanes: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(lanes, thread_name_prefix="headcount-core")

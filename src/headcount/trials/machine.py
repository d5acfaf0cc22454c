"""The machine that packs are planned for: a GPU or cores, what it can hold, and what JAX finds here."""

import os
import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import jax

DeviceKind = Literal["cpu", "gpu"]

WORTH_KEEPING = 0.1  # seconds of compiling; reading a program takes a few hundredths


@dataclass(frozen=True)
class Machine:
    """Where packs run. A GPU takes a pack as one vmapped program; a CPU runs a member on each core.

    - `lanes`: cores, with a member on each; or GPUs, with a share of the pack on each.
    - `memory`: bytes that members may fill.
    - `pack_seconds`: about how long a pack may take here; None where nobody waits for a pack as a whole.
    """

    kind: DeviceKind
    name: str
    lanes: int
    memory: int
    pack_seconds: float | None = None

    @property
    def memory_for_one(self) -> int:
        """Bytes that one member may fill: it lies on one GPU, however many there are."""
        return self.memory // self.lanes if self.kind == "gpu" else self.memory

    def holding(self, needed: int) -> int:
        """How many members fit, each of which needs this many bytes."""
        if self.kind == "gpu":
            return self.lanes * (self.memory_for_one // needed)
        return self.memory // needed


@cache
def this_machine() -> Machine:
    """The device that JAX would use. Turns on the persistent compilation cache."""
    _use_compilation_cache()
    devices = jax.local_devices()
    device = devices[0]
    if device.platform == "cpu":
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return Machine("cpu", f"{_processor()}, {cores} cores", cores, _physical_memory() // 4)
    limit = int((device.memory_stats() or {}).get("bytes_limit", 8 << 30))
    # The rest is for the data, for copies that the compiler makes and for a neighbour on the card.
    name = device.device_kind if len(devices) == 1 else f"{len(devices)} × {device.device_kind}"
    return Machine("gpu", name, len(devices), len(devices) * limit // 2)


def _use_compilation_cache() -> None:
    """Programs compiled once are read from disk the next time, unless the user chose a folder already."""
    if jax.config.values["jax_compilation_cache_dir"] is None:
        chosen = os.environ.get("HEADCOUNT_CACHE")
        try:
            home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache" if not chosen else ""
            folder = Path(chosen or Path(home) / "headcount")
            (folder / "programs").mkdir(parents=True, exist_ok=True)
        except (OSError, RuntimeError):
            return  # a cache is a convenience: without one there is only more compiling
        if not os.access(folder / "programs", os.W_OK):
            return
        jax.config.update("jax_compilation_cache_dir", str(folder / "programs"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", WORTH_KEEPING)


def _processor() -> str:
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        for line in listing.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _physical_memory() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return 4 << 30

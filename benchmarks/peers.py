"""A step of the paper's model by every peer: what a user would otherwise write, in one run.

    python benchmarks/peers.py                            every peer and size that this machine has time for
    python benchmarks/peers.py --sizes 128x1 --members 8  T = 128 and one layer, 8 members
    python benchmarks/peers.py --seconds 2                of training for each, after compiling

Peers: PyTorch one model after another, as it stands and with `torch.compile`; PyTorch models stacked by
`torch.func`, as it stands and compiled; equinox under `vmap`, as its documentation shows; and this engine.
All train the same model (h = 4, n = 8, N = 32, batch 256) with AdamW and clipping by a gradient's norm, on
one data set that lies on the device. Models that follow one another take as long each, however many: one is
timed. Of each: microseconds of a step and member, seconds until the first step is done, and the memory that
it takes on a GPU. Writes benchmarks/results/peers-KIND.json, a row for each; what has a row is not run again.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import jax
import numpy as np
import torch
from peers_jax import engine, equinox_vmap
from peers_torch import one_after_another, stacked
from recording import RESULTS, about, parser_of, write_json

from headcount.trials.machine import this_machine

SIZES = ("128x1", "16x1", "128x2", "16x2")  # T x L
MEMBERS = (1, 8, 64, 512)
MAX_MEMBERS = {"cpu": 64, "gpu": 512}


class Size(NamedTuple):
    """What is trained: T, L and how many members."""

    length: int
    layers: int
    members: int


# A peer makes its models and hands back how to make so many steps or a few more; it says how many it made.
Peer = Callable[[Size], Callable[[int], int]]
PEERS: dict[str, Peer] = {
    "PyTorch": one_after_another,
    "PyTorch, torch.compile": lambda size: one_after_another(size, compiled=True),
    "PyTorch, torch.func": stacked,
    "PyTorch, torch.func and torch.compile": lambda size: stacked(size, compiled=True),
    "equinox, vmap": equinox_vmap,
    "headcount": engine,
}
ALONE = ("PyTorch", "PyTorch, torch.compile")


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=SIZES)
    parser.add_argument("--members", type=int, nargs="+", default=MEMBERS)
    parser.add_argument("--peers", nargs="+", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--seconds", type=float, default=3.0)
    chosen = parser.parse_args()
    kind = this_machine().kind
    jax.config.update("jax_enable_compilation_cache", False)  # compiling is part of what is measured
    path = RESULTS / f"peers-{kind}.json"
    rows: list[dict[str, Any]] = json.loads(path.read_text())["rows"] if path.exists() else []
    for peer, size in wanted(chosen.peers, chosen.sizes, chosen.members, kind):
        if any((row["peer"], *(row[name] for name in Size._fields)) == (peer, *size) for row in rows):
            continue
        row = {"peer": peer, **size._asdict(), **measured(PEERS[peer], peer, size, chosen.seconds)}
        rows.append(row)
        write_json(path, {**about(f"torch {torch.__version__}"), "rows": rows}, indent=1)
        print(row, flush=True)


def wanted(
    peers: Sequence[str], sizes: Sequence[str], members: Sequence[int], kind: str
) -> Iterator[tuple[str, Size]]:
    """Peers that train one model after another are timed with one."""
    for text, peer in product(sizes, peers):
        length, layers = map(int, text.split("x"))
        counts = (1,) if peer in ALONE else [count for count in members if count <= MAX_MEMBERS[kind]]
        yield from ((peer, Size(length, layers, count)) for count in counts)


def measured(peer: Peer, name: str, size: Size, seconds: float) -> dict[str, Any]:
    """Or why there is no number."""
    try:
        began = time.perf_counter()
        run = peer(size)
        run(1)
        first = time.perf_counter() - began
        steps = max(1, round(seconds / 3 / per_step(run, 2)))
        times = [per_step(run, steps) for _ in range(3)]
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"}
    found = {"step_us": float(np.median(times)) / size.members * 1e6, "first_step_seconds": first}
    return {**found, "gpu_mib": gpu_mib(name)}


def per_step(run: Callable[[int], int], steps: int) -> float:
    began = time.perf_counter()
    made = run(steps)
    return (time.perf_counter() - began) / made


def gpu_mib(name: str) -> float | None:
    """The most that a peer took on the GPU; JAX reports the most since the process began."""
    if name.startswith("PyTorch"):
        most = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None
        if most is not None:
            torch.cuda.reset_peak_memory_stats()
    else:
        most = (jax.local_devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
    return None if most is None else most / 2**20


if __name__ == "__main__":
    main()

"""Which way of reading a batch is fastest on this machine, and is it in full precision?

    python benchmarks/kernels.py                  every way that runs here, on every size
    python benchmarks/kernels.py --members 8 --seconds 1 --sizes 2      smaller

Members of the paper's synthetic model are trained: sequences one at a time under `vmap`, in batches, and on a
GPU by the kernels of models/fused.py with several launches. Of each: compiling, seconds of a whole step and
member, and the relative error of a gradient in float32 against float64. Writes
benchmarks/results/kernels-KIND.json, a row for each way and size; what has a row is not measured again.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from packs import pack_of
from recording import RESULTS, about, parser_of, write_json

from headcount.engine.member import Slicing
from headcount.engine.train import PackTraining
from headcount.models.batches import Batched, Launch
from headcount.models.transformer import Transformer
from headcount.trials.machine import this_machine

SIZES = ((128, 4, 8), (16, 4, 8), (32, 8, 4), (64, 1, 32))  # T, h, n
LAUNCHES = tuple(Launch(sequences, warps) for sequences, warps in ((4, 1), (8, 1), (4, 2)))


class Chosen(PackTraining):
    """A training whose way of reading is given."""

    way: Slicing

    @property
    def slicing(self) -> Slicing:
        return self.way


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--members", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=2.0, help="of training for each way")
    parser.add_argument("--sizes", type=int, default=len(SIZES), help="how many of the sizes")
    chosen = parser.parse_args()
    kind = this_machine().kind
    path = RESULTS / f"kernels-{kind}.json"
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    known = {(row["way"], row["length"], row["heads"], row["members"]) for row in rows}
    for length, heads, head_dim in SIZES[: chosen.sizes]:
        pack = pack_of(chosen.members, length=length, heads=heads, head_dim=head_dim)
        training = Chosen(pack, this_machine())
        for name, way in ways(kind, training):
            if (name, length, heads, chosen.members) in known:
                continue
            size = {"way": name, "length": length, "heads": heads, "members": chosen.members}
            row = {**size, **measured(training, way, chosen.seconds)}
            rows.append(row)
            write_json(path, {**about(), "rows": rows})
            print(row, flush=True)


def ways(kind: str, training: PackTraining) -> Iterator[tuple[str, Slicing]]:
    usual = PackTraining(training.pack, training.machine).slicing
    yield "one sequence at a time", usual._replace(in_batches=False)
    yield "in batches", usual._replace(in_batches=True)
    if kind == "gpu":
        for launch in LAUNCHES:
            name = f"kernel, {launch.sequences} sequences, {launch.warps} warps"
            yield name, usual._replace(in_batches=True, launch=launch)


def measured(training: Chosen, way: Slicing, seconds: float) -> dict[str, Any]:
    """Seconds to compile and of a step and member, and the error of a gradient; or why there are none."""
    training.way, training.tuned = way, True
    try:
        compiling = training.compile()
        training._advance(1)
        began = time.perf_counter()
        training._advance(1)
        once = time.perf_counter() - began
        periods = max(2, round(seconds / once))
        began = time.perf_counter()
        training._advance(periods)
        spent = time.perf_counter() - began
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {str(error)[:300]}"}
    steps = periods * training.training.evaluate_every * len(training.pack.trials)
    launch = None if way.launch is None else asdict(way.launch)
    found = {"compile_seconds": compiling, "step_us": spent / steps * 1e6, "launch": launch}
    return {**found, "gradient_error": gradient_error(training, way)}


def gradient_error(training: Chosen, way: Slicing) -> float:
    """|g - g64| / |g64| of the first member's loss over 64 sequences, g64 in float64 on a CPU."""
    x = np.asarray(training.data.train.x)[0, :64]
    y = np.asarray(training.data.train.y)[0, :64]
    model = Transformer.initialise(training.pack.trials[0].architecture, seed=0)

    def flat(gradient: Transformer) -> np.ndarray:
        return np.concatenate([np.ravel(np.asarray(leaf, np.float64)) for leaf in jax.tree.leaves(gradient)])

    def loss(model: Transformer, x: jax.Array, y: jax.Array, way: Slicing) -> jax.Array:
        if way.in_batches:
            predicted = Batched.of(model, x.shape[1], launch=way.launch)(x)
        else:
            predicted = jax.vmap(model)(x)
        return jnp.mean((predicted - y) ** 2)

    found = flat(jax.jit(jax.grad(loss), static_argnums=3)(model, x, y, way))
    with jax.enable_x64(True), jax.default_device(jax.local_devices(backend="cpu")[0]):
        exact = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), (model, x, y))
        wanted = flat(jax.jit(jax.grad(loss), static_argnums=3)(*exact, Slicing(64)))
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


if __name__ == "__main__":
    main()

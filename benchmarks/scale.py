"""What the engine promises of a device: one compile for a column of head counts, memory that never runs
out, and full float32 products.

    python benchmarks/scale.py                   10,000 members on a GPU, 200 on a CPU

Writes benchmarks/results/scale-<kind>.json.
"""

import math
import resource
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from recording import RESULTS, about, parser_of, write_json

from headcount.engine.lanes import QUICK_TO_COMPILE
from headcount.engine.train import PackTraining
from headcount.models.architecture import Architecture
from headcount.models.pooling import pool_for_training
from headcount.models.transformer import Transformer
from headcount.trials.grid import Grid
from headcount.trials.machine import this_machine
from headcount.trials.pack import plan
from headcount.trials.task_choice import TaskChoice
from headcount.trials.training import Training


def product_error(compiler_options: dict[str, Any] | None) -> float:
    """Relative error of a training gradient against float64 on the host: TF32 would show as about 3e-4."""
    architecture = Architecture(
        token_dim=64, heads=8, head_dim=32, encoder_hidden=(256,), readout_hidden=(256,)
    )
    model = Transformer.initialise(architecture, seed=0)
    x = np.random.default_rng(0).normal(size=(64, 128, 64)).astype(np.float32)

    def loss(model: Transformer, x: Array) -> Array:
        return jnp.mean(jax.vmap(lambda sequence: model(sequence, pool=pool_for_training))(x) ** 2)

    def flat(gradient: Transformer) -> np.ndarray:
        return np.concatenate([np.asarray(leaf, np.float64).ravel() for leaf in jax.tree.leaves(gradient)])

    lowered = jax.jit(jax.grad(loss)).lower(model, x)
    fast = flat(lowered.compile(compiler_options=compiler_options)(model, x))
    with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
        double = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), model)
        exact = flat(jax.grad(loss)(double, x.astype(np.float64)))
    return float(np.linalg.norm(fast - exact) / np.linalg.norm(exact))


def column() -> dict[str, Any]:
    """A column h = 1..5 at T = 128: its shapes, and compiling against running, tuned and not."""
    machine = this_machine()
    grid = Grid(TaskChoice.of("max_sum"), length=(128,), heads=(1, 2, 3, 4, 5), seed=tuple(range(8)))
    packs = plan(grid.trials(), machine)
    measured = {}
    for tuned in (False, True):
        training = PackTraining(packs[0], machine)
        as_planned, training.tuned = training.tuned, tuned
        compiling = training.compile()
        training.chunk()
        before, began = training.step, time.perf_counter()
        training.chunk()
        steps = (training.step - before) * len(packs[0].trials)
        measured["tuned" if tuned else "quick"] = {
            "compile_seconds": compiling,
            "step_us": 1e6 * (time.perf_counter() - began) / steps,
        }
    quick, tuned_ = measured["quick"], measured["tuned"]
    gain = (quick["step_us"] - tuned_["step_us"]) * 1e-6
    paid = tuned_["compile_seconds"] - quick["compile_seconds"]
    tokens_a_step = training.training.batch_size * packs[0].length
    return {
        "shapes": len({pack.architecture for pack in packs}),
        "packs": len(packs),
        "planned": "tuned" if as_planned else "quick",
        "compile_seconds": measured["tuned" if as_planned else "quick"]["compile_seconds"],
        **measured,
        "break_even_tokens": paid / gain * tokens_a_step if min(gain, paid) > 0 else None,
    }


def many(members: int) -> dict[str, Any]:
    """A grid of many members for a hundred steps, at the size of the paper's largest cell."""
    machine = this_machine()
    grid = Grid(
        TaskChoice.of("max_sum"),
        length=(128,),
        heads=(1, 2, 3, 4, 5),
        seed=tuple(range(members // 5)),
        training=Training(steps=20, evaluate_every=20),
    )
    began = time.perf_counter()
    packs = plan(grid.trials(), machine)
    planning = time.perf_counter() - began
    finite = 0
    for pack in packs:
        training = PackTraining(pack, machine)
        while not training.finished:
            training.chunk()
        finite += sum(math.isfinite(outcome.test_error) for outcome in training.outcomes())
    peak = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
    return {
        "members": members,
        "packs": len(packs),
        "largest_pack": max(len(pack.trials) for pack in packs),
        "finite": finite,
        "planning_seconds": planning,
        "seconds": time.perf_counter() - began,
        "peak_device_gib": None if peak is None else peak / 2**30,
        "peak_host_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def main() -> None:
    machine = this_machine()
    parser = parser_of(__doc__)
    parser.add_argument("--members", type=int, default=10_000 if machine.kind == "gpu" else 200)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    jax.config.update("jax_enable_compilation_cache", False)
    result = {
        **about(),
        "kind": machine.kind,
        "memory_gib": machine.memory / 2**30,
        "relative_gradient_error": {
            "quick": product_error(QUICK_TO_COMPILE if machine.kind == "gpu" else None),
            "tuned": product_error(None),
        },
        "column": column(),
        "many": many(arguments.members),
    }
    print(write_json(arguments.out / f"scale-{machine.kind}.json", result), end="")


if __name__ == "__main__":
    main()

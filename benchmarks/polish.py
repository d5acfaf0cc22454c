"""Levenberg–Marquardt: ours against optimistix's, from the same weights for ten steps.

    python benchmarks/polish.py

optimistix counts rejected steps, ours does not. Its direct solver (QR) builds the whole Jacobian by forward
mode, all weights times all samples: an estimated 70 GB at the paper's size, so only conjugate gradients run
there, which need no Jacobian. Seconds are CPU time; those of the small case without compilation.
Writes benchmarks/results/polish-cpu.json.
"""

import time
from typing import Any

import jax
import lineax as lx
import optimistix as optx
from recording import RESULTS, about, write_json

from headcount.engine.data import data_of
from headcount.engine.polish import _descend, _nmse, _of, _Problem
from headcount.engine.train import train
from headcount.trials.grid import Grid
from headcount.trials.task_choice import TaskChoice
from headcount.trials.training import Training

STEPS = 10
SOLVERS = {"qr": lx.QR(), "normal_cg": lx.Normal(lx.CG(rtol=1e-3, atol=1e-6, max_steps=1_000))}


def compare(samples: int, *solvers: str, runs: int, **shape: Any) -> dict[str, Any]:
    training = Training(steps=500, train_samples=samples, validation_samples=500, test_samples=500)
    task = TaskChoice.of("max_sum", token_dim=4)
    (trial,) = Grid(task, dimension=(4,), length=(8,), training=training, **shape).trials()
    (outcome,), (data, _) = train([trial]), data_of([trial])
    with jax.enable_x64(True):
        problem, start = _Problem.of(outcome.model, data, 0)
        x, y = _of(data.train, 0)

        def residuals(place: jax.Array, _: None) -> jax.Array:
            return jax.vmap(problem.residual, (None, 0, 0))(place, x, y)

        def place_by(name: str) -> jax.Array:
            if name == "ours":
                return _descend(problem, start, (x, y), (x, y), STEPS).best
            solver: Any = optx.LevenbergMarquardt(rtol=1e-12, atol=1e-12, linear_solver=SOLVERS[name])
            return optx.least_squares(residuals, solver, start, max_steps=STEPS, throw=False).value

        found: dict[str, Any] = {"weights": len(start), "samples": samples, "steps": STEPS}
        found["train_nmse_before"] = _nmse(problem, start, x, y)
        for name in ("ours", *solvers):
            for _ in range(runs):
                began = time.process_time()
                place = jax.block_until_ready(place_by(name))
                seconds = time.process_time() - began
            found[name] = {"cpu_seconds": round(seconds, 2), "train_nmse": _nmse(problem, place, x, y)}
    return found


def main() -> None:
    small = compare(500, "qr", "normal_cg", runs=2, heads=(2,), head_dim=(4,), hidden=(8,))
    full = compare(8_000, "normal_cg", runs=1, heads=(4,), head_dim=(8,), hidden=(32,))
    print(write_json(RESULTS / "polish-cpu.json", {**about(), "small": small, "paper_size": full}))


if __name__ == "__main__":
    main()

"""The pack engine against the loop that a user would write: eager PyTorch, one model after another.

    python benchmarks/engine.py                 on this machine's default device
    python benchmarks/engine.py --members 64    more members in the pack

Both sides train the paper's synthetic model (T = 128, h = 4, n = 8, N = 32, batch 256) with the same
maths: AdamW, warm-up and cosine, clipping, a validation pass every 100 steps. The PyTorch side attends with
`nn.MultiheadAttention` and one query row. That the two compute the same function is checked first, on the
engine's own start. Writes benchmarks/results/engine-<kind>.json.
"""

import math
import platform
import time
import timeit
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from recording import RESULTS, about, parser_of, write_json
from torch import nn

from headcount.engine.train import PackTraining
from headcount.models.architecture import Architecture
from headcount.models.transformer import Transformer
from headcount.trials.grid import Grid
from headcount.trials.machine import Machine, this_machine
from headcount.trials.pack import plan
from headcount.trials.task_choice import TaskChoice
from headcount.trials.training import Training

LENGTH, HEADS = 128, 4


class TorchTransformer(nn.Module):
    """The same model in the words of `torch.nn`."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        token_dim, hidden, width = architecture.encoder_sizes
        self.encoder = nn.Sequential(nn.Linear(token_dim, hidden), nn.ReLU(), nn.Linear(hidden, width))
        self.class_token = nn.Parameter(torch.randn(width))
        self.attention = nn.MultiheadAttention(width, architecture.heads, bias=False, batch_first=True)
        self.readout = nn.Sequential(
            nn.Linear(width, hidden), nn.GELU(approximate="tanh"), nn.Linear(hidden, architecture.output_dim)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = self.encoder(x)
        query = self.class_token.expand(len(x), 1, -1)
        read, _ = self.attention(query, tokens, tokens, need_weights=False)
        return self.readout((query + read)[:, 0])

    def load(self, model: Transformer) -> None:
        """Take over the weights of the engine's model."""
        width = model.architecture.width
        attention = model.attention
        factors = [
            np.asarray(f).reshape(width, width) for f in (attention.query, attention.key, attention.value)
        ]
        pairs: list[tuple[Any, Any]] = [
            (self.class_token, model.class_token),
            (self.attention.in_proj_weight, np.concatenate(factors)),
            (self.attention.out_proj.weight, np.asarray(attention.output).reshape(width, width)),
        ]
        for network, ours in ((self.encoder, model.encoder), (self.readout, model.readout)):
            layers: list[Any] = [network[0], network[2]]
            for layer, weight, bias in zip(layers, ours.weights, ours.biases, strict=True):
                pairs += [(layer.weight, weight), (layer.bias, bias)]
        with torch.no_grad():
            for parameter, value in pairs:
                parameter.copy_(torch.tensor(np.asarray(value)))


def disagreement(model: Transformer, x: np.ndarray, device: torch.device) -> float:
    """The largest difference of the two sides' outputs and input gradients at the same weights."""
    theirs = TorchTransformer(model.architecture).to(device)
    theirs.load(model)
    inputs = torch.tensor(x, device=device, requires_grad=True)
    outputs = theirs(inputs)
    outputs.sum().backward()
    assert inputs.grad is not None
    ours = jax.vmap(model)(jnp.asarray(x))
    gradient = jax.grad(lambda batch: jax.vmap(model)(batch).sum())(jnp.asarray(x))
    pairs = ((ours, outputs.detach()), (gradient, inputs.grad))
    return max(float(np.abs(np.asarray(a) - b.cpu().numpy()).max()) for a, b in pairs)


def torch_seconds(training: PackTraining, *, steps: int, device: torch.device) -> float:
    """Seconds per step and model of the eager loop."""
    recipe = training.training
    data = training.data
    arrays = (data.train.x, data.train.y, data.validation.x, data.validation.y)
    train_x, train_y, x, y = (torch.tensor(np.asarray(array)[0], device=device) for array in arrays)
    model = TorchTransformer(training.pack.architecture).to(device)
    model.load(Transformer.initialise(training.pack.architecture, seed=0))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=recipe.weight_decay)
    warmup = recipe.warmup or 1

    def rate(step: int) -> float:
        after = (step - warmup) / (recipe.steps - warmup)
        return step / warmup if step < warmup else 0.5 * (1 + math.cos(math.pi * after))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)

    def loop(count: int) -> None:
        for step in range(count):
            chosen = torch.randint(len(train_x), (recipe.batch_size,), device=device)
            loss = ((model(train_x[chosen]) - train_y[chosen]) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
            optimizer.step()
            schedule.step()
            if step % recipe.evaluate_every == recipe.evaluate_every - 1:
                with torch.no_grad():
                    ((model(x) - y) ** 2).mean().item()
        if device.type == "cuda":
            torch.cuda.synchronize()

    loop(10)
    began = time.perf_counter()
    loop(steps)
    return (time.perf_counter() - began) / steps


def engine_seconds(training: PackTraining) -> tuple[float, float]:
    """Seconds of compiling, and seconds per step and member, the median over chunks."""
    compiling = training.compile()
    training.chunk()
    timed = []
    while not training.finished:
        before, began = training.step, time.perf_counter()
        training.chunk()
        timed.append((time.perf_counter() - began) / (training.step - before))
    return compiling, float(np.median(timed)) / len(training.pack.trials)


def product_rate(machine: Machine) -> float:
    """FLOP/s of a large float32 matrix product on this device."""
    size = 8192 if machine.kind == "gpu" else 2048
    left = jax.random.normal(jax.random.PRNGKey(0), (size, size))
    product = jax.jit(lambda a: jnp.matmul(a, a, precision="highest"))
    product(left).block_until_ready()
    return 2 * size**3 / min(timeit.repeat(lambda: product(left).block_until_ready(), number=1))


def folded_flops(architecture: Architecture, batch_size: int) -> float:
    """Of one step: N (d + 2h) multiply-adds a token forward, twice that backward."""
    hidden = architecture.encoder_hidden[0]
    token = hidden * (architecture.token_dim + 2 * architecture.heads)
    return 2.0 * 3 * batch_size * LENGTH * token


def measure(members: int, steps: int, torch_steps: int) -> dict[str, Any]:
    machine = this_machine()
    jax.config.update("jax_enable_compilation_cache", False)  # compiling is part of what is measured
    grid = Grid(
        TaskChoice.of("max_sum"),
        length=(LENGTH,),
        heads=(HEADS,),
        seed=tuple(range(members)),
        training=Training(steps=steps),
    )
    pack = replace(plan(grid.trials(), machine)[0], trials=grid.trials())
    training = PackTraining(pack, machine)
    device = torch.device("cuda" if machine.kind == "gpu" else "cpu")
    difference = disagreement(
        Transformer.initialise(pack.architecture, seed=0), np.asarray(training.data.train.x)[0, :64], device
    )
    compiling, ours = engine_seconds(training)
    theirs = torch_seconds(training, steps=torch_steps, device=device)
    rate = product_rate(machine)
    reached = folded_flops(pack.architecture, training.training.batch_size) / ours
    return {
        **about(f"torch {torch.__version__}", f"python {platform.python_version()}"),
        "kind": machine.kind,
        "length": LENGTH,
        "heads": HEADS,
        "batch_size": training.training.batch_size,
        "members": members,
        "steps": steps,
        "largest_disagreement": difference,
        "torch_eager_us": theirs * 1e6,
        "engine_us": ours * 1e6,
        "ratio": theirs / ours,
        "compile_seconds": compiling,
        "product_tflops": rate / 1e12,
        "engine_tflops": reached / 1e12,
        "fraction_of_product_rate": reached / rate,
    }


def main() -> None:
    parser = parser_of(__doc__)
    gpu = this_machine().kind == "gpu"
    parser.add_argument("--members", type=int, default=64 if gpu else 8)
    parser.add_argument("--steps", type=int, default=10_000 if gpu else 600)
    parser.add_argument("--torch-steps", type=int, default=500 if gpu else 100)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    result = measure(arguments.members, arguments.steps, arguments.torch_steps)
    write_json(arguments.out / f"engine-{result['kind']}.json", result)
    for name, value in result.items():
        print(f"{name:26} {value:.4g}" if isinstance(value, float) else f"{name:26} {value}")


if __name__ == "__main__":
    main()

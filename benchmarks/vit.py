"""A pack of vision transformers against the loop that a user would write: eager PyTorch, one model at a time.

    python benchmarks/vit.py FOLDER                 FOLDER holds CIFAR-10; see convert_data.py
    python benchmarks/vit.py FOLDER --steps 200     shorter: speeds only
    python benchmarks/vit.py FOLDER --out FILE      another results file

Both sides train the model of `headcount reproduce cifar10` at T = 65 (patches of 4, no frame) with 8 heads,
by the same rule: AdamW, warm-up and cosine, clipping, dropout (PyTorch's layer drops attention weights and
hidden numbers too), as many steps on the same images. Speeds are
images a second, of one PyTorch model and of all members of a pack together, in float32 and in bfloat16 on
both sides; accuracies are those after the last step. Writes benchmarks/results/vit-<kind>.json as each of
the four is done; broken off and called again on the same machine, it goes on from there.
"""

import json
import math
import time
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import jax
import numpy as np
import torch
from recording import RESULTS, about, parser_of, write_json
from torch import nn

from headcount.models.vit import VitShape
from headcount.reproduce.real.cifar10 import ITEM
from headcount.reproduce.real.images import DEVIATION, MEAN, ImageSamples
from headcount.reproduce.real.trial import RealTrial, plan_alike, samples_of, train_real
from headcount.reproduce.real.variants import GRID
from headcount.reproduce.recipe import FULL
from headcount.trials.machine import this_machine

LENGTH, HEADS = 65, 8
PRECISIONS = ("float32", "bfloat16")


class TorchVit(nn.Module):
    """The same model in the words of `torch.nn`."""

    def __init__(self, shape: VitShape) -> None:
        super().__init__()
        width, encoder = shape.width, shape.encoder
        self.patch = shape.patch
        self.embedding = nn.Linear(shape.token_dim, width)
        self.class_token = nn.Parameter(0.02 * torch.randn(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn(1, shape.length, width))
        self.dropout = nn.Dropout(encoder.dropout)
        layer = nn.TransformerEncoderLayer(
            width,
            encoder.heads,
            encoder.feedforward,
            encoder.dropout,
            nn.functional.gelu,
            batch_first=True,
            norm_first=True,
        )
        self.encoder = nn.TransformerEncoder(
            layer, encoder.layers, norm=nn.LayerNorm(width), enable_nested_tensor=False
        )
        self.head = nn.Linear(width, shape.classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        patch, side = self.patch, images.shape[1]
        grid = images.reshape(len(images), side // patch, patch, side // patch, patch, 3)
        tokens = self.embedding(grid.transpose(2, 3).reshape(len(images), -1, patch * patch * 3))
        first = self.class_token.expand(len(images), -1, -1)
        tokens = self.dropout(torch.cat([first, tokens], dim=1) + self.positions)
        return self.head(self.encoder(tokens)[:, 0])


def trained_by_torch(
    trial: RealTrial, samples: ImageSamples, precision: str, *, steps: int
) -> dict[str, Any]:
    """One model by the eager loop: its speed, and its accuracies after so many steps."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    recipe, shape = trial.training, trial.architecture
    assert isinstance(shape, VitShape)
    torch.manual_seed(0)
    model = TorchVit(shape).to(device)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=trial.learning_rate, weight_decay=recipe.weight_decay
    )
    warmup = recipe.warmup or 1

    def rate(step: int) -> float:
        after = (step - warmup) / (recipe.steps - warmup)
        return step / warmup if step < warmup else 0.5 * (1 + math.cos(math.pi * after))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    mean, deviation = (torch.tensor(numbers, device=device) for numbers in (MEAN, DEVIATION))
    x, y = (torch.tensor(np.asarray(part), device=device) for part in (samples.train.x, samples.train.y))
    y = y.long()

    def scores(images: torch.Tensor) -> torch.Tensor:
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16"):
            return model((images.float() / 255 - mean) / deviation).float()

    def accuracy(images: np.ndarray, labels: np.ndarray) -> float:
        batches = (torch.tensor(batch, device=device) for batch in np.array_split(images, 20))
        chosen = np.concatenate([scores(batch).argmax(1).cpu().numpy() for batch in batches])
        return float((chosen == labels).mean())

    def loop(count: int) -> float:
        began = time.perf_counter()
        for _ in range(count):
            chosen = torch.randint(len(x), (recipe.batch_size,), device=device)
            loss = nn.functional.cross_entropy(scores(x[chosen]), y[chosen])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
            optimizer.step()
            schedule.step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - began

    model.train()
    loop(20)
    speed = recipe.batch_size * 20 / loop(20)
    print(f"{precision}: {speed:,.0f} images a second by PyTorch at first", flush=True)
    seconds = loop(steps - 40) / (steps - 40)
    model.eval()
    with torch.no_grad():
        accuracies = {
            split: accuracy(getattr(samples, split).x, getattr(samples, split).y)
            for split in ("train", "validation")
        }
    return {"images_per_second": recipe.batch_size / seconds, **accuracies}


def trained_here(trials: list[RealTrial]) -> dict[str, Any]:
    """A pack: the speed of all its members together, and their mean accuracies."""
    (pack,) = plan_alike(trials, this_machine())
    training = train_real(pack, this_machine())
    compiling = training.compile()
    training.chunk()
    begun, began = training.step, time.perf_counter()
    while not training.finished:
        training.chunk()
    seconds = (time.perf_counter() - began) / max(1, training.step - begun)
    outcomes = training.outcomes()
    return {
        "members": len(trials),
        "compile_seconds": compiling,
        "images_per_second": len(trials) * training.training.batch_size / seconds,
        "train": 1 - float(np.mean([outcome.train_error for outcome in outcomes])),
        "validation": 1 - float(np.mean([outcome.validation_error for outcome in outcomes])),
    }


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--members", type=int, default=8)
    parser.add_argument("--steps", type=int, help="fewer than in the reproduction: speeds only")
    parser.add_argument("--out", type=Path, default=RESULTS / f"vit-{this_machine().kind}.json")
    chosen = parser.parse_args()
    trials = [
        trial
        for trial in ITEM.at(chosen.folder).named(FULL.with_seeds(chosen.members))[GRID]
        if (trial.length, trial.architecture.heads) == (LENGTH, HEADS)
    ]
    steps = chosen.steps or trials[0].training.steps
    training = replace(
        trials[0].training,
        steps=steps,
        warmup=None,
        evaluate_every=math.gcd(steps, trials[0].training.evaluate_every),
    )
    samples = samples_of(trials[0])
    found: dict[str, Any] = {**about(f"torch {torch.__version__}"), "steps": steps}
    if chosen.out.exists():
        before = json.loads(chosen.out.read_text())
        if before.items() >= found.items() and "ratio" not in before.get(PRECISIONS[-1], {}):
            found = before
    for precision, side in product(PRECISIONS, ("torch", "headcount")):
        if side in found.setdefault(precision, {}):
            continue
        pack = [
            replace(trial, training=training, architecture=_with(trial.architecture, precision))
            for trial in trials
        ]
        here = side == "headcount"
        measured = trained_here(pack) if here else trained_by_torch(pack[0], samples, precision, steps=steps)
        found[precision][side] = measured
        if here:
            torch_speed = found[precision]["torch"]["images_per_second"]
            found[precision]["ratio"] = measured["images_per_second"] / torch_speed
        print(precision, side, json.dumps(measured), flush=True)
        write_json(chosen.out, found, indent=1)


def _with(shape: Any, precision: str) -> Any:
    return replace(shape, encoder=replace(shape.encoder, precision=precision))


if __name__ == "__main__":
    jax.config.update("jax_default_matmul_precision", "float32")
    main()

"""Fewer key-value heads in small trained models: joint SVD, Procrustes and mean, refitted or not.

    python benchmarks/trained_grouping.py --images FOLDER --data FOLDER

The first folder holds CIFAR-10 (see convert_data.py), the second `msmarco_tokens.npz`, passages as numbers of
WordPiece tokens. Trains a
vision transformer and a Qwen2 language model, each with 8 heads and 8 key-value heads a layer and in at most
three minutes of one core. 512 training samples without their labels give moments and refits; changes of
accuracy and loss are those on samples that nothing has seen, ± 95%, paired. Rows that the results file has
are not made again; `--models FOLDER` keeps the trained weights.
"""

import json
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
import trained_models
import transformers
from recording import RESULTS, about, parser_of, write_json
from torch import Tensor, nn
from torch.nn import functional

from headcount.data.cifar10.files import load_cifar10
from headcount.trained.attention import AttentionBlock
from headcount.trained.discovery import attention_blocks, prepared
from headcount.trained.regrouping import grouped, metrics_of
from headcount.trained.sharing import METHODS, Method
from headcount.trained.taps import targets_of

HEADS, LAYERS, WIDTH = 8, 4, 64
KV_HEADS = (4, 2, 1)
CALIBRATION, TESTED = 512, 5_000
VOCABULARY, LENGTH = 2_000, 40
Batch = dict[str, Tensor]


@dataclass(frozen=True)
class Case:
    """A model to train, and what it is judged by.

    - `draw`: a batch to train on, of so many samples.
    - `losses`: of every sample of a batch, from the logits; `unit`: in which changes are told.
    """

    build: Callable[[], nn.Module]
    draw: Callable[[np.random.Generator, int], Batch]
    calibration: list[Batch]
    test: list[Batch]
    losses: Callable[[Tensor, Batch], Tensor]
    measure: str
    steps: int
    batch: int = 64
    rate: float = 2e-3


def images(folder: Path) -> Case:
    """CIFAR-10 in patches of 8."""
    data = load_cifar10(folder)
    train, test = (
        torch.from_numpy(each.transpose(0, 3, 1, 2)) for each in (data.train_images, data.test_images)
    )
    labels, test_labels = (torch.from_numpy(each).long() for each in (data.train_labels, data.test_labels))

    def draw(random: np.random.Generator, size: int) -> Batch:
        places = torch.from_numpy(random.integers(len(train), size=size))
        some, flipped = train[places], torch.from_numpy(random.random(size) < 0.5)[:, None, None, None]
        return {"pixel_values": _scaled(torch.where(flipped, some.flip(-1), some)), "labels": labels[places]}

    def batches(x: Tensor, y: Tensor, size: int = 128) -> list[Batch]:
        return [
            {"pixel_values": _scaled(x[at : at + size]), "labels": y[at : at + size]}
            for at in range(0, len(x), size)
        ]

    config = transformers.ViTConfig(
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        num_hidden_layers=LAYERS,
        intermediate_size=2 * WIDTH,
        image_size=32,
        patch_size=8,
        num_labels=10,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return Case(
        build=lambda: transformers.ViTForImageClassification(config),
        draw=draw,
        calibration=batches(train[:CALIBRATION], labels[:CALIBRATION]),
        test=batches(test[:TESTED], test_labels[:TESTED]),
        losses=lambda logits, batch: 100.0 * (logits.argmax(-1) != batch["labels"]),
        measure="points of accuracy lost",
        steps=4_000,
    )


def passages(folder: Path) -> Case:
    """Passages of MS MARCO, rare words left out as unknown."""
    train, test = trained_models.passages(folder, vocabulary=VOCABULARY, length=LENGTH)

    def batches(x: Tensor, size: int = 64) -> list[Batch]:
        return [{"input_ids": x[at : at + size]} for at in range(0, len(x), size)]

    config = transformers.Qwen2Config(
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        num_hidden_layers=LAYERS,
        intermediate_size=2 * WIDTH,
        vocab_size=VOCABULARY,
        max_position_embeddings=LENGTH,
        tie_word_embeddings=True,
        use_cache=False,
        bos_token_id=None,
        eos_token_id=None,
    )
    return Case(
        build=lambda: transformers.Qwen2ForCausalLM(config),
        draw=lambda random, size: {
            "input_ids": train[torch.from_numpy(random.integers(len(train), size=size))]
        },
        calibration=batches(train[:CALIBRATION]),
        test=batches(test),
        losses=_next_token,
        measure="nats a token lost",
        steps=1_700,
        batch=32,
        rate=4e-3,
    )


VIT, QWEN2 = "ViT on CIFAR-10", "Qwen2 on MS MARCO"
CASES = {VIT: images, QWEN2: passages}


def _scaled(pixels: Tensor) -> Tensor:
    return pixels.float() / 127.5 - 1


def _next_token(logits: Tensor, batch: Batch) -> Tensor:
    ids = batch["input_ids"]
    known = ids[:, 1:] > 0
    each = functional.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:], reduction="none")
    return (each * known).sum(1) / known.sum(1)


def trained(name: str, case: Case, folder: Path | None) -> tuple[nn.Module, float]:
    """The model, and the processor seconds that its training took."""
    path = None if folder is None else folder / f"{name.partition(' ')[0].lower()}.pt"
    torch.manual_seed(0)
    model = case.build()
    if path is not None and path.exists():
        kept = torch.load(path)
        model.load_state_dict(kept["weights"])
        return model.eval(), kept["seconds"]
    optimizer = torch.optim.AdamW(model.parameters(), lr=case.rate, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, case.rate, case.steps, pct_start=0.1)
    random, began = np.random.default_rng(0), time.process_time()
    for step in range(case.steps):
        batch = case.draw(random, case.batch)
        logits = model(**{key: each for key, each in batch.items() if key != "labels"}).logits
        if "labels" in batch:
            loss = functional.cross_entropy(logits, batch["labels"], label_smoothing=0.1)
        else:
            loss = _next_token(logits, batch).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0:
            print(f"{name}: step {step}, {time.process_time() - began:.0f} s, {loss.item():.3f}", flush=True)
    seconds = time.process_time() - began
    if path is not None:
        torch.save({"weights": model.state_dict(), "seconds": seconds}, path)
    return model.eval(), seconds


def losses(model: nn.Module, case: Case) -> np.ndarray:
    """Of every test sample."""
    with torch.no_grad():
        return np.concatenate(
            [
                case.losses(
                    model(**{key: each for key, each in batch.items() if key != "labels"}).logits, batch
                ).numpy()
                for batch in case.test
            ]
        ).astype(np.float64)


def rows() -> Iterator[dict[str, Any]]:
    """All that the table has, for each model."""
    for kv_heads, method, choose, refit in product(KV_HEADS, METHODS, (True, False), (True, False)):
        if kv_heads > 1 or choose:  # one group has no choice
            yield {"kv_heads": kv_heads, "method": method, "choose": choose, "refit": refit}


class Bench:
    """What has been found so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"models": {}}

    def measure(self, name: str, case: Case, folder: Path | None) -> None:
        """All rows of a model."""
        model, seconds = trained(name, case, folder)
        whole = losses(model, case)
        entry = self.found["models"].setdefault(name, {"rows": []})
        entry |= {
            "measure": case.measure,
            "whole": float(whole.mean()),
            "test_samples": len(whole),
            "calibration_samples": CALIBRATION,
            "training_seconds": round(seconds),
        }
        whole_model = prepared(model)
        blocks: tuple[AttentionBlock, ...] = attention_blocks(whole_model)
        entry["heads"], entry["head_dim"], entry["layers"] = HEADS, blocks[0].head_dim, len(blocks)
        targets = targets_of(whole_model, blocks, case.calibration)
        metrics = metrics_of(whole_model, case.calibration)
        for row in rows():
            if any(row.items() <= each.items() for each in entry["rows"]):
                continue
            method: Method = row["method"]
            made = grouped(
                whole_model,
                targets,
                row["kv_heads"],
                method=method,
                refit=row["refit"],
                choose=row["choose"],
                metrics=metrics,
            )
            change = losses(made.model, case) - whole
            row |= {
                "lost": float(change.mean()),
                "half_width": float(1.96 * change.std(ddof=1) / np.sqrt(len(change))),
            }
            entry["rows"].append(row)
            print(name, json.dumps(row), flush=True)
            self.found |= about(f"torch {torch.__version__}", f"transformers {transformers.__version__}")
            write_json(self.path, self.found, indent=1)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--images", type=Path, required=True, help="folder with CIFAR-10")
    parser.add_argument("--data", type=Path, required=True, help="folder with msmarco_tokens.npz")
    parser.add_argument("--models", type=Path, help="keeps the trained weights")
    parser.add_argument("--only", choices=CASES, nargs="+", default=list(CASES))
    parser.add_argument("--out", type=Path, default=RESULTS / "trained-grouping.json")
    arguments: Namespace = parser.parse_args()
    bench = Bench(arguments.out)
    for name in arguments.only:
        bench.measure(
            name, CASES[name](arguments.images if name == VIT else arguments.data), arguments.models
        )


if __name__ == "__main__":
    main()

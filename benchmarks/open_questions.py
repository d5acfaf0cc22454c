"""What the docs quote on questions that the paper leaves open: members of two items, rescaled constructions.

    headcount reproduce bounded --quick --out FOLDER     and layer_norm; resumes if it is killed
    python benchmarks/open_questions.py FOLDER...          several folders are read as one

Writes benchmarks/results/open_questions.parquet, a row for each member of a quick run that the folders or the
file hold, and open_questions.json: constructions before and after they are made to meet Assumption 1. Prints
how many members each item has, and the verdicts.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from recording import RESULTS, about, parser_of, write_json

from headcount.models.bounded import largest_entry
from headcount.reproduce.item import ITEMS
from headcount.reproduce.recipe import QUICK
from headcount.results.files import write_whole
from headcount.results.store import Store
from headcount.tasks.library import bowls, bowls_product, max_sum
from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.constructions.bounded import bounded
from headcount.theory.constructions.specialise import specialise

NAMES = ("bounded", "layer_norm")
SEQUENCES = 256
CASES = [
    *((bowls(dimension=3, token_dim=2), length, 0.01) for length in (8, 16, 32, 64)),
    (bowls(dimension=3, token_dim=2, positions="first half"), 64, 0.01),
    (max_sum(dimension=4, token_dim=4), 64, 0.01),
    (bowls_product(dimension=2, token_dim=2), 16, 0.05),
]


def rescaled(task: RetrievalTask, length: int, epsilon: float) -> dict[str, Any]:
    free = specialise(task, length=length, epsilon=epsilon)
    within = bounded(free)
    x = np.random.default_rng(0).uniform(size=(SEQUENCES, length, task.token_dim))
    before, after = ({"beta": made.model.architecture.beta, **_sizes(made.model)} for made in (free, within))
    apart = float(np.abs(within.predict(x) - free.predict(x)).max())
    sizes = {
        "dimension": task.dimension,
        "length": length,
        "epsilon": epsilon,
        "positions": str(task.positions[0].rule),
    }
    return {"task": task.name, **sizes, "before": before, "after": after, "apart": apart}


def _sizes(model: Any) -> dict[str, Any]:
    return {"parameters": model.counted_parameters(), "largest_entry": largest_entry(model)}


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("folders", type=Path, nargs="*")
    chosen = parser.parse_args()
    write_json(RESULTS / "open_questions.json", {"rescaled": [rescaled(*case) for case in CASES], **about()})
    path = RESULTS / "open_questions.parquet"
    frames = [pd.read_parquet(path)] if path.exists() else []
    frames += [Store(folder).frame() for folder in chosen.folders]
    wanted = {name: {trial.id for trial in ITEMS[name].trials(QUICK)} for name in NAMES}
    frame = pd.concat(frames).drop_duplicates("trial")
    kept = frame[frame["trial"].isin(list(set().union(*wanted.values())))].sort_values("trial")
    kept = kept.reset_index(drop=True)
    write_whole(path, lambda file: kept.to_parquet(file, index=False, compression="zstd"))
    for name, ids in wanted.items():
        rows = ITEMS[name].rows(kept, QUICK)
        print(f"{name}: {rows['trial'].nunique()} of {len(ids)} members")
        for verdict in ITEMS[name].judge(rows) if len(rows) else ():
            print(f"  {verdict}")


if __name__ == "__main__":
    main()

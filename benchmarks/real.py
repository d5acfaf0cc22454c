"""What a finished real-data experiment found, in two files that the docs are made from.

    headcount reproduce cifar10 --data DATA --out FOLDER      on a GPU; killed at any moment, it goes on
    python benchmarks/real.py cifar10 DATA FOLDER...          several folders of members are read as one

Writes benchmarks/results/cifar10.parquet, a row for each member, and cifar10.json: what the frame alone does
not bear, since it takes what members put out. The grid must be whole; what is trained beside it may come in a
later call, which adds to the files.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from headcount.reproduce.catalogue import REAL_ITEMS
from headcount.reproduce.real.variants import GRID
from headcount.reproduce.recipe import FULL, QUICK
from headcount.results.files import write_whole
from headcount.results.store import Store

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=list(REAL_ITEMS))
    parser.add_argument("data", type=Path)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--quick", action="store_true", help="of a quick run, to try this out")
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    item = REAL_ITEMS[chosen.name].at(chosen.data, quick=chosen.quick)
    recipe = QUICK if chosen.quick else FULL.with_seeds(item.seeds)
    grid, out = item.named(recipe)[GRID], chosen.out / chosen.name
    with TemporaryDirectory() as both:
        store = Store(linked(chosen.folders, Path(both)))
        found = pd.concat([store.frame(), *written_before(out)]).drop_duplicates("trial")
        rows = item.rows(found, recipe)
        trained = set(rows["trial"])
        for variant, trials in item.named(recipe).items():
            print(f"{variant}: {sum(trial.id in trained for trial in trials)} of {len(trials)} members")
        if not trained.issuperset(trial.id for trial in grid):
            sys.exit("nothing is written before the grid is whole")
        if all(store.test_outputs(trial) is not None for trial in grid):
            closer = [asdict(verdict) for verdict in item.look_closer(store, recipe)]
        elif not out.with_suffix(".json").exists():
            sys.exit("what the members of the grid put out is not in these folders")
        else:
            closer = json.loads(out.with_suffix(".json").read_text())["closer"]
    write(rows, {"closer": closer, **(bm25_alone(chosen.data) if chosen.name == "msmarco" else {})}, out)
    for verdict in item.judge(rows):
        print(verdict)
    for told in closer:
        print(told)


def written_before(out: Path) -> Iterator[pd.DataFrame]:
    """The members of an earlier call."""
    if out.with_suffix(".parquet").exists():
        yield pd.read_parquet(out.with_suffix(".parquet")).drop(columns="variant")


def linked(folders: list[Path], both: Path) -> Path:
    """One folder with the rows and the outputs of all."""
    for part in ("shards", "models"):
        (both / part).mkdir()
        for folder in folders:
            for file in (folder / part).glob("*.*"):
                link = both / part / file.name
                if not link.exists():
                    link.symlink_to(file.resolve())
    return both


def bm25_alone(data: Path) -> dict[str, float]:
    """How often BM25, which chose the negatives, puts the positive of a held-out list first."""
    path = data / "msmarco_tokens.npz"
    if not path.exists():
        return {}
    with np.load(path) as file:
        names, scores, label = (file[name] for name in ("split_names", "bm25", "label"))
        rows = file["split"][file["list_q"]] == list(names).index("heldout")
    return {"bm25_right": float((scores[rows].argmax(axis=1) == label[rows]).mean())}


def write(rows: pd.DataFrame, found: dict[str, object], out: Path) -> None:
    """Both files, each whole or not at all."""
    text = json.dumps(found, indent=1) + "\n"
    write_whole(out.with_suffix(".json"), lambda file: file.write(text.encode()))
    write_whole(out.with_suffix(".parquet"), lambda file: rows.to_parquet(file))


if __name__ == "__main__":
    main()

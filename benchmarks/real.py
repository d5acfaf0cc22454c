"""The results of a finished real-data experiment, in two files that the docs are made from.

    python benchmarks/convert_data.py cifar10 PARTS DATA      once, where only the compact parts are there
    headcount reproduce cifar10 --data DATA --out FOLDER      on a GPU; resumes if it is killed
    python benchmarks/real.py cifar10 DATA FOLDER...          several folders of members are read as one

Writes benchmarks/results/cifar10.parquet, a row for each member, and cifar10.json: the verdicts that need the
members' outputs, which the frame does not hold. The grid must be complete; its variants may come in a later
call, which adds to the files. The same for msmarco.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
from recording import RESULTS, parser_of, write_json

from headcount.reproduce.item import REAL_ITEMS
from headcount.reproduce.real.variants import GRID
from headcount.reproduce.recipe import FULL, QUICK
from headcount.results.files import write_whole
from headcount.results.store import Store


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("name", choices=list(REAL_ITEMS))
    parser.add_argument("data", type=Path)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--quick", action="store_true", help="of a quick run, to try this out")
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    item = REAL_ITEMS[chosen.name].at(chosen.data, quick=chosen.quick)
    recipe = QUICK if chosen.quick else FULL.with_seeds(item.seeds)
    grid, out = item.named(recipe)[GRID], chosen.out / chosen.name
    written = [path] if (path := out.with_suffix(".parquet")).exists() else []
    earlier = [pd.read_parquet(path).drop(columns="variant") for path in written]
    with TemporaryDirectory() as both:
        store = Store(linked(chosen.folders, Path(both)))
        found = pd.concat([store.frame(), *earlier]).drop_duplicates("trial")
        rows = item.rows(found, recipe)
        trained = set(rows["trial"])
        for variant, trials in item.named(recipe).items():
            print(f"{variant}: {sum(trial.id in trained for trial in trials)} of {len(trials)} members")
        if not trained.issuperset(trial.id for trial in grid):
            sys.exit("the grid is incomplete: nothing was written")
        if all(store.test_outputs(trial) is not None for trial in grid):
            closer = [asdict(verdict) for verdict in item.look_closer(store, recipe)]
        elif not out.with_suffix(".json").exists():
            sys.exit("the outputs of the grid's members are not in these folders")
        else:
            closer = json.loads(out.with_suffix(".json").read_text())["closer"]
    alone = bm25_alone(chosen.data) if chosen.name == "msmarco" else {}
    write_json(out.with_suffix(".json"), {"closer": closer, **alone}, indent=1)
    write_whole(out.with_suffix(".parquet"), lambda file: rows.to_parquet(file))
    for verdict in (*item.judge(rows), *closer):
        print(verdict)


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
    """How often BM25, which chose the negatives, ranks the positive of a held-out list first."""
    run, qrels = data / "run.heldout.tsv", data / "qrels.heldout.tsv"
    if not (run.exists() and qrels.exists()):
        return {}
    hits = pd.read_csv(run, sep="\t", names=["query", "passage", "rank"])
    first = hits[hits["rank"] == 1].set_index("query")["passage"]
    positive = pd.read_csv(qrels, sep="\t", names=["query", "0", "passage", "grade"]).set_index("query")
    return {"bm25_right": float((first == positive["passage"]).mean())}


if __name__ == "__main__":
    main()

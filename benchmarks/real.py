"""What a finished real-data experiment found, in two files that the docs are made from.

    headcount reproduce cifar10 --data DATA --out FOLDER      on a GPU; killed at any moment, it goes on
    python benchmarks/real.py cifar10 DATA FOLDER...          several folders of members are read as one

Writes benchmarks/results/cifar10.parquet, a row for each member, and cifar10.json: what the frame alone does
not bear, since it takes what members put out.
"""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from headcount.engine import Store
from headcount.engine.files import write_whole
from headcount.reproduce import FULL, QUICK, REAL_ITEMS

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
    item = REAL_ITEMS[chosen.name].at(chosen.data)
    recipe = QUICK if chosen.quick else FULL.with_seeds(item.seeds)
    with TemporaryDirectory() as both:
        store = Store(linked(chosen.folders, Path(both)))
        rows = item.rows(store.frame(), recipe)
        missing = {trial.id for trial in item.trials(recipe)} - set(rows["trial"])
        if missing:
            sys.exit(f"{', '.join(map(str, chosen.folders))}: {len(missing)} members are not finished")
        closer = [asdict(verdict) for verdict in item.look_closer(store, recipe)]
    write(rows, closer, chosen.out, chosen.name)
    for verdict in item.judge(rows):
        print(verdict)
    for found in closer:
        print(found)


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


def write(rows: pd.DataFrame, closer: list[dict[str, object]], folder: Path, name: str) -> None:
    """Both files, each whole or not at all."""
    text = json.dumps({"closer": closer}, indent=1) + "\n"
    write_whole(folder / f"{name}.parquet", lambda file: rows.to_parquet(file))
    write_whole(folder / f"{name}.json", lambda file: file.write(text.encode()))


if __name__ == "__main__":
    main()

"""The members of all maps in one file that the docs are made from.

    headcount reproduce depth --out FOLDER       on a GPU, or in parts on a CPU; resumes if it is killed
    python benchmarks/maps.py FOLDER...          several folders are read as one

Writes benchmarks/results/maps.parquet, a row for each member of a map that the folders or the file hold, and
prints how many of the cells of every map have members, and the verdicts.
"""

from pathlib import Path

import pandas as pd
from recording import RESULTS, parser_of

from headcount.reproduce.item import MAPS
from headcount.reproduce.recipe import FULL
from headcount.results.files import write_whole
from headcount.results.store import Store


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("folders", type=Path, nargs="*")
    path = RESULTS / "maps.parquet"
    earlier = [pd.read_parquet(path)] if path.exists() else []
    frames = [*earlier, *(Store(folder).frame() for folder in parser.parse_args().folders)]
    frame = pd.concat(frames).drop_duplicates("trial")
    wanted = {name: item.trials(FULL.with_seeds(item.seeds)) for name, item in MAPS.items()}
    ids = {trial.id for trials in wanted.values() for trial in trials}
    kept = frame[frame["trial"].isin(list(ids))].sort_values("trial").reset_index(drop=True)
    write_whole(path, lambda file: kept.to_parquet(file, index=False, compression="zstd"))
    for name, item in MAPS.items():
        rows = item.rows(kept, FULL.with_seeds(item.seeds))
        cells = item.cells(FULL)
        print(f"{name}: {len(set(rows['variant']) & set(cells))} of {len(cells)} cells have members")
        for verdict in item.judge(rows):
            print(f"  {verdict}")


if __name__ == "__main__":
    main()

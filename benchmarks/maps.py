"""The members of all maps in one file that the docs are made from.

    headcount reproduce depth --out FOLDER       on a GPU, or in parts on a CPU; resumes if it is killed
    python benchmarks/maps.py FOLDER...          several folders are read as one
    python benchmarks/maps.py --train FOLDER     first trains there what the file lacks; --seeds, --only

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
from headcount.running.sweep import sweep


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--train", type=Path, help="a folder for members that the file lacks")
    parser.add_argument("--seeds", type=int, default=1, help="of the members to train")
    parser.add_argument("--only", choices=list(MAPS), help="the map to train")
    chosen = parser.parse_args()
    path = RESULTS / "maps.parquet"
    earlier = [pd.read_parquet(path)] if path.exists() else []
    folders = list(chosen.folders)
    if chosen.train is not None:
        known = {trial for frame in earlier for trial in frame["trial"]}
        items = [MAPS[chosen.only]] if chosen.only else MAPS.values()
        trials = [trial for item in items for trial in item.trials(FULL.with_seeds(chosen.seeds))]
        sweep([trial for trial in dict.fromkeys(trials) if trial.id not in known], chosen.train)
        folders.append(chosen.train)
    frames = [*earlier, *(Store(folder).frame() for folder in folders)]
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

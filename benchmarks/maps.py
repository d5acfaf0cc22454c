"""The members of all maps in one file that the docs are made from.

    headcount reproduce depth --out FOLDER       on a GPU, or in parts on a CPU; resumes if it is killed
    python benchmarks/maps.py FOLDER...          several folders are read as one; their rows come first
    python benchmarks/maps.py --train FOLDER     first trains there what the file lacks; --seeds, --only
    python benchmarks/maps.py --train FOLDER --anew --lean --part 1/4   a quarter of what --lean chooses

Writes benchmarks/results/maps.parquet, a row for each member of a map that the folders or the file hold, and
prints how many of the cells of every map have members, and the verdicts. `--part` only trains.

`--lean` spends less where it changes least. References, and the cells at what their law grants and one
beyond, are trained with all seeds at both rates. All other cells start with the larger rate. Those at another
width, at another length or with more steps have half of the seeds. `--unlearnt` then trains the smaller rate
of cells that their law grants and that were not learnt.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path

import pandas as pd
from recording import RESULTS, parser_of

from headcount.engine.train import plan_all
from headcount.reproduce.item import MAPS
from headcount.reproduce.maps.cell import LENGTH, RATES, WIDTH, Cell
from headcount.reproduce.maps.item import SEEDS, MapItem
from headcount.reproduce.recipe import FULL
from headcount.results.files import write_whole
from headcount.results.store import Store
from headcount.running.sweep import sweep
from headcount.trials.machine import this_machine
from headcount.trials.trial import Trial

PATH = RESULTS / "maps.parquet"


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--train", type=Path, help="a folder for members that the file lacks")
    parser.add_argument("--seeds", type=int, default=1, help="of the members to train")
    parser.add_argument("--only", choices=list(MAPS), help="the map to train")
    parser.add_argument("--anew", action="store_true", help="train what the file holds too")
    parser.add_argument("--lean", action="store_true", help="fewer members where it changes least")
    parser.add_argument("--unlearnt", action="store_true", help="the smaller rate of what should be learnt")
    parser.add_argument("--part", metavar="K/N", help="every N-th pack from the K-th on, in FOLDER/part-K")
    chosen = parser.parse_args()
    if chosen.part and chosen.train is None:
        parser.error("--part: expected --train FOLDER beside it")
    folders = list(chosen.folders)
    if chosen.train is not None:
        items = [MAPS[chosen.only]] if chosen.only else list(MAPS.values())
        seeds = SEEDS if chosen.lean else chosen.seeds
        trials = [trial for item in items for trial in item.trials(FULL.with_seeds(seeds))]
        if chosen.lean:
            trials = [trial for item in items for trial in lean(item)]
        if chosen.unlearnt:
            frame = rows_of(folders)
            trials = [trial for item in items for trial in unlearnt(item, frame)]
        known = set() if chosen.anew or not PATH.exists() else set(pd.read_parquet(PATH)["trial"])
        missing = [trial for trial in dict.fromkeys(trials) if trial.id not in known]
        if chosen.part:
            place, parts = (int(number) for number in chosen.part.split("/"))
            if not 1 <= place <= parts:
                parser.error(f"--part: expected K/N with K from 1 to N, got {chosen.part}")
            sweep(dealt(missing, place, parts), chosen.train / f"part-{place}")
            return
        sweep(missing, chosen.train)
        folders.append(chosen.train)
    write(rows_of(folders))


def lean(item: MapItem) -> Iterator[Trial]:
    """The members of `--lean`, those of variants last."""
    named, cells = item.named(FULL.with_seeds(SEEDS)), item.cells(FULL)
    later = []
    for name, trials in named.items():
        cell = cells.get(name)
        if cell is not None and is_variant(cell):
            later += [t for t in trials if t.seed < SEEDS // 2 and t.learning_rate == max(RATES)]
        elif cell is None or cell.family == "one layer":
            usual = trials[0].training.steps == min(trial.training.steps for trial in named_trials(named))
            (yield from trials) if usual else later.extend(t for t in trials if t.seed < SEEDS // 2)
        elif cell.dimension - granted(item, cell) in (0, 1):
            yield from trials
        else:
            yield from (trial for trial in trials if trial.learning_rate == max(RATES))
    yield from later


def named_trials(named: Mapping[str, tuple[Trial, ...]]) -> Iterator[Trial]:
    return (trial for trials in named.values() for trial in trials)


def is_variant(cell: Cell) -> bool:
    """Whether it repeats another cell with more steps, at another width or at another length."""
    other_width = cell.layers > 1 and cell.width != WIDTH
    return cell.steps > 1 or other_width or cell.length > LENGTH


def unlearnt(item: MapItem, frame: pd.DataFrame) -> Iterator[Trial]:
    """The smaller rate, for the seeds that are there, of granted cells that p says no to."""
    rows = item.rows(frame, FULL.with_seeds(SEEDS))
    cells, named = item.cells(FULL), item.named(FULL.with_seeds(SEEDS))
    for row in item.table(rows).itertuples():
        name = str(row.cell)
        cell = cells[name]
        if cell.dimension <= granted(item, cell) and row.verdict in ("not learnt", "cannot tell"):
            seeds = set(rows[rows["variant"] == name]["seed"])
            yield from (t for t in named[name] if t.seed in seeds and t.learning_rate < max(RATES))


@cache
def laws_of(name: str) -> dict[str, str]:
    """The rival by which each family of a map is judged first."""
    laws = import_module(f"headcount.reproduce.maps.{name}").LAWS
    return {family: law.rival for law in reversed(laws) for family in law.families}


def granted(item: MapItem, cell: Cell) -> int:
    """The largest D that the law grants this shape."""
    return dict(cell.predicted)[laws_of(item.name)[cell.family]]


def dealt(trials: Iterable[Trial], place: int, parts: int) -> list[Trial]:
    """The trials of every so many-th pack, so that several processes share the work."""
    packs = plan_all(list(trials), this_machine())
    return [trial for pack in packs[place - 1 :: parts] for trial in pack.trials]


def rows_of(folders: Iterable[Path]) -> pd.DataFrame:
    """The rows of the folders, and of the file those that no folder has."""
    frames = [Store(folder).frame() for folder in folders]
    frames += [pd.read_parquet(PATH)] if PATH.exists() else []
    return pd.concat(frames).drop_duplicates("trial")


def write(frame: pd.DataFrame) -> None:
    """The file, and what it says."""
    wanted = {name: item.trials(FULL.with_seeds(item.seeds)) for name, item in MAPS.items()}
    ids = {trial.id for trials in wanted.values() for trial in trials}
    kept = frame[frame["trial"].isin(list(ids))].sort_values("trial").reset_index(drop=True)
    write_whole(PATH, lambda file: kept.to_parquet(file, index=False, compression="zstd"))
    for name, item in MAPS.items():
        rows = item.rows(kept, FULL.with_seeds(item.seeds))
        cells = item.cells(FULL)
        print(f"{name}: {len(set(rows['variant']) & set(cells))} of {len(cells)} cells have members")
        for verdict in item.judge(rows):
            print(f"  {verdict}")


if __name__ == "__main__":
    main()

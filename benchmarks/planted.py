"""The positive control of the real data: does the method find a retrieval that was planted in images?

    python benchmarks/planted.py                       on a GPU; goes on where it was killed
    python benchmarks/planted.py --part 1/2            half of what is to be trained; then --part 2/2
    python benchmarks/planted.py --quick --out FOLDER  small, on two cores: tries it out

Members are kept in the folder --work. Writes planted.parquet, a row for each member, and planted.json:
whether the estimator finds D by what they put out. Nothing is written before all members are there. The same
in lists of passages is a part of apart.py.
"""

from dataclasses import asdict

from apart import chosen_by, part_of, rows, trained, trainer_of
from recording import RESULTS, about, write_json

from headcount.reproduce.planted import ITEM
from headcount.reproduce.recipe import FULL, QUICK
from headcount.results.files import write_whole
from headcount.results.store import Store


def main() -> None:
    chosen = chosen_by(trainer_of(__doc__, work="runs/planted"))
    recipe, store = QUICK if chosen.quick else FULL, Store(chosen.work)
    named = ITEM.named(recipe)
    every = [trial for trials in named.values() for trial in trials]
    trained(part_of(every, chosen.part), store, keep_models=True)
    if chosen.part:
        return
    out, frame = (chosen.out or RESULTS) / "planted.parquet", rows(named, store)
    closer = ITEM.look_closer(store, recipe)
    write_whole(out, lambda file: frame.to_parquet(file, index=False, compression="zstd"))
    write_json(out.with_suffix(".json"), {**about(), "closer": [asdict(one) for one in closer]}, indent=1)
    for verdict in (*ITEM.judge(frame), *closer):
        print(verdict)


if __name__ == "__main__":
    main()

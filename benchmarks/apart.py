"""Heads, head size and width each alone on real data, without attention, and with a planted retrieval.

    python benchmarks/apart.py cifar10 DATA             on a GPU; goes on where it was killed
    python benchmarks/apart.py msmarco DATA --part 1/2  half of what is to be trained; then --part 2/2
    python benchmarks/apart.py msmarco DATA             what is left, and the results
    python benchmarks/apart.py cifar10 DATA --quick --out FOLDER     small, on two cores: tries it out

DATA is what convert_data.py makes. Members are kept in the folder --work. Writes cifar10-apart.parquet, a row
for each member, and cifar10-apart.json: whether the estimator finds the planted D; the same for msmarco,
which alone has lists to plant one in. Nothing is written before all members are there.
"""

import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
from recording import RESULTS, about, dealt, parser_of, write_json

from headcount.errors import InvalidInput
from headcount.reproduce.real import cifar10, msmarco
from headcount.reproduce.real.apart import PLANTED, trials_of
from headcount.reproduce.real.apart_verdicts import apart_verdicts
from headcount.reproduce.real.estimating import finds
from headcount.reproduce.real.planted_lists import D
from headcount.reproduce.real.trial import RealTrial
from headcount.reproduce.real.variants import Trials
from headcount.results.files import write_whole
from headcount.results.store import Store
from headcount.running.executor import FileProblem, Finished, Planned, run

LOADERS = {"cifar10": cifar10.load, "msmarco": msmarco.load}


def main() -> None:
    parser = trainer_of(__doc__, work="runs/apart")
    parser.add_argument("name", choices=list(LOADERS))
    parser.add_argument("data", type=Path)
    chosen = chosen_by(parser)
    try:
        data = LOADERS[chosen.name](chosen.data)
    except InvalidInput as error:
        parser.error(str(error))
    named, store = trials_of(chosen.name, data, quick=chosen.quick), Store(chosen.work)
    compared = named.get(PLANTED, ())
    rest = [trial for variant, trials in named.items() if variant != PLANTED for trial in trials]
    for trials, keep in ((rest, False), (compared, True)):  # the estimator compares outputs
        trained(part_of(trials, chosen.part), store, keep_models=keep)
    if chosen.part:
        return
    out = (chosen.out or RESULTS) / f"{chosen.name}-apart.parquet"
    frame = rows(named, store)
    closer = [finds(compared, store, dimension=D)] if compared else []
    found = {**about(), "closer": [asdict(verdict) for verdict in closer]}
    write_whole(out, lambda file: frame.to_parquet(file, index=False, compression="zstd"))
    write_json(out.with_suffix(".json"), found, indent=1)
    for verdict in (*apart_verdicts(frame), *closer):
        print(verdict)


def trainer_of(text: str | None, *, work: str) -> ArgumentParser:
    """A parser with what a script needs that trains in parts."""
    parser = parser_of(text)
    parser.add_argument("--work", type=Path, default=Path(work))
    parser.add_argument("--part", metavar="K/N", type=part, help="train one of N parts, and write no results")
    parser.add_argument("--quick", action="store_true", help="small members, to try this out")
    parser.add_argument("--out", type=Path, help="folder of the results (default: benchmarks/results)")
    return parser


def chosen_by(parser: ArgumentParser) -> Namespace:
    """What was asked for, on the command line."""
    chosen = parser.parse_args()
    if chosen.quick and not chosen.out:
        parser.error("--quick: expected --out FOLDER, for results that are not those of a full run")
    return chosen


def part(text: str) -> str:
    """A part that is there."""
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise ArgumentTypeError(f"expected K/N with 1 <= K <= N, got {text!r}")
    return text


def part_of(trials: Iterable[RealTrial], part: str | None) -> list[RealTrial]:
    """Every N-th shape, whole: its members share a program."""
    groups: dict[Any, list[RealTrial]] = {}
    for trial in dict.fromkeys(trials):
        groups.setdefault((trial.architecture, trial.length, trial.task), []).append(trial)
    return [trial for group in dealt(list(groups.values()), part) for trial in group]


def trained(trials: Sequence[RealTrial], store: Store, *, keep_models: bool) -> None:
    """Train what the store lacks, a line for each pack."""
    with closing(run(trials, store, keep_models=keep_models)) as events:
        for event in events:
            if isinstance(event, Planned):
                left = sum(len(pack.trials) for pack in event.packs)
                print(f"{left} of {len(trials)} members to train, in {len(event.packs)} packs", flush=True)
            elif isinstance(event, Finished):
                shape, (row, *_) = event.pack.trials[0].architecture, event.rows
                place = f"E = {shape.width}, h = {shape.heads}, n = {shape.head_dim}, T = {row.length}"
                print(f"{place}: {len(event.rows)} members, {row.seconds:.2f} s each", flush=True)
            elif isinstance(event, FileProblem):
                print(event.line, flush=True)


def rows(named: Trials, store: Store) -> pd.DataFrame:
    """A row for each member of each variant."""
    names = [(trial.id, variant) for variant, trials in named.items() for trial in trials]
    labels = pd.DataFrame(names, columns=["trial", "variant"])
    return store.frame().merge(labels, on="trial").sort_values(["variant", "trial"])


if __name__ == "__main__":
    main()

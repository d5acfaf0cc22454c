"""The positive control of the real data: does the method find a retrieval that was planted in images?

    python benchmarks/planted.py --work FOLDER     trains what the folder lacks; resumes if it is killed

Writes benchmarks/results/planted.json: a row for each member, what is claimed of the shares of images that
are wrong, and what the estimator says of the members' outputs.
"""

import json
from contextlib import closing
from pathlib import Path

from recording import RESULTS, about, parser_of, write_json

from headcount.reproduce.item import ITEMS
from headcount.reproduce.recipe import FULL
from headcount.results.store import Store
from headcount.running.executor import run

COLUMNS = ("variant", "layers", "heads", "head_dim", "seed", "train_error", "validation_error", "status")


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--work", type=Path, default=Path("runs/planted"))
    parser.add_argument("--out", type=Path, default=RESULTS / "planted.json")
    chosen = parser.parse_args()
    item, store = ITEMS["planted"], Store(chosen.work)
    with closing(run(item.trials(FULL), store, keep_models=True)) as events:
        for _ in events:
            pass
    frame = item.rows(store.frame(), FULL)
    verdicts = [*item.judge(frame), *item.look_closer(store, FULL)]
    rows = json.loads(frame[list(COLUMNS)].sort_values(list(COLUMNS[:5])).to_json(orient="records"))
    found = {**about(), "verdicts": [vars(verdict) for verdict in verdicts], "members": rows}
    write_json(chosen.out, found, indent=1)
    for verdict in verdicts:
        print(verdict)


if __name__ == "__main__":
    main()

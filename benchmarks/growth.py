"""How the time of a step grows with the length, the heads and the members of a pack.

    python benchmarks/growth.py                 on this machine's default device
    python benchmarks/growth.py --seconds 1     of training for each size, after compiling

One of the three is varied, the others stay: T = 64, h = 4, and 8 members on a CPU or 64 on a GPU; n = 8,
N = 32, batches of 256. Writes benchmarks/results/growth-KIND.json, a row for each size; what has a row is
not timed again.
"""

import json
from collections.abc import Iterator
from typing import Any

import jax
from packs import compiled, pack_of, seconds_a_step
from recording import RESULTS, about, parser_of, write_json

from headcount.trials.machine import this_machine

BASE = {"length": 64, "heads": 4}
USUAL = {"cpu": 8, "gpu": 64}  # members
AXES = {"length": (8, 16, 32, 64, 128, 256, 512), "heads": (1, 2, 4, 8, 16)}
MEMBERS = {"cpu": (1, 2, 4, 8, 16, 32), "gpu": (1, 4, 16, 64, 256, 512)}


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    chosen = parser.parse_args()
    kind = this_machine().kind
    jax.config.update("jax_enable_compilation_cache", False)  # compiling is part of what is measured
    path = RESULTS / f"growth-{kind}.json"
    rows: list[dict[str, Any]] = json.loads(path.read_text())["rows"] if path.exists() else []
    for size in sizes(kind):
        if any(all(row[name] == value for name, value in size.items()) for row in rows):
            continue
        training, first = compiled(pack_of(size["members"], length=size["length"], heads=size["heads"]))
        step = seconds_a_step(training, chosen.seconds) / size["members"]
        rows.append({**size, "step_us": step * 1e6, "first_period_seconds": first})
        write_json(path, {**about(), "rows": rows}, indent=1)
        print(rows[-1], flush=True)


def sizes(kind: str) -> Iterator[dict[str, int]]:
    for axis, values in (*AXES.items(), ("members", MEMBERS[kind])):
        for value in values:
            yield {**BASE, "members": USUAL[kind], axis: value}


if __name__ == "__main__":
    main()

"""Both constructions over the whole table of cases: what was allowed, what was promised, what was measured.

    python benchmarks/constructions.py                 goes on where it was stopped
    python benchmarks/constructions.py --quick         a dozen cases
    python benchmarks/constructions.py --only memorise
    python benchmarks/constructions.py --shard 0/8     every eighth case, into a file of its own
    python benchmarks/constructions.py --merge A B …   the files of all shards as one

Writes benchmarks/results/constructions.json.
"""

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import jax
from construction_cases import Case, cases, quick
from recording import RESULTS, about, parser_of

from headcount.errors import InvalidInput
from headcount.results.files import write_whole
from headcount.theory.constructions.construction import Construction
from headcount.theory.constructions.memorise import memorise
from headcount.theory.constructions.specialise import specialise

# A sixth of what `memorise` allows by default: the ascents over all cases would take hours otherwise.
MAKERS: dict[str, Callable[..., Construction]] = {
    "specialise": specialise,
    "memorise": partial(memorise, memory_gib=1 / 6),
}


def measure(case: Case) -> dict[str, Any]:
    """One row: the case, the bound and the largest error found; or why it was refused."""
    began = time.perf_counter()
    row: dict[str, Any] = {"key": case.key, **vars(case)}
    try:
        made = MAKERS[case.construction](case.build(), length=case.length, epsilon=case.epsilon)
    except InvalidInput as error:
        return {**row, "refused": str(error)}
    found = made.measured_error()
    return {
        **row,
        "heads": made.model.architecture.heads,
        "counted_parameters": made.model.counted_parameters(),
        "bound" if made.error.proven else "estimate": made.error.total,
        "measured_error": found.error,
        "seconds": time.perf_counter() - began,
    }


def write(path: Path, rows: list[dict[str, Any]], machine: dict[str, str]) -> None:
    """One row per line, numbers to six digits."""
    short = [
        {name: float(f"{value:.6g}") if isinstance(value, float) else value for name, value in row.items()}
        for row in rows
    ]
    lines = ",\n".join(f"  {json.dumps(row)}" for row in short)
    about = ",\n".join(f" {json.dumps(name)}: {json.dumps(value)}" for name, value in machine.items())
    content = f'{{\n{about},\n "rows": [\n{lines}\n ]\n}}\n'
    write_whole(path, lambda file: file.write(content.encode()))


def joined(parts: list[dict[str, Any]]) -> dict[str, str]:
    """Every machine and every version that rows came from."""
    return {
        name: "; ".join(dict.fromkeys(text for part in parts for text in part[name].split("; ")))
        for name in ("machine", "versions")
    }


def promised(row: dict[str, Any]) -> float:
    """The bound of a case, or where none is proven what was estimated before the search."""
    return float(row["bound"] if "bound" in row else row["estimate"])


def broken(rows: list[dict[str, Any]]) -> list[str]:
    """The cases whose measured error is above what was allowed or promised."""
    return [
        row["key"]
        for row in rows
        if "refused" not in row
        and not (row["measured_error"] < row["epsilon"] and row["measured_error"] <= promised(row))
    ]


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--shard", default="0/1", help="I/N: cases I, I + N, I + 2N, …")
    parser.add_argument("--only", choices=list(MAKERS), help="one of the two constructions")
    parser.add_argument("--quick", action="store_true", help="a dozen cases")
    parser.add_argument("--out", type=Path, default=RESULTS / "constructions.json")
    parser.add_argument("--merge", type=Path, nargs="+", help="files of shards")
    arguments = parser.parse_args()
    if arguments.merge:
        parts = [json.loads(path.read_text()) for path in arguments.merge]
        order = {case.key: place for place, case in enumerate(cases())}
        rows = sorted((row for part in parts for row in part["rows"]), key=lambda row: order[row["key"]])
        write(arguments.out, rows, joined(parts))
    else:
        first, step = map(int, arguments.shard.split("/"))
        kept: dict[str, Any] = {**about(), "rows": []}
        if arguments.out.exists():
            kept = json.loads(arguments.out.read_text())
        rows, origin = kept["rows"], joined([kept, about()])
        known = {row["key"] for row in rows}
        chosen = quick() if arguments.quick else cases()
        for case in islice(chosen, first, None, step):
            if case.key not in known and arguments.only in (None, case.construction):
                rows.append(measure(case))
                write(arguments.out, rows, origin)
                print(rows[-1], file=sys.stderr, flush=True)
                jax.clear_caches()  # no case shares a program with another, and each keeps some megabytes
    measured = sum("refused" not in row for row in rows)
    print(f"{len(rows)} cases, {measured} measured, {len(rows) - measured} refused, broken: {broken(rows)}")


if __name__ == "__main__":
    main()

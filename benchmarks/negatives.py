"""How hard the negatives of MS MARCO are at every T, by BM25: the hardest ones, and ones drawn evenly.

    python benchmarks/negatives.py DATA [--out FILE]

DATA is what convert_data.py makes; any copy with ranked runs will do. Takes seconds, and no GPU. Writes
benchmarks/results/negatives.json: the shares of negatives that BM25 ranks below the positive of their list,
and of lists in which it ranks the positive first.
"""

from pathlib import Path
from typing import Any

from recording import RESULTS, about, parser_of, write_json

from headcount.data.msmarco.loading import load
from headcount.data.msmarco.rankings import Rankings
from headcount.errors import InvalidInput
from headcount.reproduce.real.apart import EVENLY, HARDEST
from headcount.reproduce.real.msmarco import LENGTHS


def measured(rankings: Rankings) -> list[dict[str, Any]]:
    """A row for each way to choose negatives, each T and each split."""
    found = []
    for variant in (HARDEST, EVENLY):
        for length in LENGTHS:
            at = rankings.at(length, evenly=variant == EVENLY)
            for split, lists in (("training", at.train), ("validation", at.validation)):
                if lists.ahead is None:
                    raise InvalidInput(f"{rankings.name}: expected a ranked run for each split, got none")
                right = {"negatives": lists.search_right, "lists": float((lists.ahead == 0).mean())}
                found.append({"variant": variant, "length": length, "split": split, **right})
    return found


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, default=RESULTS / "negatives.json")
    chosen = parser.parse_args()
    try:
        rows = measured(load(chosen.data))
    except InvalidInput as error:
        parser.error(str(error))
    print(write_json(chosen.out, {**about(), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()

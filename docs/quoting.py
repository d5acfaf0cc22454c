"""What all quotes share: the committed results, and tables in Markdown."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from headcount.reproduce.claims import Verdict

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
NOT_RUN = "(Not run in full yet.)"
MARKS = {True: "✓", False: "✗", None: "?"}


def table(names: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """A table in Markdown."""
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)])


def read_json(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / name).read_text())


def verdict_table(verdicts: Iterable[Verdict]) -> str:
    """Every verdict as a mark, the claim, and what decides."""
    rows = ((MARKS[verdict.holds], verdict.claim, verdict.evidence) for verdict in verdicts)
    return table(("", "claim", "what decides"), rows)


def marked(verdict: Verdict, decides: str) -> str:
    """A verdict in a cell of a table: its mark and the number that decides."""
    return f"{MARKS[verdict.holds]} {decides}".strip()

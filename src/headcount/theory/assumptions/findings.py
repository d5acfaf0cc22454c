"""What a check of the assumptions found: small objects that explain themselves."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from headcount.errors import InvalidInput

Verdict = Literal["holds", "fails", "unknown"]


@dataclass(frozen=True)
class Finding:
    """One clause of an assumption, its verdict, why, and the numbers behind it.

    >>> print(Finding("2", "distinct minimisers", "fails", "wells 0 and 1 coincide"))
    2, distinct minimisers: fails, wells 0 and 1 coincide
    """

    assumption: str
    clause: str
    verdict: Verdict
    reason: str
    numbers: Mapping[str, object] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        return f"{self.assumption}, {self.clause}: {self.verdict}, {self.reason}"


@dataclass(frozen=True)
class Assumptions:
    """Every finding about one task at one length; `print` shows them as a table.

    An assumption holds when all its clauses hold and fails when one of them fails.

    >>> found = Assumptions("bowls", 8, (
    ...     Finding("2", "unique minimiser", "holds", "all descents agree"),
    ...     Finding("2", "distinct minimisers", "fails", "wells 0 and 1 coincide"),
    ... ))
    >>> found.verdict("2"), found.holds("unique minimiser")
    ('fails', True)
    """

    task: str
    length: int
    findings: tuple[Finding, ...]

    def select(self, name: str) -> tuple[Finding, ...]:
        """The findings of an assumption ("definition", "1", "2", "3"), or of one clause."""
        found = tuple(finding for finding in self.findings if name in (finding.assumption, finding.clause))
        if not found:
            names = dict.fromkeys(
                n for finding in self.findings for n in (finding.assumption, finding.clause)
            )
            raise InvalidInput(f"assumption {name!r} is not known: use one of {', '.join(names)}")
        return found

    def verdict(self, name: str) -> Verdict:
        """The verdict on an assumption or a clause: one failure fails it, one doubt leaves it unknown."""
        verdicts = {finding.verdict for finding in self.select(name)}
        if "fails" in verdicts:
            return "fails"
        return "unknown" if "unknown" in verdicts else "holds"

    def holds(self, name: str) -> bool:
        """Whether an assumption or a clause was found to hold; unknown is not enough."""
        return self.verdict(name) == "holds"

    def __str__(self) -> str:
        rows = [("assumption", "clause", "verdict", "reason")]
        rows += [(f.assumption, f.clause, f.verdict, f.reason) for f in self.findings]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        lines = (
            "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]])
            for row in rows
        )
        return "\n".join([f"{self.task} at length {self.length}", *lines])

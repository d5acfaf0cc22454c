"""Which of the theory's assumptions a task meets, with reasons.

"holds" means that no measurement spoke against it; "fails" comes with the number that refutes it;
"unknown" says why measurements cannot decide.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.assumptions.landscape import Landscape, survey
from headcount.validation import check_integer, expected

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
            raise expected("assumption", f"one of {', '.join(names)}", name)
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


_ROUNDING = 1e-6  # a value this far outside [0, 1] is still inside
_SAME_POINT = 1e-4  # a minimiser is found to about 1e-6
_FLAT, _CURVED = 1e-6, 1e-3  # below: a zero eigenvalue; above: a positive one; between: unknown
_VANISHING = 1e-8
_DERIVATIVES = ("value", "first derivative", "second derivative")


def check_assumptions(task: RetrievalTask, *, length: int = 32, seed: int = 0) -> Assumptions:
    """The definition of a retrieval target and Assumptions 1 to 3, clause by clause, on [0,1]^d.

    The lower bound on parameters rests on Assumptions 1 and 2, the upper bounds on Assumption 3: a
    bound says something about a task only where its assumptions hold.

    >>> from headcount.tasks.library import bowls, extremes
    >>> [check_assumptions(task, length=8).verdict("2") for task in (bowls(dimension=2), extremes())]
    ['holds', 'fails']
    """
    check_integer("seed", seed, at_least=0)
    positions = _positions(task, length)
    landscape = survey(task, seed=seed)
    findings = (
        _domain(task),
        _range(landscape),
        positions,
        _smoothness(landscape),
        Finding("1", "bounded weights", "unknown", "about the model, not the task"),
        _unique(landscape),
        _distinct(landscape),
        _hessian(landscape),
        _partial_derivatives(landscape),
        _networks(task),
    )
    return Assumptions(task.name, length, findings)


def _domain(task: RetrievalTask) -> Finding:
    bounded = task.distribution == "uniform"
    outside = "normal tokens leave [0,1]^d: what follows is measured inside it"
    return Finding(
        "definition",
        "domain",
        "holds" if bounded else "fails",
        "tokens lie in [0,1]^d" if bounded else outside,
        {"distribution": task.distribution, "token_dim": task.token_dim},
    )


def _range(landscape: Landscape) -> Finding:
    low, high = (round(float(end), 6) + 0.0 for end in (landscape.values.min(), landscape.values.max()))
    finite = all(minimum.all_finite for minimum in landscape.lowest)
    inside = finite and low >= -_ROUNDING and high <= 1 + _ROUNDING
    found = f"the f_i take values from {low:.4g} to {high:.4g}" if finite else "some f_i is not finite"
    return Finding(
        "definition",
        "range",
        "holds" if inside else "fails",
        found if inside else f"{found}, outside [0,1]",
        {"smallest and largest": landscape.values.tolist()},
    )


def _positions(task: RetrievalTask, length: int) -> Finding:
    sizes = [len(positions.indices(length)) for positions in task.positions]
    enough = 4 * min(sizes) >= length
    compared = "at least" if enough else "less than"
    return Finding(
        "definition",
        "position sets",
        "holds" if enough else "fails",
        f"the smallest has {min(sizes)} of {length} positions, {compared} a quarter",
        {"sizes": sizes, "length": length},
    )


def _smoothness(landscape: Landscape) -> Finding:
    for jump, name in ((landscape.coordinate_jump, "f"), (landscape.outer_jump, "F_0, output")):
        if jump is not None:
            reason = f"the {_DERIVATIVES[jump.order]} of {name} {jump.output} jumps by {jump.size:.3g}"
            return Finding(
                "definition", "smoothness", "fails", reason, {"jump": jump.size, "order": jump.order}
            )
    reason = "no kink was met along segments of the cube, and values cannot prove that there is none"
    return Finding("definition", "smoothness", "unknown", reason)


def _unique(landscape: Landscape) -> Finding:
    clause, numbers = "unique minimiser", {"minimisers": landscape.minimisers.tolist()}
    for index, minimum in enumerate(landscape.lowest):
        if minimum.rival is not None:
            reason = f"f {index} is as low at {_point(minimum.rival)} as at {_point(minimum.point)}"
            return Finding("2", clause, "fails", reason, numbers)
    return Finding("2", clause, "holds", "the lowest descents of each f_i end in one point", numbers)


def _distinct(landscape: Landscape) -> Finding:
    clause, points = "distinct minimisers", landscape.minimisers
    pairs = list(itertools.combinations(range(len(points)), 2))
    if not pairs:
        return Finding("2", clause, "holds", "there is only one coordinate")
    if any(minimum.rival is not None for minimum in landscape.lowest):
        return Finding("2", clause, "unknown", "a minimiser that is not unique has no place of its own")
    distances = {pair: float(np.linalg.norm(points[pair[0]] - points[pair[1]])) for pair in pairs}
    (first, second), nearest = min(distances.items(), key=lambda item: item[1])
    coincide = nearest < _SAME_POINT
    found = "coincide" if coincide else f"are {nearest:.3g} apart"
    return Finding(
        "2",
        clause,
        "fails" if coincide else "holds",
        f"those of f {first} and f {second}, the nearest pair, {found}",
        {"smallest distance": nearest, "pair": [first, second]},
    )


def _hessian(landscape: Landscape) -> Finding:
    smallest = landscape.eigenvalues.min(axis=1)
    worst = int(np.argmin(smallest))
    verdict: Verdict = "unknown"
    if smallest[worst] < _FLAT:
        verdict = "fails"
    elif smallest[worst] > _CURVED:
        verdict = "holds"
    point = landscape.minimisers[worst]
    on_boundary = bool(((point < _ROUNDING) | (point > 1 - _ROUNDING)).any())
    reason = f"the smallest eigenvalue is {smallest[worst]:.3g}, of f {worst}"
    return Finding(
        "2",
        "positive definite Hessian",
        verdict,
        f"{reason}, whose minimiser is on the boundary" if on_boundary else reason,
        {"eigenvalues": landscape.eigenvalues.tolist(), "on boundary": on_boundary},
    )


def _partial_derivatives(landscape: Landscape) -> Finding:
    slopes = landscape.partial_derivatives
    output, coordinate = np.unravel_index(int(np.argmin(np.abs(slopes))), slopes.shape)
    smallest = float(slopes[output, coordinate])
    away_from_zero = bool(np.isfinite(slopes).all()) and abs(smallest) > _VANISHING
    return Finding(
        "2",
        "non-zero partial derivatives",
        "holds" if away_from_zero else "fails",
        f"of F_0 at the minima, the one nearest zero is {smallest:.3g}, for coordinate {coordinate}",
        {"partial derivatives": slopes.tolist()},
    )


def _networks(task: RetrievalTask) -> Finding:
    worst = max(task.token_dim, task.dimension)
    return Finding(
        "3",
        "approximable by networks",
        "unknown",
        f"a rate for every delta cannot be measured; if all is smooth, gamma is at worst {worst}",
        {"gamma at worst": worst},
    )


def _point(point: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> str:
    return f"({', '.join(f'{entry:.3g}' for entry in point)})"

"""Fits the law of distances to the recorded calibration tasks: `python benchmarks/fit_law.py`.

    P(h heads are not enough) = expit(constant + excess · out + (level · l + rest · r) · min(out / 2, 1))

with out, l and r as `dimension.py --calibration` records them: Measures in src/headcount/estimate/verdict.py.
That is a logistic regression with one row for every number of heads but the last of every calibration task in
which something can be learnt; controls are tasks of D = 1. A normal prior keeps the weights finite where they
separate the tasks, and no measure has a negative weight. Two things are no part of the fit: that chances
never rise with h, and the rules of falls. Log losses are with the first, exactness is with both.

It also reads dimension.json, for the reported tasks, where its rows hold the measures. It prints the fitted
weights beside those in use and writes benchmarks/results/law.json; the law in use stays as it is.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from law_measures import measures, probabilities
from recording import RESULTS, about, parser_of, write_json
from scipy.optimize import minimize
from scipy.special import expit

from headcount.estimate.verdict import EARLY, FINAL, DimensionLaw, Measures, probabilities_of

CALIBRATION, REPORTED, LAW = "dimension-calibration.json", "dimension.json", "law.json"
IN_USE = {"final": FINAL, "early": EARLY}
WEIGHTS = ("constant", "excess", "level", "rest")
PRIOR_DEVIATION = 3.0  # of every weight but the constant
RESAMPLES = 200  # of the tasks, for intervals of the weights


@dataclass(frozen=True, eq=False)
class Judged:
    """A task of known D: what a law measures of its curve, and the probabilities that were recorded."""

    name: str
    family: str
    dimension: int
    heads: tuple[int, ...]
    measures: Measures
    recorded: dict[int, float]

    @classmethod
    def of(cls, row: dict[str, Any], look: str) -> Self:
        """A row of the results of `dimension.py`, by its final or its early curve."""
        found = row["law"][look]
        known = row["name"], row["family"], row["true"]
        return cls(*known, tuple(found["heads"]), measures(found), probabilities(found))

    @property
    def not_enough(self) -> np.ndarray:
        """Whether each number of heads but the last is not enough."""
        return np.array(self.heads[:-1]) < self.dimension

    @property
    def evidence(self) -> np.ndarray:
        """What the weights multiply, a row for each number of heads but the last."""
        found = self.measures
        sizes = found.level * found.clear, found.rest * found.clear
        return np.stack([np.ones_like(found.out), found.out, *sizes], axis=1)

    def probabilities(self, law: DimensionLaw) -> dict[int, float]:
        """The probability of every D by a law."""
        return probabilities_of(self.heads, law.chances_of(self.measures))

    def named(self, law: DimensionLaw) -> bool:
        """Whether D is the likeliest by a law."""
        probabilities = self.probabilities(law)
        return max(probabilities, key=lambda heads: probabilities[heads]) == self.dimension


def main() -> None:
    parser_of(__doc__).parse_args()
    results = {name: read(RESULTS / name) for name in (CALIBRATION, REPORTED)}
    if (calibration := results[CALIBRATION]) is None:
        path = RESULTS / CALIBRATION
        given = "rows without them" if path.exists() else "no such file"
        print(
            f"{path}: expected rows with the measures of the law, got {given}; "
            "`python benchmarks/dimension.py --calibration` writes them",
            file=sys.stderr,
        )
        sys.exit(2)
    laws = {
        look: compared(law, tasks_of(calibration, look), tasks_of(results[REPORTED], look))
        for look, law in IN_USE.items()
    }
    origin = {name: calibration[name] for name in ("machine", "versions")}
    found = {**about(), "calibration": origin, "prior_deviation": PRIOR_DEVIATION, "laws": laws}
    write_json(RESULTS / LAW, found, indent=1, allow_nan=False)
    print("\n".join(line for look in laws for line in lines(look, laws[look])))


def read(path: Path) -> dict[str, Any] | None:
    """A results file; None where there is none, or one whose rows hold no measures."""
    found = json.loads(path.read_text()) if path.exists() else {"tasks": []}
    return found if found["tasks"] and all("law" in row for row in found["tasks"]) else None


def tasks_of(results: dict[str, Any] | None, look: str) -> list[Judged]:
    """The tasks in which something can be learnt, and whose curve has two head counts or more."""
    rows = results["tasks"] if results else []
    return [Judged.of(row, look) for row in rows if row["true"] and row["law"][look]]


def compared(in_use: DimensionLaw, tasks: Sequence[Judged], reported: Sequence[Judged]) -> dict[str, Any]:
    """The law in use, the fitted one, and the fits that each leave out the family they are tried on."""
    fit, families = replace(fitted(tasks), falls=in_use.falls), {}
    for family in sorted({task.family for task in tasks}):
        own = [task for task in tasks if task.family == family]
        without = fitted([task for task in tasks if task.family != family])
        left_out = scores(replace(without, falls=in_use.falls), own)
        families[family] = {"in_use": scores(in_use, own), "left_out": left_out}
    return {
        "in_use": weights_of(in_use),
        "fitted": weights_of(fit),
        "intervals": intervals(tasks),
        "calibration": {
            "in_use": scores(in_use, tasks),
            "fitted": scores(fit, tasks),
            "left_out": together([found["left_out"] for found in families.values()]),
        },
        "families": families,
        "reported": {"in_use": scores(in_use, reported), "fitted": scores(fit, reported)}
        if reported
        else None,
        "as_recorded": sum(task.probabilities(in_use) == task.recorded for task in tasks),
    }


def fitted(tasks: Sequence[Judged]) -> DimensionLaw:
    """The likeliest weights, without rules of falls."""
    evidence = np.concatenate([np.empty((0, len(WEIGHTS))), *(task.evidence for task in tasks)])
    not_enough = np.concatenate([np.empty(0), *(task.not_enough for task in tasks)])
    precision = np.array([0.0, 1, 1, 1]) / PRIOR_DEVIATION**2

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        odds = evidence @ weights
        misfit = np.logaddexp(0, odds).sum() - odds @ not_enough
        slope = evidence.T @ (expit(odds) - not_enough)
        return misfit + (precision * weights**2).sum() / 2, slope + precision * weights

    bounds = [(None, None), *[(0, None)] * 3]
    found = minimize(loss, np.zeros(len(WEIGHTS)), jac=True, method="L-BFGS-B", bounds=bounds, tol=1e-10)
    return DimensionLaw(**dict(zip(WEIGHTS, found.x.tolist(), strict=True)), falls=False)


def weights_of(law: DimensionLaw) -> dict[str, float]:
    found = asdict(law)
    return {name: found[name] for name in WEIGHTS}


def intervals(tasks: Sequence[Judged]) -> dict[str, list[float]]:
    """95% intervals of the fitted weights, over tasks drawn with replacement."""
    random = np.random.default_rng(0)
    draws = random.integers(len(tasks), size=(RESAMPLES, len(tasks)))
    weights = [list(weights_of(fitted([tasks[place] for place in draw])).values()) for draw in draws]
    return dict(zip(WEIGHTS, np.quantile(weights, [0.025, 0.975], axis=0).T.tolist(), strict=True))


def scores(law: DimensionLaw, tasks: Sequence[Judged]) -> dict[str, Any]:
    """The mean log loss of "h heads are not enough", without rules of falls, and how often D is named."""
    plain = replace(law, falls=False)
    chances = np.concatenate([plain.chances_of(task.measures) for task in tasks])
    right = np.where(np.concatenate([task.not_enough for task in tasks]), chances, 1 - chances)
    return {
        "log_loss": float(-np.log(np.maximum(right, 1e-12)).mean()),
        "rows": len(right),
        "exact": sum(task.named(law) for task in tasks),
        "tasks": len(tasks),
        "wrong": [task.name for task in tasks if not task.named(law)],
    }


def together(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The scores of several sets of tasks as those of one."""
    counts = {name: sum(part[name] for part in parts) for name in ("rows", "exact", "tasks")}
    log_loss = sum(part["log_loss"] * part["rows"] for part in parts) / counts["rows"]
    return {"log_loss": log_loss, **counts, "wrong": [name for part in parts for name in part["wrong"]]}


def lines(look: str, found: dict[str, Any]) -> Iterator[str]:
    """What is printed of one law."""
    yield f"{look}: weight, in use, fitted (95% interval over tasks)"
    for name in WEIGHTS:
        (low, high), fit = found["intervals"][name], found["fitted"][name]
        yield f"  {name:9s} {found['in_use'][name]:6.2f} {fit:6.2f} ({low:.2f} to {high:.2f})"
    for tasks in ("calibration", "reported"):
        for law, score in (found[tasks] or {}).items():
            yield f"  {tasks} tasks, {law.replace('_', ' ')}: {in_words(score)}"
    for family, score in found["families"].items():
        yield f"  {family}: in use {in_words(score['in_use'])}; left out {in_words(score['left_out'])}"
    tasks = found["calibration"]["in_use"]["tasks"]
    yield f"  recorded probabilities are those of the law in use: {found['as_recorded']} of {tasks}"


def in_words(score: dict[str, Any]) -> str:
    wrong = f" ({', '.join(score['wrong'])} wrong)" if score["wrong"] else ""
    return f"log loss {score['log_loss']:.3f}, exact on {score['exact']} of {score['tasks']}{wrong}"


if __name__ == "__main__":
    main()

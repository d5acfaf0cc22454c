"""What was counted, in rows and in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from headcount.trained.descent import Descent
from headcount.trained.plan import SOLUTIONS, LayerShape, Name, Plan
from headcount.trained.reselection import Reselected, places_again
from headcount.trained.rise import Rise

if TYPE_CHECKING:
    from headcount.trained.count import Counted

Verdict = Literal["counted", "all are needed", "cannot tell"]
MAX_TOLD = 3  # layers in a sentence


@dataclass(frozen=True)
class LayerCount:
    """What one layer needs while the others stay whole.

    - `needed`: the fewest heads within the tolerance; None where the loss is too noisy to tell.
    - `interval`: 95%, over samples of the judge and of the selection.
    - `rise`: of the loss at `needed`, on samples that decided nothing.
    - `uniform`, `free`: the heads that it keeps in the two solutions of the plan.
    """

    shape: LayerShape
    needed: int | None
    interval: tuple[int, int]
    verdict: Verdict
    rise: Rise
    uniform: int
    free: int
    kept: tuple[int, ...]

    def to_row(self) -> dict[str, Any]:
        """Flat: a row of the frame."""
        return {
            "layer": self.shape.name,
            "heads": self.shape.heads,
            "kv_heads": self.shape.kv_heads,
            "head_dim": self.shape.head_dim,
            "needed": self.needed,
            "low": self.interval[0],
            "high": self.interval[1],
            "verdict": self.verdict,
            "rise": self.rise.mean,
            "rise_low": self.rise.low,
            "rise_high": self.rise.high,
            "uniform": self.uniform,
            "free": self.free,
            "kept": list(self.kept),
        }


def layer_counts(counted: "Counted", plan: Plan) -> tuple[LayerCount, ...]:
    """Every layer's count with its interval, and what the plan gives it."""
    found = []
    for place, (shape, descent) in enumerate(zip(plan.layers, counted.layers, strict=True)):
        verdict = verdict_of(descent)
        interval = interval_of(descent, counted.reselected[place])
        others = plan.heads - shape.heads
        found.append(
            LayerCount(
                shape=shape,
                needed=None if verdict == "cannot tell" else descent.found.heads - others,
                interval=(interval[0] - others, interval[1] - others),
                verdict=verdict,
                rise=descent.reported,
                uniform=len(plan.uniform.kept[place]),
                free=len(plan.free.kept[place]),
                kept=plan.free.kept[place],
            )
        )
    return tuple(found)


def verdict_of(descent: Descent) -> Verdict:
    """Whether a count was found."""
    if descent.too_noisy:
        return "cannot tell"
    return "counted" if descent.place else "all are needed"


def interval_of(descent: Descent, reselected: Reselected) -> tuple[int, int]:
    """The heads of the model at both ends of the interval; the count is always one of them or between."""
    first, last = places_again(descent, reselected)
    heads = [sum(descent.way[place]) for place in (first, last, descent.place)]
    return min(heads), max(heads)


def solution_interval(counted: "Counted", name: Name) -> tuple[int, int]:
    """The heads of the model at both ends of the interval of a solution's count."""
    place = -len(SOLUTIONS) + SOLUTIONS.index(name)
    return interval_of(getattr(counted, name), counted.reselected[place])


def worsening(measure: str) -> str:
    """Which way a measure goes as a model gets worse.

    >>> worsening("metric"), worsening("loss")
    ('drop', 'rise')
    """
    return "drop" if measure == "metric" else "rise"


def sentence_of(plan: Plan, counted: "Counted", layers: Sequence[LayerCount]) -> str:
    """The answer for the whole model, and the layers that need the most of their heads.

    Of layers that need as many, those that come first are named.
    """
    free = counted.free
    verdict = verdict_of(free)
    if verdict == "cannot tell":
        assert free.failed is not None, "a way that ended is not noisy"
        failed = free.steps[free.failed]
        return (
            f"Cannot tell how many of the {plan.heads} heads are needed: with {failed.heads} the "
            f"{changes_by(plan.measure)} {failed.judged}, which is too noisy for a tolerance of "
            f"{plan.tolerance:g}. Give more samples, or a larger tolerance."
        )
    if verdict == "all are needed":
        return f"All {plan.heads} heads are needed at a tolerance of {plan.tolerance:g} ({plan.measure})."
    gone = plan.heads - plan.free.heads
    most, least = (plan.heads - kept for kept in solution_interval(counted, "free"))
    known = [(-layer.needed / layer.shape.heads, place) for place, layer in enumerate(layers) if layer.needed]
    hardest = [place for _, place in sorted(known)[:MAX_TOLD]]  # of equals the first
    parts = [
        f"layer {place} needs {layers[place].needed} of {layers[place].shape.heads} "
        f"[{layers[place].interval[0]}, {layers[place].interval[1]}]"
        for place in sorted(hardest)
    ]
    alone = f"; alone, {', '.join(parts)}" if parts else ""
    solution, said = plan.free, f"the {changes_by(plan.measure)} {free.reported}"
    if solution.recovered is not None:
        said += f", after distillation by {solution.recovered}"
    left = solution.recovered or free.reported
    beyond = ", though its upper bound there is above it" if left.high > plan.tolerance else ""
    can_go = f"{gone} of {plan.heads} heads can go [{least}, {most}]"
    return f"{can_go}: {said}, tolerance {plan.tolerance:g}{beyond}{alone}."


def changes_by(measure: str) -> str:
    """How a measure gets worse.

    >>> changes_by("metric"), changes_by("KL divergence")
    ('metric drops by', 'KL divergence rises by')
    """
    return f"{measure} {worsening(measure)}s by"

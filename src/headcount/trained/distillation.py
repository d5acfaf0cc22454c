"""The solutions of a plan, each distilled towards the whole model and reported anew."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from headcount.errors import InvalidInput
from headcount.trained.effect import Measure
from headcount.trained.fitting import rebuilt
from headcount.trained.plan import SOLUTIONS, Kept, Name, Plan
from headcount.trained.projections import Projections
from headcount.trained.recovery import recovered
from headcount.trained.rise import Rise
from headcount.trained.weights import Weights, weights_of
from headcount.validation import check_number

if TYPE_CHECKING:
    from torch import nn

    from headcount.trained.batches import Batch
    from headcount.trained.count import Note, Study

# The solution, the share of its budget that is used up, and its best distance on held-out samples so far.
Distilling = Callable[[Name, float, float], None]


def check_distillable(
    seconds: float | None, whole: "nn.Module", batch: "Batch", distance: str | None
) -> None:
    """Refuse, before anything takes long, a budget of nothing, and a model whose outputs have no distance."""
    if seconds is None:
        return
    check_number("distil", seconds, above=0.0)
    try:
        Measure.of(whole, [batch], kind=distance)
    except InvalidInput as problem:
        raise InvalidInput(f"distil: {problem}") from None


def distilled(
    study: "Study",
    plan: Plan,
    projections: Mapping[Name, Projections],
    *,
    seconds: float | None,
    size: int,
    distance: str | None,
    note: "Note" = lambda _: None,
    progress: Distilling | None = None,
) -> tuple[Plan, dict[Name, Weights]]:
    """The plan with the rise after recovery, and the weights of both solutions.

    Trained on all samples but those of the report. A solution that keeps all heads stays as it is; two that
    keep the same are distilled once. Without `seconds` nothing is done.

    - `size`: samples a step.
    """
    if seconds is None:
        return plan, {}
    note(f"distillation of the plan's solutions, {seconds:g} s each")
    watch = progress or (lambda solution, used, best: None)
    samples = study.samples
    training = [*samples.fitted, *samples.guessed, *samples.judged]
    done: dict[Kept, tuple[Rise, Weights]] = {}
    weights: dict[Name, Weights] = {}
    for name in SOLUTIONS:
        solution = plan.solution(name)
        if solution.heads == plan.heads:
            continue
        if solution.kept not in done:
            small = rebuilt(study.whole, solution.kept, projections[name])
            model = recovered(
                study.whole,
                small,
                training,
                seconds=seconds,
                size=size,
                seed=study.seed,
                distance=distance,
                progress=partial(watch, name),
            )
            done[solution.kept] = study.rise(study.reporting.rises(model)), weights_of(model)
        rise, weights[name] = done[solution.kept]
        changed = replace(solution, recovered=rise)
        plan = replace(plan, uniform=changed) if name == "uniform" else replace(plan, free=changed)
    return plan, weights

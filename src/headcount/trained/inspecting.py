"""How many heads a trained model needs: the one call."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from headcount.errors import InvalidInput
from headcount.extras import needed
from headcount.trained.descent import Descent
from headcount.trained.inspection import Inspection
from headcount.trained.plan import SOLUTIONS, LayerShape, Name, Plan, Solution
from headcount.trained.projections import Projections
from headcount.trained.summary import layer_counts, sentence_of
from headcount.validation import check_integer, check_number

if TYPE_CHECKING:
    from torch import nn

    from headcount.trained.batches import Batch
    from headcount.trained.count import Counted, Note, Study
    from headcount.trained.distillation import Distilling
    from headcount.trained.effect import Own
    from headcount.trained.gains import Gains

TIMING = 10.0  # seconds


def inspect(
    model: "nn.Module",
    batches: "Iterable[Batch]",
    loss: "Own | None" = None,
    metric: "Own | None" = None,
    *,
    tolerance: float | None = None,
    distance: str | None = None,
    kv_heads: Sequence[int] | int = (),
    distil: float | None = None,
    timing: float | None = None,
    seed: int = 0,
    baselines: bool = False,
    progress: "Note | None" = None,
    distilling: "Distilling | None" = None,
) -> Inspection:
    """How many heads a trained PyTorch model needs, per layer and in all; the model itself is left alone.

    - `batches`: tensors, tuples of inputs and targets, or dicts of named inputs, on any device.
    - `loss`, `metric`: of the outputs and the batch, one number for every sample; a loss is better where it
      is lower, a metric where it is higher. Without either: the distance of the outputs from those of the
      whole model, which needs no labels.
    - `tolerance`: by how much the mean may get worse.
    - `distance`: "KL divergence", "cosine distance" or "squared distance", where the outputs do not tell.
    - `kv_heads`: numbers of key-value heads to try in every layer, beside the count of heads.
    - `distil`: seconds for which each solution of the plan is then trained towards the whole model's outputs,
      without labels.
    - `timing`: seconds to time the smaller model in, beside the whole one; None: 10, and 0: do not.
    - `baselines`: also what other ways to choose lose with as many heads as the plan has.
    - `progress`: called with a line for every stage; `distilling`: while a solution is distilled, with its
      name, the share of the seconds that has passed, and its best distance on held-out samples so far.
    """
    needed("torch", extra="torch", purpose="inspecting a trained model")
    from headcount.trained.batches import collected, size_of
    from headcount.trained.colliding import collisions_of
    from headcount.trained.count import Samples, Study
    from headcount.trained.decoding import with_decoder_inputs
    from headcount.trained.discovery import prepared
    from headcount.trained.distillation import check_distillable, distilled
    from headcount.trained.export.inputs import Inputs
    from headcount.trained.kv_counts import checked_metrics, kv_counts

    began = perf_counter()
    timing = check_number("timing", TIMING if timing is None else timing, at_least=0.0)
    kv_heads = (kv_heads,) if isinstance(kv_heads, int) else tuple(kv_heads)
    seed = check_integer("seed", seed, at_least=0)
    tolerance = _checked_tolerance(tolerance, loss=loss, metric=metric)
    whole = prepared(model)
    given = with_decoder_inputs(whole, collected(batches))
    check_distillable(distil, whole, given[0], distance)
    measured: dict[str, Any] = {"loss": loss, "metric": metric, "distance": distance}
    study = Study(whole, Samples.of(given, seed=seed), tolerance=tolerance, seed=seed, **measured)
    note = progress or (lambda _: None)
    metrics = checked_metrics(study, kv_heads) if kv_heads else None
    counted = study.run(note)
    plan, projections = _planned(study, counted)
    grouped = None if metrics is None else kv_counts(study, metrics, kv_heads, note)
    if grouped is not None and grouped.planned is not None:
        plan = replace(plan, kv_heads=grouped.planned.kv_heads)
    layers = layer_counts(counted, plan)
    note("samples that one head too few makes alike")
    collisions = collisions_of(study, layers, given)
    plan, weights = distilled(
        study,
        plan,
        projections,
        seconds=distil,
        size=max(map(size_of, given)),
        distance=distance,
        note=note,
        progress=distilling,
    )
    found = Inspection(
        plan=plan,
        layers=layers,
        sentence=sentence_of(plan, counted, layers),
        counted=counted,
        whole=whole,
        projections=projections,
        inputs=Inputs.like(whole, given[0]),
        samples=sum(map(size_of, given)),
        seconds=0.0,
        recovered=weights,
        collisions=collisions,
        grouped=grouped,
    )
    held = _held_against(study, plan, note) if baselines else None
    won = _gains(found, given, timing, note)
    return replace(found, gains=won, baselines=held, seconds=perf_counter() - began)


def _held_against(study: "Study", plan: Plan, note: "Note") -> list[dict[str, Any]]:
    """Baselines at the head counts of the plan; none where it keeps all heads."""
    from headcount.trained.baselines import baselines

    note("baselines")
    return baselines(study, sorted({plan.solution(name).heads for name in SOLUTIONS} - {plan.heads}))


def _gains(found: Inspection, batches: "Sequence[Batch]", seconds: float, note: "Note") -> "Gains | None":
    """What the free solution wins over the whole model; None where nothing was removed or timed."""
    from headcount.trained.gains import gains

    if not seconds or found.plan.free.heads == found.plan.heads:
        return None
    note("what the smaller model wins")
    return gains(found.whole, found.apply("free"), batches, seconds=seconds)


def _planned(study: "Study", counted: "Counted") -> "tuple[Plan, dict[Name, Projections]]":
    """The plan, with the projections of both solutions as they were judged."""
    from headcount.trained.discovery import fingerprint
    from headcount.trained.fitting import projections_of

    solutions: dict[Name, Solution] = {}
    projections: dict[Name, Projections] = {}
    for name in SOLUTIONS:
        found: Descent = getattr(counted, name)
        built = study.build(found.way[found.place])
        solutions[name] = Solution(built.kept, found.found.judged, found.reported)
        projections[name] = projections_of(built)
    layers = tuple(
        LayerShape(block.name, block.heads, block.kv_heads, block.head_dim) for block in study.blocks
    )
    plan = Plan(
        model=fingerprint(study.whole),
        layers=layers,
        measure=study.judging.kind,
        tolerance=study.tolerance,
        uniform=solutions["uniform"],
        free=solutions["free"],
    )
    return plan, projections


def _checked_tolerance(tolerance: float | None, **own: Callable[..., Any] | None) -> float | None:
    """That of a loss or a metric of the user's own has no default."""
    for name, each in own.items():
        if each is not None and not callable(each):
            raise InvalidInput(f"{name}: expected a function of outputs and batch, got {type(each).__name__}")
    if tolerance is not None:
        return check_number("tolerance", tolerance, above=0.0)
    if any(own.values()):
        raise InvalidInput("tolerance: expected by how much the loss or metric may get worse, got none")
    return None

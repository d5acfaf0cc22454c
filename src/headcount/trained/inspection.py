"""How many heads a trained model needs: the one call, and what it returns."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from headcount.errors import InvalidInput
from headcount.extras import needed
from headcount.results.files import check_writable, write_whole
from headcount.trained.descent import Descent
from headcount.trained.plan import SOLUTIONS, LayerShape, Name, Plan, Solution
from headcount.trained.summary import LayerCount, layer_counts, sentence_of
from headcount.validation import check_integer, check_number
from headcount.version import __version__

if TYPE_CHECKING:
    import pandas as pd
    from torch import nn

    from headcount.trained.batches import Batch
    from headcount.trained.count import Counted, Note, Study
    from headcount.trained.effect import Own

PLAN, INSPECTION, PROJECTIONS = "plan.json", "inspect.json", "projections.safetensors"
Projections = list[tuple[np.ndarray, np.ndarray | None]]


@dataclass(frozen=True, eq=False)
class Inspection:
    """How many heads a model needs, and a plan to remove the others.

    - `plan`: the heads to keep; both of its solutions can be applied.
    - `layers`: what each layer needs, with an interval.
    - `sentence`: the answer.
    - `baselines`: what other ways lose with as many heads, where they were asked for.
    """

    plan: Plan
    layers: tuple[LayerCount, ...]
    sentence: str
    counted: "Counted" = field(repr=False)
    whole: "nn.Module" = field(repr=False)
    projections: dict[Name, Projections] = field(repr=False)
    samples: int
    seconds: float
    baselines: list[dict[str, Any]] | None = None

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """A row per layer."""
        import pandas as pd

        return pd.DataFrame([layer.to_row() for layer in self.layers])

    def apply(self, solution: Name = "free") -> "nn.Module":
        """A copy of the model with the heads of a solution, its output projections refitted."""
        from headcount.trained.fitting import rebuilt

        kept = self.plan.solution(solution).kept
        return rebuilt(self.whole, kept, self.projections[solution])

    def to_json(self) -> dict[str, Any]:
        """The content of inspect.json."""
        return {
            "sentence": self.sentence,
            "measure": self.plan.measure,
            "tolerance": self.plan.tolerance,
            "heads": self.plan.heads,
            **{name: self._solution(self.plan.solution(name)) for name in SOLUTIONS},
            "layers": [layer.to_row() for layer in self.layers],
            "curves": {name: _curve(getattr(self.counted, name)) for name in SOLUTIONS},
            "ways_to_choose": self.counted.ways,
            **({} if self.baselines is None else {"baselines": self.baselines}),
            "samples": self.samples,
            "seconds": round(self.seconds, 1),
            "version": __version__,
        }

    def save(self, folder: Path | str) -> Path:
        """Write inspect.json, plan.json and the refitted projections into a folder."""
        from safetensors.numpy import save

        folder = Path(folder)
        check_writable("folder", folder)
        tensors = {
            f"{name}.{layer}.{part}": np.ascontiguousarray(values, np.float32)
            for name, layers in self.projections.items()
            for layer, pair in enumerate(layers)
            for part, values in zip(("weight", "bias"), pair, strict=True)
            if values is not None
        }
        contents = {
            PLAN: _written(self.plan.to_json()),
            INSPECTION: _written(self.to_json()),
            PROJECTIONS: save(tensors, {"model": self.plan.model}),
        }
        for name, content in contents.items():
            _write(folder / name, content)
        return folder

    def _solution(self, solution: Solution) -> dict[str, Any]:
        rises = {"judged": solution.judged, "reported": solution.reported}
        return {
            "heads": solution.heads,
            "counts": [len(heads) for heads in solution.kept],
            **{name: None if rise is None else rise.to_json() for name, rise in rises.items()},
        }

    def __repr__(self) -> str:
        return f"Inspection: {self.sentence}"

    def _repr_html_(self) -> str:
        """For notebooks: the answer and the layers."""
        table = self.frame.drop(columns=["kept"]).to_html(index=False, float_format="{:.3g}".format, border=0)
        return f"<p>{escape(self.sentence)}</p>{table}"


def inspect(
    model: "nn.Module",
    batches: "Iterable[Batch]",
    loss: "Own | None" = None,
    metric: "Own | None" = None,
    *,
    tolerance: float | None = None,
    distance: str | None = None,
    seed: int = 0,
    baselines: bool = False,
    progress: "Note | None" = None,
) -> Inspection:
    """How many heads a trained PyTorch model needs, per layer and in all; the model itself is left alone.

    - `batches`: tensors, tuples of inputs and targets, or dicts of named inputs, on any device.
    - `loss`, `metric`: of the outputs and the batch, one number for every sample; a loss is better where it
      is lower, a metric where it is higher. Without either: the distance of the outputs from those of the
      whole model, which needs no labels.
    - `tolerance`: by how much the mean may get worse.
    - `distance`: "KL divergence", "cosine distance" or "squared distance", where the outputs do not tell.
    - `baselines`: also what other ways to choose lose with as many heads as the plan has.
    - `progress`: called with a line for every stage.
    """
    needed("torch", extra="torch", purpose="inspecting a trained model")
    from headcount.trained.batches import collected, size_of
    from headcount.trained.count import Samples, Study
    from headcount.trained.discovery import prepared

    began = perf_counter()
    seed = check_integer("seed", seed, at_least=0)
    _check_callable(loss=loss, metric=metric)
    if tolerance is not None:
        tolerance = check_number("tolerance", tolerance, above=0.0)
    elif loss is not None or metric is not None:
        raise InvalidInput("tolerance: expected by how much the loss or metric may get worse, got none")
    whole = prepared(model)
    given = collected(batches)
    study = Study(
        whole,
        Samples.of(given, seed=seed),
        tolerance=tolerance,
        loss=loss,
        metric=metric,
        distance=distance,
        seed=seed,
    )
    note = progress or (lambda _: None)
    counted = study.run(note)
    plan, projections = _planned(study, counted)
    layers = layer_counts(counted, plan)
    return Inspection(
        plan=plan,
        layers=layers,
        sentence=sentence_of(plan, counted, layers),
        counted=counted,
        whole=whole,
        projections=projections,
        samples=sum(map(size_of, given)),
        baselines=_held_against(study, plan, note) if baselines else None,
        seconds=perf_counter() - began,
    )


def _held_against(study: "Study", plan: Plan, note: "Note") -> list[dict[str, Any]]:
    """Baselines at the head counts of the plan; none where it keeps all heads."""
    from headcount.trained.baselines import baselines

    note("baselines")
    return baselines(study, sorted({plan.solution(name).heads for name in SOLUTIONS} - {plan.heads}))


def _planned(study: "Study", counted: "Counted") -> tuple[Plan, dict[Name, Projections]]:
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
    plan = Plan(fingerprint(study.blocks), layers, study.judging.kind, study.tolerance, **solutions)
    return plan, projections


def _check_callable(**given: Callable[..., Any] | None) -> None:
    for name, each in given.items():
        if each is not None and not callable(each):
            raise InvalidInput(f"{name}: expected a function of outputs and batch, got {type(each).__name__}")


def _curve(descent: Descent) -> list[dict[str, Any]]:
    """Loss against heads, as far as the judge was asked."""
    steps = sorted(descent.steps.values(), key=lambda step: -step.heads)
    return [
        {
            "heads": step.heads,
            "counts": list(step.counts),
            "judged": step.judged.to_json(),
        }
        for step in steps
    ]


def _write(path: Path, content: bytes) -> None:
    write_whole(path, lambda file: file.write(content))


def _written(content: dict[str, Any]) -> bytes:
    return json.dumps(content, indent=2, allow_nan=False).encode()

"""How many heads a trained model needs: the one call, and what it returns."""

import json
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from headcount.errors import InvalidInput
from headcount.extras import needed
from headcount.results.files import check_writable, write_whole
from headcount.trained.descent import Descent, Step
from headcount.trained.plan import SOLUTIONS, LayerShape, Name, Plan, Solution, rises_to_json
from headcount.trained.projections import PROJECTIONS, Projections, projections_bytes
from headcount.trained.summary import LayerCount, layer_counts, sentence_of
from headcount.validation import check_integer, check_number
from headcount.version import __version__

if TYPE_CHECKING:
    import pandas as pd
    from torch import nn

    from headcount.trained.batches import Batch
    from headcount.trained.colliding import Collision
    from headcount.trained.count import Counted, Note, Study
    from headcount.trained.distillation import Distilling
    from headcount.trained.effect import Own
    from headcount.trained.export.inputs import Inputs
    from headcount.trained.export.writing import Exported, Kind
    from headcount.trained.weights import Weights

PLAN, INSPECTION = "plan.json", "inspect.json"
REPORT, CHART_WIDTH = "report.html", 480


@dataclass(frozen=True, eq=False)
class Inspection:
    """How many heads a model needs, and a plan to remove the others.

    - `plan`: the heads to keep; both of its solutions can be applied.
    - `layers`: what each layer needs, with an interval.
    - `sentence`: the answer.
    - `inputs`: some of the kind that the model takes, drawn at random, to try a shrunk model with.
    - `collisions`: samples that a layer with one head too few no longer tells apart.
    - `command`: what repeats it, for the page.
    """

    plan: Plan
    layers: tuple[LayerCount, ...]
    sentence: str
    counted: "Counted" = field(repr=False)
    whole: "nn.Module" = field(repr=False)
    projections: dict[Name, Projections] = field(repr=False)
    inputs: "Inputs" = field(repr=False)
    samples: int
    seconds: float
    recovered: "dict[Name, Weights]" = field(default_factory=dict, repr=False)
    collisions: "tuple[Collision, ...]" = field(default=(), repr=False)
    command: str = "hc.inspect(model, batches)"

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """A row per layer."""
        import pandas as pd

        return pd.DataFrame([layer.to_row() for layer in self.layers])

    def apply(self, solution: Name = "free") -> "nn.Module":
        """A copy of the model with the heads of a solution, its output projections refitted.

        Where the solutions were distilled, with all weights as they then are.
        """
        from headcount.trained.fitting import rebuilt
        from headcount.trained.weights import set_weights

        kept = self.plan.solution(solution).kept
        model = rebuilt(self.whole, kept, self.projections[solution])
        weights = self.recovered.get(solution)
        return model if weights is None else set_weights(model, weights)

    def to_json(self) -> dict[str, Any]:
        """The content of inspect.json."""
        return {
            "sentence": self.sentence,
            "measure": self.plan.measure,
            "tolerance": self.plan.tolerance,
            "heads": self.plan.heads,
            **{name: self._solution(self.plan.solution(name)) for name in SOLUTIONS},
            "layers": [layer.to_row() for layer in self.layers],
            "curves": {
                **{name: _curve(getattr(self.counted, name)) for name in SOLUTIONS},
                "alone": [_curve(descent, place) for place, descent in enumerate(self.counted.layers)],
            },
            "ways_to_choose": self.counted.ways,
            "collisions": [collision.to_json() for collision in self.collisions],
            "samples": self.samples,
            "seconds": round(self.seconds, 1),
            "version": __version__,
            "command": self.command,
        }

    def report(self, path: Path | str) -> Path:
        """Write the page, which opens in any browser, to this file."""
        from headcount.report.inspection import write_inspection

        path = Path(path)
        plan_file = shlex.quote(str(path.with_name(PLAN)))
        write_inspection(self.to_json(), self.plan.to_json(), path, plan_file=plan_file)
        return path

    def save(self, folder: Path | str) -> Path:
        """Write inspect.json, plan.json and what `headcount shrink` needs into a folder."""
        from safetensors.torch import save

        from headcount.trained.export.inputs import INPUTS
        from headcount.trained.weights import file_of, written_weights

        folder = Path(folder)
        check_writable("folder", folder)
        contents = {
            PLAN: _written(self.plan.to_json()),
            INSPECTION: _written(self.to_json()),
            PROJECTIONS: projections_bytes(self.plan, self.projections),
            INPUTS: save(self.inputs.to_tensors()),
        }
        for name in SOLUTIONS:
            (folder / file_of(name)).unlink(missing_ok=True)  # of an earlier plan
        for solution, weights in self.recovered.items():
            kept = self.plan.solution(solution).kept
            contents[file_of(solution)] = written_weights(weights, model=self.plan.model, kept=kept)
        for file, content in contents.items():
            _write(folder / file, content)
        return folder

    def save_model(
        self, folder: Path | str, *, solution: Name | None = None, kind: "Kind | None" = None
    ) -> "Exported":
        """Write a shrunk model that loads without headcount, as `headcount shrink` does."""
        from headcount.trained.export.smaller import Smaller
        from headcount.trained.export.writing import written

        def build(name: Name) -> Smaller:
            return Smaller(self.whole, self.apply(name).cpu(), self.inputs, name)

        return written(self.plan, build, Path(folder), kind=kind, solution=solution)

    def _solution(self, solution: Solution) -> dict[str, Any]:
        return {
            "heads": solution.heads,
            "counts": [len(heads) for heads in solution.kept],
            **rises_to_json(solution),
        }

    def __repr__(self) -> str:
        return f"Inspection: {self.sentence}"

    def _repr_html_(self) -> str:
        """For notebooks: the answer, and the curves that decide it as a picture."""
        from headcount.report.inspected import read
        from headcount.report.inspection_charts import whole_chart
        from headcount.report.rendering import WRITERS

        found, _ = read(self.to_json(), self.plan.to_json())
        picture = WRITERS[".svg"](whole_chart(found).properties(width=CHART_WIDTH))
        return f"<p>{escape(self.sentence)}</p>{picture.decode()}"


def inspect(
    model: "nn.Module",
    batches: "Iterable[Batch]",
    loss: "Own | None" = None,
    metric: "Own | None" = None,
    *,
    tolerance: float | None = None,
    distance: str | None = None,
    distil: float | None = None,
    seed: int = 0,
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
    - `distil`: seconds for which each solution of the plan is then trained towards the whole model's outputs,
      without labels.
    - `progress`: called with a line for every stage; `distilling`: while a solution is distilled, with its
      name, the share of the seconds that has passed, and its best distance on held-out samples so far.
    """
    needed("torch", extra="torch", purpose="inspecting a trained model")
    from headcount.trained.batches import collected, size_of
    from headcount.trained.colliding import collisions_of
    from headcount.trained.count import Samples, Study
    from headcount.trained.discovery import prepared
    from headcount.trained.distillation import check_distillable, distilled
    from headcount.trained.export.inputs import Inputs

    began = perf_counter()
    seed = check_integer("seed", seed, at_least=0)
    _check_callable(loss=loss, metric=metric)
    if tolerance is not None:
        tolerance = check_number("tolerance", tolerance, above=0.0)
    elif loss is not None or metric is not None:
        raise InvalidInput("tolerance: expected by how much the loss or metric may get worse, got none")
    whole = prepared(model)
    given = collected(batches)
    check_distillable(distil, whole, given[0], distance)
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
    return Inspection(
        plan=plan,
        layers=layers,
        sentence=sentence_of(plan, counted, layers),
        counted=counted,
        whole=whole,
        projections=projections,
        inputs=Inputs.like(whole, given[0]),
        samples=sum(map(size_of, given)),
        seconds=perf_counter() - began,
        recovered=weights,
        collisions=collisions,
    )


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
        fingerprint(study.blocks),
        layers,
        study.judging.kind,
        study.tolerance,
        solutions["uniform"],
        solutions["free"],
    )
    return plan, projections


def _check_callable(**given: Callable[..., Any] | None) -> None:
    for name, each in given.items():
        if each is not None and not callable(each):
            raise InvalidInput(f"{name}: expected a function of outputs and batch, got {type(each).__name__}")


def _curve(descent: Descent, layer: int | None = None) -> list[dict[str, Any]]:
    """Loss against heads, those of one layer or of all, as far as the judge was asked."""
    steps = sorted(descent.steps.values(), key=lambda step: -step.heads)
    return [
        {
            **(_of_all(step) if layer is None else {"heads": step.counts[layer]}),
            "judged": step.judged.to_json(),
        }
        for step in steps
    ]


def _of_all(step: Step) -> dict[str, Any]:
    return {"heads": step.heads, "counts": list(step.counts)}


def _write(path: Path, content: bytes) -> None:
    write_whole(path, lambda file: file.write(content))


def _written(content: dict[str, Any]) -> bytes:
    return json.dumps(content, indent=2, allow_nan=False).encode()

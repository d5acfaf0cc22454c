"""How many heads a trained model needs: the answer, and the files that it is kept in."""

import json
import shlex
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headcount.errors import InvalidInput
from headcount.results.files import check_writable, write_whole
from headcount.trained.descent import Descent, Step
from headcount.trained.plan import SOLUTIONS, Made, Name, Plan, rises_to_json
from headcount.trained.projections import PROJECTIONS, Projections, projections_bytes
from headcount.trained.summary import LayerCount, solution_interval
from headcount.version import __version__

if TYPE_CHECKING:
    import pandas as pd
    from torch import nn

    from headcount.trained.colliding import Collision
    from headcount.trained.count import Counted
    from headcount.trained.export.inputs import Inputs
    from headcount.trained.export.writing import Exported, Kind
    from headcount.trained.gains import Gains
    from headcount.trained.kv_counts import KvCounts
    from headcount.trained.weights import Weights

PLAN, INSPECTION = "plan.json", "inspect.json"
REPORT, CHART_WIDTH = "report.html", 480


@dataclass(frozen=True, eq=False)
class Inspection:
    """How many heads a model needs, and a plan to remove the others.

    - `plan`: the heads to keep; both of its solutions can be applied.
    - `layers`: what each layer needs, with an interval.
    - `sentence`: the answer.
    - `baselines`: what other ways lose with as many heads, where they were asked for.
    - `inputs`: some of the kind that the model takes, drawn at random, to try a shrunk model with.
    - `collisions`: samples that a layer with one head too few no longer tells apart.
    - `grouped`: what fewer key-value heads cost, where that was asked for.
    - `gains`: what the smaller model wins: parameters, multiply-adds, time.
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
    grouped: "KvCounts | None" = None
    gains: "Gains | None" = None
    baselines: "list[dict[str, Any]] | None" = field(default=None, repr=False)
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

    def apply_grouping(self) -> "nn.Module":
        """A copy of the model with all its heads and the key-value heads of the plan."""
        from headcount.trained.regrouping import apply_grouping

        planned = None if self.grouped is None else self.grouped.planned
        if planned is None:
            raise InvalidInput("grouped: expected a plan with key-value heads, got none")
        return apply_grouping(self.whole, planned.layers)

    def to_json(self) -> dict[str, Any]:
        """The content of inspect.json."""
        return {
            "sentence": self.sentence,
            "measure": self.plan.measure,
            "tolerance": self.plan.tolerance,
            "heads": self.plan.heads,
            **{name: self._solution(name) for name in SOLUTIONS},
            "layers": [layer.to_row() for layer in self.layers],
            "curves": {
                **{name: _curve(getattr(self.counted, name)) for name in SOLUTIONS},
                "alone": [_curve(descent, place) for place, descent in enumerate(self.counted.layers)],
            },
            "ways_to_choose": self.counted.ways,
            "collisions": [collision.to_json() for collision in self.collisions],
            "grouped": [] if self.grouped is None else [row.to_json() for row in self.grouped.rows],
            "grouped_note": "" if self.grouped is None else self.grouped.said,
            "gains": None if self.gains is None else self.gains.to_json(),
            **({} if self.baselines is None else {"baselines": self.baselines}),
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
        if self.grouped is not None and self.grouped.planned is not None:
            from headcount.trained.grouping_file import GROUPING, grouping_to_bytes

            contents[GROUPING] = grouping_to_bytes(self.grouped.planned.layers, model=self.plan.model)
        for file, content in contents.items():
            _write(folder / file, content)
        return folder

    def save_model(
        self, folder: Path | str, *, solution: Made | None = None, kind: "Kind | None" = None
    ) -> "Exported":
        """Write a shrunk model that loads without headcount, as `headcount shrink` does."""
        from headcount.trained.export.smaller import Smaller
        from headcount.trained.export.writing import written

        def build(name: Made) -> Smaller:
            model = self.apply_grouping() if name == "grouped" else self.apply(name)
            return Smaller(self.whole, model.cpu(), self.inputs, name)

        return written(self.plan, build, Path(folder), kind=kind, solution=solution)

    def _solution(self, name: Name) -> dict[str, Any]:
        solution = self.plan.solution(name)
        return {
            "heads": solution.heads,
            "interval": list(solution_interval(self.counted, name)),
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

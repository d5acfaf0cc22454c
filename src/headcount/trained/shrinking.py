"""From a plan.json to a shrunk model in a folder."""

from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn

from headcount.errors import InvalidInput
from headcount.trained.batches import Batch, collected
from headcount.trained.decoding import with_decoder_inputs
from headcount.trained.discovery import fingerprint, prepared
from headcount.trained.export.folder import check_free
from headcount.trained.export.inputs import Inputs, read_inputs
from headcount.trained.export.smaller import Smaller
from headcount.trained.export.writing import NAMES, Exported, written
from headcount.trained.fitting import rebuilt
from headcount.trained.grouping_file import GROUPING, read_grouping
from headcount.trained.plan import MAKES, Made, Name, Plan, read_plan
from headcount.trained.projections import PROJECTIONS, Projections, read_projections
from headcount.trained.refitting import own_projections, refitted_projections
from headcount.trained.regrouping import apply_grouping
from headcount.trained.source import load_batches, load_model
from headcount.trained.weights import Weights, file_of, read_weights, set_weights
from headcount.validation import check_choice


@dataclass
class Shrinking:
    """A plan with the model that it is for, and samples to refit with, if there are any."""

    plan: Plan
    folder: Path
    whole: nn.Module
    batches: list[Batch] | None
    refit: bool
    made: dict[Name, Projections] = field(default_factory=dict)

    def smaller(self, solution: Made) -> Smaller:
        """The shrunk model of one solution, or the one with fewer key-value heads."""
        if solution == "grouped":
            return Smaller(self.whole, self._grouped(), self._inputs(), solution)
        weights = self._distilled(solution)
        if solution not in self.made:
            self.made[solution] = self._projections(solution)
        model = rebuilt(self.whole, self.plan.solution(solution).kept, self.made[solution])
        model = model if weights is None else set_weights(model, weights)
        return Smaller(self.whole, model, self._inputs(), solution)

    def _distilled(self, solution: Name) -> Weights | None:
        """The distilled weights of a solution, where the plan or its folder has any.

        A refit would leave them out, so it is refused as long as their file is there.
        """
        chosen, file = self.plan.solution(solution), self.folder / file_of(solution)
        if chosen.recovered is None and not file.exists():
            return None
        if self.refit and self.batches is None:
            return read_weights(file, model=self.plan.model, kept=chosen.kept)
        option = "--no-refit" if not self.refit else "--data"
        raise InvalidInput(
            f"{option}: expected none with the distilled weights of {file.name}, which it would leave out: "
            f"give neither to use them, or remove {file.name} and `recovered` from the plan"
        )

    def _grouped(self) -> nn.Module:
        if self.plan.kv_heads is None:
            raise InvalidInput(
                "--solution: expected uniform or free, got grouped: the plan keeps all key-value heads; "
                "`headcount inspect --kv-heads` tries fewer"
            )
        layers = read_grouping(self.folder, model=self.plan.model)
        if len(layers[0].values) != self.plan.kv_heads:
            raise InvalidInput(
                f"plan: grouped: expected the {len(layers[0].values)} key-value heads that {GROUPING} was "
                f"made for, got {self.plan.kv_heads}; `headcount inspect --kv-heads` makes others"
            )
        return apply_grouping(self.whole, layers)

    def _projections(self, solution: Name) -> Projections:
        kept = self.plan.solution(solution).kept
        if not self.refit:
            return own_projections(self.whole, kept)
        if self.batches is not None:
            return refitted_projections(self.whole, self.batches, kept)
        found = read_projections(self.folder / PROJECTIONS, self.plan, solution)
        if found is None:
            raise InvalidInput(
                f"plan: {solution}: expected the heads that {PROJECTIONS} was fitted to, got others: --data "
                "refits these, --no-refit leaves the model's own projections as they are"
            )
        return found

    def _inputs(self) -> Inputs:
        if self.batches is not None:
            return Inputs.like(self.whole, self.batches[0])
        return read_inputs(self.folder) or Inputs.made_up(self.whole)


def shrink(
    plan: Path,
    out: Path,
    *,
    model: str | None = None,
    data: str | None = None,
    refit: bool = True,
    kind: str | None = None,
    solution: str | None = None,
) -> Exported:
    """Write the model that a plan describes; the parameters are those of `headcount shrink`."""
    if kind is not None:
        check_choice("--as", kind, NAMES)
    if solution is not None:
        check_choice("--solution", solution, MAKES)
    check_free("--out", out)
    if data is not None and not refit:
        raise InvalidInput("--data: expected none with --no-refit, which leaves projections as they are")
    found = read_plan(plan)
    reference = model or found.source
    if reference is None:
        raise InvalidInput(f"--model: expected the model that {plan} is for, got none")
    whole = prepared(load_model(reference).cpu())
    found.check(fingerprint(whole), name=str(plan))
    batches = None
    if data is not None:
        given = collected(load_batches(data, model=reference, kind=_type_of(whole)))
        batches = with_decoder_inputs(whole, given)
    folder = plan if plan.is_dir() else plan.parent
    shrinking = Shrinking(found, folder, whole, batches, refit)
    return written(found, shrinking.smaller, out, kind=kind, solution=solution, name="--out")


def _type_of(model: nn.Module) -> torch.dtype | None:
    return next((each.dtype for each in model.parameters() if each.is_floating_point()), None)

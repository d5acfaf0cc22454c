"""A program of `torch.export`, which torch alone runs: for models of any kind."""

import inspect
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from headcount.trained.export.check import plain
from headcount.trained.export.inputs import Inputs
from headcount.trained.export.smaller import CannotHold, Loading, Smaller

PROGRAM = "model.pt2"
SAMPLES, TOKENS = "samples", "tokens"
AXES = ((0, 1), (0,), ())  # that may have any size: tried in turn


class Plain(nn.Module):
    """A model whose outputs are tensors, or a dict of them: those of a library would need that library."""

    def __init__(self, model: nn.Module, inputs: Inputs) -> None:
        super().__init__()
        self.model = model
        # The keys and values of earlier tokens are no output of the program.
        taken = inspect.signature(model.forward).parameters
        options = {"use_cache": False} if "use_cache" in taken else {}

        def forward(*positional: Tensor, **named: Tensor) -> Any:
            return plain(self.model(*positional, **named, **options))

        # torch.export goes by the names of the arguments.
        places = (
            [inspect.Parameter("positional", inspect.Parameter.VAR_POSITIONAL)] if inputs.positional else []
        )
        names = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in inputs.named]
        forward.__signature__ = inspect.Signature([*places, *names])  # type: ignore[attr-defined]
        self.forward = forward


def write(smaller: Smaller, folder: Path) -> Loading:
    """The program, with as many axes of any size as the model allows."""
    inputs = smaller.inputs.on(smaller.model)
    program = _exported(Plain(smaller.model, inputs), inputs)
    torch.export.save(program, folder / PROGRAM)
    smaller.check("export", lambda: torch.export.load(folder / PROGRAM).module())
    return Loading(
        ("import torch", "", f'model = torch.export.load("{{folder}}/{PROGRAM}").module()'),
        "torch",
        (_sizes(program, inputs),),
    )


def _exported(model: nn.Module, inputs: Inputs) -> Any:
    problem: Exception | None = None
    for axes in AXES:
        shapes: dict[str, Any] = {name: _any_size(each, axes) for name, each in inputs.named.items()}
        if inputs.positional:
            shapes["positional"] = tuple(_any_size(each, axes) for each in inputs.positional)
        try:
            with torch.no_grad():
                return torch.export.export(
                    model, inputs.positional, dict(inputs.named), dynamic_shapes=shapes
                )
        except Exception as failed:  # whatever of Python or torch the model's code runs into
            problem = failed
    reason = " ".join(str(problem).split())[:200]
    raise CannotHold(f"export: torch.export cannot read this model: {type(problem).__name__}: {reason}")


def _any_size(tensor: Tensor, axes: tuple[int, ...]) -> dict[int, Any]:
    """The axes that may have any size: samples, and tokens where the second axis are these."""
    tokens = tensor.dim() == 3 or (tensor.dim() == 2 and not tensor.is_floating_point())
    return {axis: torch.export.Dim.AUTO for axis in axes if axis < tensor.dim() and (tokens or not axis)}


def _sizes(program: Any, inputs: Inputs) -> str:
    """Which axes the program leaves open."""
    wanted = set(program.graph_signature.user_inputs)
    given = [
        node.meta["val"] for node in program.graph.nodes if node.op == "placeholder" and node.name in wanted
    ]
    tensors = [each for each in given if isinstance(each, Tensor)]
    open_axes = {
        axis
        for tensor in tensors
        for axis in range(min(2, tensor.dim()))
        if not isinstance(tensor.shape[axis], int)
    }
    names = [name for axis, name in enumerate((SAMPLES, TOKENS)) if axis in open_axes]
    shapes = ", ".join(f"{name} {list(each.shape)}" for name, each in inputs.items())
    if not names:
        return f"It takes inputs of these shapes alone: {shapes}."
    return f"It takes any number of {' and '.join(names)}; it was made with {shapes}."

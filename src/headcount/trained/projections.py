"""The refitted output projections of a plan's solutions, as a file beside the plan."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from headcount.errors import InvalidInput
from headcount.trained.plan import Kept, Name, Plan

PROJECTIONS = "projections.safetensors"
Projections = Sequence[tuple[np.ndarray, np.ndarray | None]]
PARTS = "weight", "bias"


def projections_bytes(plan: Plan, projections: Mapping[Name, Projections]) -> bytes:
    """The content of the file; it says which heads of which model they belong to."""
    from safetensors.numpy import save

    tensors = {
        f"{name}.{layer}.{part}": np.ascontiguousarray(values, np.float32)
        for name, layers in projections.items()
        for layer, pair in enumerate(layers)
        for part, values in zip(PARTS, pair, strict=True)
        if values is not None
    }
    about = {"model": plan.model}
    for name in projections:
        about[name] = json.dumps(plan.solution(name).kept)
    return save(tensors, about)


def read_projections(path: Path, plan: Plan, solution: Name) -> Projections | None:
    """Those of one solution; None where the plan was edited since, and they belong to other heads."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise InvalidInput(
            f"{path}: no such file; --data refits the heads of the plan, --no-refit leaves them as they are"
        )
    try:
        with safe_open(path, framework="numpy") as file:
            about = file.metadata() or {}
            names = [name for name in file.keys() if name.startswith(f"{solution}.")]  # noqa: SIM118
            tensors = {name: file.get_tensor(name) for name in names}
    except (SafetensorError, OSError) as problem:
        raise InvalidInput(f"{path}: expected projections in safetensors: {problem}") from None
    if about.get("model") != plan.model:
        raise InvalidInput(
            f"{path}: expected the projections of this plan's model ({plan.model}), got those of another "
            f"({about.get('model')})"
        )
    found = [
        tuple(tensors.get(f"{solution}.{layer}.{part}") for part in PARTS)
        for layer in range(len(plan.layers))
    ]
    kept = plan.solution(solution).kept
    written_for = about.get(solution)
    same = written_for is None or written_for == json.dumps(kept)
    if not same or not _fit(found, kept, plan):
        return None
    return [(weight, bias) for weight, bias in found if weight is not None]


def _fit(found: Sequence[tuple[np.ndarray | None, ...]], kept: Kept, plan: Plan) -> bool:
    """Whether every projection reads as many numbers as the heads put out."""
    return all(
        weight is not None and len(weight) == len(heads) * layer.head_dim
        for (weight, _), heads, layer in zip(found, kept, plan.layers, strict=True)
    )

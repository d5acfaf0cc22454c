"""All weights of a model with fewer heads, as a file beside the plan that they belong to."""

import json
from pathlib import Path

import torch
from torch import Tensor, nn

from headcount.errors import InvalidInput
from headcount.trained.plan import Kept, Name

Weights = dict[str, Tensor]


def file_of(solution: Name) -> str:
    """Where the recovered weights of a solution lie.

    >>> file_of("free")
    'recovered-free.safetensors'
    """
    return f"recovered-{solution}.safetensors"


def weights_of(model: nn.Module) -> Weights:
    """By name; weights that are tied once."""
    return {name: each.detach().cpu().contiguous() for name, each in model.named_parameters()}


def set_weights(model: nn.Module, weights: Weights, *, name: str = "weights") -> nn.Module:
    """The model with these in place of its own."""
    own = dict(model.named_parameters())
    shapes, given = ({key: tuple(each.shape) for key, each in part.items()} for part in (own, weights))
    if shapes != given:
        differs = next(key for key in {**shapes, **given} if shapes.get(key) != given.get(key))
        raise InvalidInput(
            f"{name}: {differs}: expected the shape {shapes.get(differs)}, got {given.get(differs)}"
        )
    with torch.no_grad():
        for key, each in own.items():
            each.copy_(weights[key])
    return model


def written_weights(weights: Weights, *, model: str, kept: Kept) -> bytes:
    """The content of the file: with the fingerprint of the whole model, and the heads that are kept."""
    from safetensors.torch import save

    copies = {name: each.clone() for name, each in weights.items()}  # the format refuses shared memory
    return save(copies, {"model": model, "kept": json.dumps(kept)})


def read_weights(path: Path | str, *, model: str, kept: Kept) -> Weights:
    """The weights in a file, where they are those of this plan."""
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    try:
        with safe_open(path, framework="pt") as file:
            described = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a dict
    except FileNotFoundError:
        raise InvalidInput(f"{path}: no such file") from None
    except (OSError, SafetensorError) as problem:
        raise InvalidInput(f"{path}: expected safetensors: {' '.join(str(problem).split())}") from None
    wanted = {"model": model, "kept": json.dumps(kept)}
    for part, value in wanted.items():
        if described.get(part) != value:
            raise InvalidInput(
                f"{path}: expected weights distilled for this plan, got those of another ({part}: "
                f"{described.get(part, 'none')}); remove the file to do without"
            )
    return weights

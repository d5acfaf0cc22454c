"""Attention weights with fewer key-value heads, in a file."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import numpy as np

from headcount.errors import InvalidInput
from headcount.trained.sharing import SharedHeads

GROUPING = "grouping.safetensors"
PARTS = tuple(each.name for each in fields(SharedHeads))
OPTIONAL = tuple(name for name in PARTS if name.endswith("bias"))


def grouping_to_bytes(layers: Sequence[SharedHeads], *, model: str) -> bytes:
    """The content of the file; `model`: the fingerprint of the model that was grouped."""
    from safetensors.numpy import save

    tensors = {}
    for number, layer in enumerate(layers):
        for name in PARTS:
            values = getattr(layer, name)
            if values is not None:
                kind = np.int64 if name == "order" else np.float32
                tensors[f"{number}.{name}"] = np.ascontiguousarray(values, kind)
    return save(tensors, {"model": model})


def read_grouping(path: Path | str, *, model: str) -> tuple[SharedHeads, ...]:
    """The weights in a file, or in a folder that holds one; refused where they are another model's."""
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    path = path / GROUPING if path.is_dir() else path
    if not path.is_file():
        raise InvalidInput(f"{path}: no such file; `headcount inspect --kv-heads` writes it")
    try:
        with safe_open(path, framework="numpy") as file:
            of = (file.metadata() or {}).get("model")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as problem:
        raise InvalidInput(f"{path}: expected safetensors: {problem}") from None
    if of != model:
        raise InvalidInput(
            f"{path}: expected the grouping of this model ({model}), got that of another ({of})"
        )
    layers = sorted({int(name.partition(".")[0]) for name in tensors})
    return tuple(_layer(path, tensors, number) for number in layers)


def _layer(path: Path, tensors: dict[str, np.ndarray], number: int) -> SharedHeads:
    missing = [name for name in PARTS if name not in OPTIONAL and f"{number}.{name}" not in tensors]
    if missing:
        raise InvalidInput(f"{path}: expected {missing[0]} of layer {number}, got none")
    parts = {name: tensors.get(f"{number}.{name}") for name in PARTS}
    order = tuple(map(int, tensors[f"{number}.order"]))
    return SharedHeads(**{**parts, "order": order})  # type: ignore[arg-type]  # the required ones are there

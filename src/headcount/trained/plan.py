"""Which heads a model keeps: a file to read, to edit and to shrink that model with."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from headcount.errors import InvalidInput
from headcount.trained.rise import Rise
from headcount.validation import check_choice, check_integer, check_number, expected, shown
from headcount.version import __version__

Name = Literal["uniform", "free"]
Kept = tuple[tuple[int, ...], ...]
SOLUTIONS: tuple[Name, ...] = get_args(Name)
# What can be made of a plan: one of its solutions, or all heads with fewer key-value heads.
Made = Literal["uniform", "free", "grouped"]
MAKES: tuple[Made, ...] = get_args(Made)
RISES = ("judged", "reported", "recovered")


@dataclass(frozen=True)
class LayerShape:
    """The attention of one layer of the whole model."""

    name: str
    heads: int
    kv_heads: int
    head_dim: int


@dataclass(frozen=True)
class Solution:
    """The heads that each layer keeps, and by how much the loss then rises.

    - `judged`: on the samples that decided; `reported`: on samples that decided nothing; `recovered`: on the
      same after distillation. None where the plan was edited.
    """

    kept: Kept
    judged: Rise | None = None
    reported: Rise | None = None
    recovered: Rise | None = None

    @property
    def heads(self) -> int:
        """Of all layers together."""
        return sum(map(len, self.kept))


@dataclass(frozen=True)
class Plan:
    """What to keep of one model.

    - `model`: the fingerprint of its attention weights.
    - `measure`, `tolerance`: what was measured, and by how much it may rise.
    - `uniform`, `free`: as many heads in every layer, and shares by what heads are worth.
    - `source`: where the command line found the model.
    - `kv_heads`: beside these, with all heads: key-value heads of every layer; None: as they are.
    """

    model: str
    layers: tuple[LayerShape, ...]
    measure: str
    tolerance: float
    uniform: Solution
    free: Solution
    source: str | None = None
    kv_heads: int | None = None

    def __post_init__(self) -> None:
        for name in SOLUTIONS:
            _check_kept(f"{name}: kept", self.solution(name).kept, self.layers)
        if self.kv_heads is not None:
            _check_kv_heads(self.kv_heads, self.layers)

    @property
    def heads(self) -> int:
        """Of the whole model."""
        return sum(layer.heads for layer in self.layers)

    def solution(self, name: str) -> Solution:
        """One of the two, by name."""
        check_choice("solution", name, SOLUTIONS)
        return self.uniform if name == "uniform" else self.free

    def check(self, fingerprint: str, *, name: str = "plan") -> None:
        """Refuse to be used with another model."""
        if fingerprint != self.model:
            raise InvalidInput(
                f"{name}: expected the plan of this model ({fingerprint}), got that of another ({self.model})"
            )

    def to_json(self) -> dict[str, Any]:
        """The content of plan.json."""
        return {
            "model": self.model,
            "source": self.source,
            "measure": self.measure,
            "tolerance": self.tolerance,
            "layers": [asdict(layer) for layer in self.layers],
            **{name: _solution_to_json(self.solution(name)) for name in SOLUTIONS},
            "grouped": None if self.kv_heads is None else {"kv_heads": self.kv_heads},
            "version": __version__,
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Plan":
        """From the content of a plan.json, every part checked: it may have been edited."""
        _check_keys("plan", content, ("model", "measure", "tolerance", "layers", *SOLUTIONS))
        layers = tuple(
            _layer(f"layers: {number}", each)
            for number, each in enumerate(_checked_list("layers", content["layers"]))
        )
        source = content.get("source")  # plans of older versions have none
        for name in ("model", "measure", *(() if source is None else ("source",))):
            if not isinstance(content[name], str):
                raise expected(name, "a text", content[name])
        return cls(
            model=content["model"],
            layers=layers,
            measure=content["measure"],
            tolerance=check_number("tolerance", content["tolerance"], above=0.0),
            uniform=_solution("uniform", content["uniform"]),
            free=_solution("free", content["free"]),
            source=source,
            kv_heads=_kv_heads(content.get("grouped")),  # plans did not always have it
        )


def read_plan(path: Path | str) -> Plan:
    """The plan in a file, or in a folder that holds a plan.json."""
    path = Path(path)
    path = path / "plan.json" if path.is_dir() else path
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise InvalidInput(f"{path}: no such file") from None
    except (OSError, ValueError) as problem:
        raise InvalidInput(f"{path}: expected a plan in JSON: {problem}") from None
    try:
        return Plan.from_json(content)
    except InvalidInput as problem:
        raise InvalidInput(f"{path}: {problem}") from None


def _solution_to_json(solution: Solution) -> dict[str, Any]:
    return {
        "heads": solution.heads,
        "kept": [list(heads) for heads in solution.kept],
        **rises_to_json(solution),
    }


def rises_to_json(solution: Solution) -> dict[str, dict[str, Any] | None]:
    """By how much the loss rises, as far as it was measured."""
    rises = {name: getattr(solution, name) for name in RISES}
    return {name: None if rise is None else rise.to_json() for name, rise in rises.items()}


def _solution(name: str, content: Any) -> Solution:
    _check_keys(name, content, ("kept",))
    kept = []
    for number, heads in enumerate(_checked_list(f"{name}: kept", content["kept"])):
        of_layer = _checked_list(f"{name}: kept: layer {number}", heads)
        kept.append(
            tuple(sorted(check_integer(f"{name}: kept: layer {number}", h, at_least=0) for h in of_layer))
        )
    edited = content.get("heads") != sum(map(len, kept))
    rises = {part: None if edited else _rise(f"{name}: {part}", content.get(part)) for part in RISES}
    return Solution(tuple(kept), **rises)


def _kv_heads(content: Any) -> int | None:
    if content is None:
        return None
    _check_keys("grouped", content, ("kv_heads",))
    return check_integer("grouped: kv_heads", content["kv_heads"], at_least=1)


def _check_kv_heads(kv_heads: int, layers: Sequence[LayerShape]) -> None:
    for number, layer in enumerate(layers):
        if layer.heads % kv_heads or kv_heads > layer.kv_heads:
            raise InvalidInput(
                f"grouped: kv_heads: expected a divisor of the {layer.heads} heads of layer {number}, at "
                f"most its {layer.kv_heads} key-value heads, got {kv_heads}"
            )


def _rise(name: str, content: Any) -> Rise | None:
    if content is None:
        return None
    _check_keys(name, content, ("mean", "low", "high", "samples"))
    mean, low, high = (check_number(f"{name}: {part}", content[part]) for part in ("mean", "low", "high"))
    return Rise(mean, low, high, check_integer(f"{name}: samples", content["samples"], at_least=1))


def _layer(name: str, content: Any) -> LayerShape:
    _check_keys(name, content, ("name", "heads", "kv_heads", "head_dim"))
    counts = {
        part: check_integer(f"{name}: {part}", content[part], at_least=1)
        for part in ("heads", "kv_heads", "head_dim")
    }
    return LayerShape(str(content["name"]), **counts)


def _check_kept(name: str, kept: Sequence[Sequence[int]], layers: Sequence[LayerShape]) -> None:
    if len(kept) != len(layers):
        raise InvalidInput(f"{name}: expected heads for {len(layers)} layers, got {len(kept)}")
    for number, (heads, layer) in enumerate(zip(kept, layers, strict=True)):
        if not heads or len(set(heads)) < len(heads) or not all(0 <= head < layer.heads for head in heads):
            raise InvalidInput(
                f"{name}: layer {number}: expected different heads from 0 to {layer.heads - 1}, at least "
                f"one, got {shown(list(heads))}"
            )


def _check_keys(name: str, content: Any, keys: Sequence[str]) -> None:
    if not isinstance(content, Mapping):
        raise expected(name, f"an object with {', '.join(keys)}", content)
    missing = [key for key in keys if key not in content]
    if missing:
        raise InvalidInput(f"{name}: expected {', '.join(keys)}, got no {missing[0]}")


def _checked_list(name: str, content: Any) -> list[Any]:
    if not isinstance(content, list):
        raise expected(name, "a list", content)
    return content

"""What inspect.json and plan.json say, every part checked: both are files that anyone may have edited."""

from collections.abc import Mapping
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from headcount.errors import InvalidInput
from headcount.validation import expected

Count = Annotated[int, Field(ge=1)]
Head = Annotated[int, Field(ge=0)]
Places = tuple[tuple[Head, ...], ...]
METHODS = {"joint": "joint SVD", "procrustes": "Procrustes"}  # the others by their own name
Cell = str | int | float


class _Part(BaseModel):
    """Numbers are finite; keys that the page does not show are left to others."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


Kind = TypeVar("Kind", bound=_Part)


class Rise(_Part):
    """A mean with its bounds, each of which holds in 95% of cases."""

    mean: float
    low: float
    high: float


class Step(_Part):
    """The loss with so many heads."""

    heads: Count
    judged: Rise


class Solved(_Part):
    """How many heads a solution keeps of the model, with a 95% interval, and what that costs."""

    heads: Count
    interval: tuple[Count, Count] | None = None
    judged: Rise | None = None
    reported: Rise | None = None
    recovered: Rise | None = None


class Layer(_Part):
    """A layer by itself, and in both solutions."""

    name: str = Field(alias="layer")
    heads: Count
    needed: Count | None
    low: Count
    high: Count
    verdict: str
    rise: float
    rise_low: float
    rise_high: float
    uniform: Count
    free: Count


class Curves(_Part):
    """The loss against heads, of both solutions and of each layer alone."""

    uniform: tuple[Step, ...]
    free: tuple[Step, ...]
    alone: tuple[tuple[Step, ...], ...] = ()


class Baseline(_Part):
    """Another way to remove heads."""

    name: str
    heads: Count
    rise: float
    low: float
    high: float


class Rises(_Part):
    """On samples that decide, and on others."""

    judged: Rise
    reported: Rise


class Grouped(_Part):
    """A number of key-value heads in every layer, made in one way."""

    kv_heads: Count
    method: str
    refit: bool
    rise: Rises

    @property
    def way(self) -> str:
        """How it was made."""
        name = METHODS.get(self.method, self.method)
        return f"{name} + refit" if self.refit else name


class Gains(_Part):
    """Costs before and after, and their ratio."""

    rows: tuple[tuple[Cell, Cell, Cell, Cell], ...]
    note: str = ""


class Collision(_Part):
    """Two inputs that a layer with too few heads represents alike."""

    layer: str
    heads: Count
    first: str
    second: str
    representation: float
    output: float


class Inspected(_Part):
    """The content of inspect.json, with a name for each thing that the page shows."""

    sentence: str
    measure: str
    tolerance: Annotated[float, Field(gt=0)]
    heads: Count
    uniform: Solved
    free: Solved
    layers: Annotated[tuple[Layer, ...], Field(min_length=1)]
    curves: Curves
    ways_to_choose: dict[str, float] = {}
    samples: Count
    seconds: float
    version: str
    command: str = "headcount inspect MODEL DATA"
    baselines: tuple[Baseline, ...] = ()
    grouped: tuple[Grouped, ...] = ()
    grouped_note: str = ""
    gains: Gains | None = None
    collisions: tuple[Collision, ...] = ()

    @model_validator(mode="after")
    def _one_curve_for_each_layer(self) -> Self:
        curves = self.curves.alone
        if curves and len(curves) != len(self.layers):
            raise ValueError(f"expected curves for {len(self.layers)} layers, got {len(curves)}")
        return self

    @property
    def places(self) -> dict[str, int]:
        """Layers by the names of their modules."""
        return {layer.name: place for place, layer in enumerate(self.layers)}

    @property
    def way(self) -> str:
        """How heads were chosen: as did best with half of them."""
        return min(self.ways_to_choose, key=lambda name: self.ways_to_choose[name], default="")


class Shape(_Part):
    """The attention of a layer of the whole model."""

    heads: Count
    kv_heads: Count


class Keeps(_Part):
    """The heads that each layer keeps."""

    kept: Places

    @property
    def counts(self) -> tuple[int, ...]:
        """Heads of every layer."""
        return tuple(map(len, self.kept))


class Grouping(_Part):
    """Beside the solutions, with all heads: key-value heads of every layer, and which heads share them."""

    kv_heads: Count
    groups: tuple[Places, ...] | None = None


class Planned(_Part):
    """The content of plan.json."""

    model: str
    layers: tuple[Shape, ...]
    uniform: Keeps
    free: Keeps
    grouped: Grouping | None = None

    @model_validator(mode="after")
    def _one_list_for_each_layer(self) -> Self:
        groups = None if self.grouped is None else self.grouped.groups
        for each in (self.uniform.kept, self.free.kept, *([groups] if groups else [])):
            if len(each) != len(self.layers):
                raise ValueError(f"expected heads for {len(self.layers)} layers, got {len(each)}")
        return self

    @property
    def all_kept(self) -> Keeps:
        """The whole model."""
        return Keeps(kept=tuple(tuple(range(shape.heads)) for shape in self.layers))

    @property
    def all_stay(self) -> bool:
        """Whether no solution removes any head."""
        return self.free.counts == self.uniform.counts == self.all_kept.counts


def read(inspection: Mapping[str, Any], plan: Mapping[str, Any]) -> tuple[Inspected, Planned]:
    """Both files as they are shown, of one model."""
    found, planned = _checked(Inspected, "inspect.json", inspection), _checked(Planned, "plan.json", plan)
    shapes = [layer.heads for layer in found.layers], [shape.heads for shape in planned.layers]
    if shapes[0] != shapes[1]:
        raise expected("plan.json", f"layers of {shapes[0]} heads as in inspect.json", shapes[1])
    return found, planned


def _checked(kind: type[Kind], name: str, content: Mapping[str, Any]) -> Kind:
    try:
        return kind.model_validate(content)
    except ValidationError as problem:
        first = problem.errors(include_url=False)[0]
        place, said = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
        raise InvalidInput(": ".join(part for part in (name, place, said) if part)) from None

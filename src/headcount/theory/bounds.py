"""All bounds of Theorem 2, its variants and Corollary 1 for one setting, and what its shape can reach."""

import json
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from headcount.theory.capacity import Capacity, capacity
from headcount.theory.shape import LARGEST as LARGEST_SHAPE
from headcount.theory.shape import Reading
from headcount.theory.theorem import (
    CONSTANT,
    Conjecture,
    LowerBound,
    Setting,
    Uniqueness,
    UpperBound,
    conjecture,
    enough_heads,
    lower_bound,
    lower_bound_as_stated,
    uniqueness,
    wide_head,
)

COLUMNS = 80
# What stands behind each statement here: weights, a measurement, or the formula alone.
EVIDENCE = {
    "lower": "Formula only: no weights here attain it. rates measures the closest gap of its proof",
    "lower, five-layer F": "Formula only: of the weights here that have five layers k is negative",
    "lower, Heaviside F": "Constructed and measured for sums of minima: one head of n = D, at any T",
    "upper, enough heads": "Constructed and measured: specialise",
    "upper, one wide head": "Constructed and measured: memorise, whose F has five layers",
    "corollary 1": "Formula only",
}
_HEAVISIDE = (
    "no lower bound follows: the proof needs an F of bounded slope, and a step has none. The paper states "
    "matching upper bounds for such an F"
)
READINGS: dict[Reading, str] = {
    "last": "read in the last layer",
    "every": "read in every layer",
    "last token": "decoder",
}


@dataclass(frozen=True)
class Bounds:
    """All that Theorem 2, its variants and Corollary 1 say about one setting; `print` shows a table."""

    setting: Setting
    lower_as_stated: LowerBound
    lower: LowerBound
    enough_heads: UpperBound
    wide_head: UpperBound
    conjecture: Conjecture
    capacities: Mapping[Reading, Capacity]
    uniqueness: Uniqueness

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """What is bounded, the exponent, and the reason: one row per statement."""
        stated, given = self.lower_as_stated, self.lower
        everywhere = "T = " if self.setting.share == 1 else ""
        size = f"m = {everywhere}{self.setting.smallest_set}"
        weaker = f"{_number(stated.five_layers)} for m = T/4, {_number(given.five_layers)} for {size}"

        def row(name: str, exponent: str, reason: str, evidence: str = "") -> tuple[str, str, str]:
            return name, exponent, f"{reason}. {EVIDENCE[evidence or name]}"

        yield row("lower, m = T/4", _number(stated.exponent), stated.reason, "lower")
        yield row(f"lower, {size}", _number(given.exponent), given.reason, "lower")
        yield row("lower, five-layer F", "k/4", f"{weaker}; vacuous wherever k is, and {CONSTANT}")
        yield row("lower, Heaviside F", "none", _HEAVISIDE)
        yield row("upper, enough heads", _number(self.enough_heads.exponent), self.enough_heads.reason)
        yield row("upper, one wide head", _number(self.wide_head.exponent), self.wide_head.reason)
        unknown = "none" if self.conjecture.vacuous else "unknown"
        yield f"conjecture, L = {self.setting.layers}", unknown, self.conjecture.reason
        for reading, found in self.capacities.items() if self.setting.layers > 1 else ():
            yield READINGS[reading], "-", _reached(self.setting.dimension, found)
        yield row("corollary 1", "-", self.uniqueness.reason)

    def to_json(self) -> str:
        """Every number and reason; `bounds(**setting)` of what it holds gives this object back."""
        lower = {
            name: {**_entries(bound), "five_layers": bound.five_layers}
            for name, bound in (("lower_as_stated", self.lower_as_stated), ("lower", self.lower))
        }
        others = {
            name: _entries(getattr(self, name))
            for name in ("enough_heads", "wide_head", "conjecture", "uniqueness")
        }
        shapes = {"capacities": {reading: asdict(found) for reading, found in self.capacities.items()}}
        everything = {"setting": asdict(self.setting), **lower, **others, **shapes, "evidence": EVIDENCE}
        return json.dumps(everything, indent=2, allow_nan=False)

    def __str__(self) -> str:
        rows = [("bound", "exponent", "what it says"), *self.rows()]
        first, second = (max(len(row[column]) for row in rows) + 2 for column in (0, 1))
        lines = textwrap.wrap(str(self.setting), COLUMNS)
        for name, exponent, reason in rows:
            start = f"{name:<{first}}{exponent:<{second}}"
            lines += textwrap.wrap(reason, COLUMNS, initial_indent=start, subsequent_indent=" " * len(start))
        return "\n".join(lines)


def bounds(
    *,
    dimension: int,
    heads: int,
    head_dim: int,
    length: int,
    token_dim: int = 4,
    gamma: float = 2.0,
    smallest_set: int | None = None,
    layers: int = 1,
) -> Bounds:
    """What theory says about h heads of n numbers on a D-dimensional retrieval of length T.

    The arguments are those of `Setting`. Both lower exponents are given: with m = T/4, as the theorem
    states it, and with the m of the task.

    >>> found = bounds(dimension=4, heads=3, head_dim=8, length=128)
    >>> round(found.lower_as_stated.exponent, 2), round(found.lower.exponent, 2)
    (-0.07, 3.36)
    >>> found.lower_as_stated.vacuous, found.lower_as_stated.positive_from
    (True, 137)
    """
    setting = Setting(dimension, heads, head_dim, length, token_dim, gamma, smallest_set, layers)
    return Bounds(
        setting,
        lower_as_stated=lower_bound_as_stated(setting),
        lower=lower_bound(setting),
        enough_heads=enough_heads(setting),
        wide_head=wide_head(setting),
        conjecture=conjecture(setting),
        capacities={reading: _capacity(setting, reading) for reading in READINGS if _is_a_model(setting)},
        uniqueness=uniqueness(dimension=setting.dimension, length=setting.length),
    )


def _is_a_model(setting: Setting) -> bool:
    """Whether its sizes are those that a capacity can be asked for."""
    return max(setting.layers, setting.heads, setting.head_dim) <= LARGEST_SHAPE


def _capacity(setting: Setting, reading: Reading) -> Capacity:
    return capacity(
        layers=setting.layers,
        heads=setting.heads,
        head_dim=setting.head_dim,
        reading=reading,
        mask="causal" if reading == "last token" else "full",
    )


def _reached(dimension: int, found: Capacity) -> str:
    """What is known of a shape without positions and feed-forward, and whether D is within it."""
    within = "within" if dimension <= found.constructed else "beyond"
    return (
        f"D = {dimension} is {within} {found.law}: weights exist up to D = {found.constructed}, "
        f"trained members reach {found.trained} ({found.behind_trained}), without positions and feed-forward"
    )


def _entries(result: LowerBound | UpperBound | Conjecture | Uniqueness) -> dict[str, Any]:
    return {**asdict(result), "vacuous": result.vacuous}


def _number(exponent: float | None) -> str:
    return "none" if exponent is None else f"{exponent:.3g}"

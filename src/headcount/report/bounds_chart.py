"""Heads × length, coloured by the lower exponent k: where too few heads are bounded, and where not."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import ceil, log2
from typing import Any

import altair as alt
import numpy as np

from headcount.report.theme import (
    HEADS,
    INK,
    LENGTH,
    calm,
    cell_axis,
    head_colours,
    headline,
    outlined,
    written_in,
)
from headcount.theory.theorem import LARGEST, QUARTER, LowerBound, Setting, lower_bound

COLUMN_WIDTH, ROW_HEIGHT = 46, 30
LENGTHS = 8  # powers of two on the axis ...
MAX_POWER = 10  # ... up to this one, or to the first that holds the length asked about
MAX_HEADS = 12

STEPS = (0, 1, 3, 10)
VACUOUS, NO_BOUND = "k ≤ 0: vacuous", "h ≥ D: no bound"
BITES = (*(f"{low} < k ≤ {high}" for low, high in pairwise(STEPS)), f"k > {STEPS[-1]}")
# Only k > 0 has a full colour: what no bound speaks about is empty or pale.
FILLS = {
    VACUOUS: "transparent",
    **dict(zip(BITES, head_colours(below=len(BITES), enough=0), strict=True)),
    NO_BOUND: f"{head_colours(below=0, enough=1)[0]}38",
}
INKS = {**dict.fromkeys(BITES[:2], "black"), **dict.fromkeys(BITES[2:], "white")}


def bounds_chart(setting: Setting) -> alt.HConcatChart:
    """Two panels over heads × length: k with m = T/4, as stated, and with the share m/T of the setting.

    D and n are those of the setting in every cell. Its own cell has a frame, if it has one layer.
    """
    share = "T" if setting.share == 1 else f"{setting.share} T"
    return calm(
        alt.HConcatChart(
            hconcat=[
                _panel(setting, share=QUARTER, title="m = T/4, as stated"),
                _panel(setting, share=setting.share, title=f"m = {share}, as given"),
            ],
            spacing=24,
            title=_title(setting),
            description="The lower exponent k for every number of heads and every length, for two m",
        )
    )


def _title(setting: Setting) -> alt.TitleParams:
    caveat = "k > 0 is needed for a bound and is not enough: its constant shrinks as T grows."
    asked = f"The frame marks h = {setting.heads}, T = {setting.length}." if setting.layers == 1 else ""
    text = f"Too few heads: M = Ω(1/ε^k) for D = {setting.dimension} and n = {setting.head_dim}"
    return headline(text, f"{caveat} {asked}".strip())


def _panel(setting: Setting, *, share: Fraction, title: str) -> alt.LayerChart:
    heads, lengths = _heads(setting), _lengths(setting)
    cells = [_cell(setting, heads=h, length=T, share=share) for h in heads for T in lengths]
    base = alt.Chart(alt.InlineData(values=cells)).encode(
        x=alt.X("length:O", title=LENGTH, scale=_band(lengths, gap=0.06), axis=cell_axis()),
        y=alt.Y("heads:O", title=HEADS, scale=_band(heads, gap=0.08), axis=cell_axis(setting.dimension)),
        tooltip=["heads:O", "length:O", alt.Tooltip("written:N", title="k"), "why:N"],
    )
    frame = base.transform_filter("datum.asked").mark_rect(
        fill="transparent", stroke=INK, strokeWidth=2.5, cornerRadius=3
    )
    return alt.LayerChart(
        layer=[
            base.mark_rect(cornerRadius=3).encode(fill=_fill()),
            outlined(base.transform_filter(f"datum.kind === '{VACUOUS}'")),
            written_in(base),
            frame,
        ],
        width=COLUMN_WIDTH * len(lengths),
        height=ROW_HEIGHT * len(heads),
        title=alt.TitleParams(text=title, fontSize=12, fontWeight="bold", offset=6),
    )


def _cell(setting: Setting, *, heads: int, length: int, share: Fraction) -> dict[str, Any]:
    place = replace(setting, heads=heads, length=length, smallest_set=None, layers=1)
    bound = lower_bound(place, share=share)
    kind = _kind(bound)
    return {
        **{"heads": heads, "length": length, "kind": kind, "why": bound.reason},
        "written": "–" if bound.exponent is None else _short(bound.exponent),
        "ink": INKS.get(kind, INK),
        "asked": (heads, length, 1) == (setting.heads, setting.length, setting.layers),
    }


def _kind(bound: LowerBound) -> str:
    if bound.exponent is None:
        return NO_BOUND
    if bound.vacuous:
        return VACUOUS
    return BITES[int(np.searchsorted(STEPS, bound.exponent)) - 1]


def _heads(setting: Setting) -> list[int]:
    """1 to D + 1, or to the heads asked about; thinned where they are many, but never around D."""
    most = min(max(setting.dimension + 1, setting.heads), LARGEST)
    if most <= MAX_HEADS:
        return list(range(1, most + 1))
    spread = np.rint(np.linspace(1, most, MAX_HEADS - 4)).astype(int).tolist()
    around = {count for count in range(setting.dimension - 1, setting.dimension + 2) if 1 <= count <= most}
    return sorted({*spread, *around, setting.heads})


def _lengths(setting: Setting) -> list[int]:
    last = max(MAX_POWER, ceil(log2(setting.length)))
    powers = {2**power for power in range(last - LENGTHS + 1, last + 1)}
    return sorted({*powers, setting.length})


def _band(values: Sequence[int], *, gap: float) -> alt.Scale:
    return alt.Scale(domain=list(values), paddingInner=gap, paddingOuter=0)


def _fill() -> alt.Fill:
    return alt.Fill(
        "kind:N",
        scale=alt.Scale(domain=list(FILLS), range=list(FILLS.values())),
        legend=alt.Legend(
            title=None,
            orient="bottom",
            offset=10,
            symbolType="square",
            symbolSize=200,
            symbolStrokeColor="gray",
            symbolStrokeWidth=1,
        ),
    )


def _short(exponent: float) -> str:
    """Three digits or so: what fits a cell.

    >>> _short(-0.0714), _short(3.357), _short(41.27), _short(203.4), _short(2.5e7)
    ('-0.07', '3.36', '41.3', '203', '2e+07')
    """
    size = abs(exponent)
    digits = ".0e" if size >= 1e4 else ".0f" if size >= 100 else ".1f" if size >= 10 else ".2f"
    return f"{exponent:{digits}}"

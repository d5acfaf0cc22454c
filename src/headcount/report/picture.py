"""A chart as a file of its own: a picture for a README or a paper, or a page that opens without a network."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from headcount.results.files import write_whole
from headcount.validation import expected

PIXELS_PER_INCH = 192

Chart = alt.LayerChart | alt.HConcatChart | alt.VConcatChart | alt.ConcatChart | alt.Chart

WRITERS: Mapping[str, Callable[[Any], bytes]] = {
    ".svg": lambda chart: vl_convert.vegalite_to_svg(chart.to_dict()).encode(),
    ".png": lambda chart: vl_convert.vegalite_to_png(chart.to_dict(), ppi=PIXELS_PER_INCH),
    ".html": lambda chart: chart.to_html(inline=True).encode(),
}


def save_chart(chart: Chart, path: Path, *, width: int | None = None) -> None:
    """Write the chart by the ending of `path`, on white, so that the file is whole or not there."""
    path = Path(path)
    check_ending(path)
    sized = chart if width is None else chart.properties(width=width)
    content = WRITERS[path.suffix](sized.properties(background="white"))
    write_whole(path, lambda file: file.write(content))


def check_ending(path: Path) -> None:
    """Whether a chart can be written to a file of this name: one clear line if not."""
    if Path(path).suffix not in WRITERS:
        *others, last = WRITERS
        raise expected("chart", f"a file that ends in {', '.join(others)} or {last}", Path(path).name)

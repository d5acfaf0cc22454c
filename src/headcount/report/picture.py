"""A chart as a picture file, for a README or a paper."""

from pathlib import Path

import altair as alt

from headcount.errors import InvalidInput

FORMATS = (".svg", ".png")
PIXELS_PER_INCH = 192


def save_chart(chart: alt.LayerChart, path: Path, *, width: int = 720) -> None:
    """Write the chart as SVG or PNG, by the ending of `path`, on white: a picture has no page around it."""
    path = Path(path)
    if path.suffix not in FORMATS:
        raise InvalidInput(f"{path.name} is no picture this can write; it must end in {' or '.join(FORMATS)}")
    sized = chart.properties(width=width, background="white")
    sized.save(path, ppi=PIXELS_PER_INCH)

"""Pages from templates, and charts as files of their own: each opens from disk, without a network."""

import functools
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import altair as alt
import jinja2
import pandas as pd
import vl_convert

from headcount.results.files import write_whole
from headcount.results.numbers import quantity, scientific
from headcount.validation import expected

PIXELS_PER_INCH = 192
# Tags, and what stands between those whose content is no running text.
NO_TEXT = re.compile(
    r"(<(?:script\b.*?</script|style\b.*?</style|pre\b.*?</pre|title\b.*?</title)>|<[^>]*>)", re.DOTALL
)
WITH_HYPHEN = re.compile(r"\d[\d.,]*e[-+]\d+|(?<![\w-])--[a-z][a-z-]+")
Chart = alt.LayerChart | alt.HConcatChart | alt.VConcatChart | alt.ConcatChart | alt.Chart


def rendered(template: str, **content: Any) -> str:
    """One of the templates, filled; everything that comes from outside is escaped."""
    return with_whole_numbers(_environment().get_template(template).render(bundle=_bundle(), **content))


def with_whole_numbers(page: str) -> str:
    """The page with numbers and options in sentences marked, so that no line ends at a hyphen within one.

    >>> with_whole_numbers("<p>It falls to 4.2e-9.</p><td>4.2e-9</td>")
    '<p>It falls to <span class="whole">4.2e-9</span>.</p><td>4.2e-9</td>'
    """
    pieces = NO_TEXT.split(page)
    pieces[::2] = (
        WITH_HYPHEN.sub(r'<span class="whole">\g<0></span>', text) if " " in text.strip() else text
        for text in pieces[::2]
    )
    return "".join(pieces)


def facts(frame: pd.DataFrame, *, failed: int) -> list[tuple[str, str]]:
    """What was run, on what, for how long."""
    distinct = {
        column: "; ".join(sorted(frame[column].dropna().astype(str).unique()))
        for column in ("device", "precision", "versions")
    }
    return [
        ("members", f"{len(frame):,}"),
        ("failed members", f"{failed:,}"),
        *distinct.items(),
        ("time of all members", duration(frame["seconds"].sum())),
    ]


def duration(seconds: float) -> str:
    """Hours, minutes and seconds, the largest two that matter.

    >>> duration(7.25), duration(75), duration(7322)
    ('7.2 s', '1 min 15 s', '2 h 2 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes_left = divmod(minutes, 60)
    return f"{hours:,} h {minutes_left} min" if hours else f"{minutes} min {rest} s"


@functools.cache
def _bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that defines `vegaEmbed`."""
    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    # HTML ends a script at the first such tag, even inside a JavaScript string.
    return bundle.replace("</script", r"<\/script")


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("headcount.report"), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {"scientific": scientific, "quantity": quantity}
    # NaN is no JSON: better no page than one whose charts stay empty.
    environment.policies["json.dumps_kwargs"] = {
        "allow_nan": False,
        "sort_keys": True,
        "separators": (",", ":"),
    }
    return environment


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

"""The templates of pages, filled: each page opens from disk, without a network, for ever."""

import functools
from typing import Any

import jinja2
import pandas as pd
import vl_convert

from headcount.report.theme import scientific


def rendered(template: str, **content: Any) -> str:
    """One of the templates, filled; everything that comes from outside is escaped."""
    return _environment().get_template(template).render(bundle=_bundle(), **content)


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
    environment.filters["scientific"] = scientific
    # NaN is no JSON: better no page than one whose charts stay empty.
    environment.policies["json.dumps_kwargs"] = {
        "allow_nan": False,
        "sort_keys": True,
        "separators": (",", ":"),
    }
    return environment

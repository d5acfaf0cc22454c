"""A table of cells to be printed and drawn (panel_chart.py)."""

from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True, eq=False)
class Panel:
    """A table of cells, to be printed and drawn: errors along `across`, one line for each of `lines`.

    - `table`: as `summarise` makes it.
    - `enough`: the first number of heads that is enough, where heads are shown.
    - `value`: what the errors are.
    - `shares`: whether they are shares of samples. Of these the means over seeds are shown, and nothing was
      selected; of others the minimum, at the learning rate that validation errors chose.
    - `among`: all lines of panels to be read together, where this one lacks some: their colours agree.
    """

    title: str
    table: pd.DataFrame
    across: str = "length"
    lines: str = "heads"
    enough: int | None = None
    value: str = "test error (NMSE)"
    shares: bool = False
    among: tuple[int, ...] = ()

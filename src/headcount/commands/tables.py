"""Tables in a terminal: at most 80 columns wide, numbers to the right."""

from collections.abc import Collection, Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

MAX_WIDTH = 80


def terminal() -> Console:
    """A console for the results of a command."""
    console = Console(highlight=False)
    console.width = min(console.width, MAX_WIDTH)
    return console


def show_lines(lines: Iterable[str], *, style: str = "") -> None:
    """Print lines, wrapped at words; nothing in them is taken for markup."""
    console = terminal()
    for line in lines:
        console.print(Text(line, style=style))


def show_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    title: str | None = None,
    texts: Collection[str] = (),
    bold: Collection[int] = (),
    header: bool = True,
) -> None:
    """Print a table.

    - `texts`: the columns that hold text, to the left and wrapped; others are to the right on one line.
    - `bold`: the places of rows to stand out.
    """
    table = Table(
        title=title, box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False, show_header=header
    )
    for name in columns:
        is_text = name in texts
        table.add_column(name, justify="left" if is_text else "right", no_wrap=not is_text)
    for place, row in enumerate(rows):
        table.add_row(*map(Text, row), style="bold" if place in bold else None)
    terminal().print(table)

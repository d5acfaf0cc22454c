"""`headcount bounds`: Theorem 2 at one setting, as a table, as JSON, and as a chart."""

from pathlib import Path
from typing import Annotated

import typer

from headcount.commands.options import AsJson


def bounds(
    dimension: Annotated[int, typer.Option(help="D of the task.", show_default=False)],
    heads: Annotated[int, typer.Option(help="h of the model.", show_default=False)],
    head_dim: Annotated[int, typer.Option(help="n, the numbers per head.", show_default=False)],
    length: Annotated[int, typer.Option(help="T.", show_default=False)],
    token_dim: Annotated[int, typer.Option(help="d, the numbers per token.")] = 4,
    gamma: Annotated[
        float, typer.Option(help="Width 1/delta^gamma fits F_0 and every f_i to delta; at worst max(d, D).")
    ] = 2.0,
    smallest_set: Annotated[
        int | None, typer.Option(help="m, the positions in the smallest S_i.", show_default="T")
    ] = None,
    layers: Annotated[int, typer.Option(help="L; for more than one, what shapes are known to reach.")] = 1,
    as_json: AsJson = False,
    chart: Annotated[
        Path | None,
        typer.Option(
            help="Draw k over heads × length into this .html, .svg or .png file.", show_default=False
        ),
    ] = None,
) -> None:
    """See what theory says about this many heads, and when it says nothing.

    Prints the exponents of the bounds on the parameters M at an error eps, each
    with the reason why it holds or why it is vacuous. Nothing is trained.
    """
    from headcount.commands.tables import show_lines, show_table
    from headcount.theory.bounds import bounds as all_bounds

    found = all_bounds(
        dimension=dimension,
        heads=heads,
        head_dim=head_dim,
        length=length,
        token_dim=token_dim,
        gamma=gamma,
        smallest_set=smallest_set,
        layers=layers,
    )
    if chart is not None:
        from headcount.report.bounds_chart import bounds_chart
        from headcount.report.rendering import save_chart

        save_chart(bounds_chart(found.setting), chart)
    if as_json:
        print(found.to_json())
        return
    show_lines([str(found.setting)])
    show_table(("bound", "exponent", "what it says"), found.rows(), texts=("bound", "what it says"))
    if chart is not None:
        print(f"Chart: {chart}")

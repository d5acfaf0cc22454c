"""`headcount plan`: from D to a shape, and from the config of a model to the D that it reaches."""

import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headcount.commands.options import AsJson
from headcount.errors import InvalidInput
from headcount.validation import check_integer, expected

if TYPE_CHECKING:
    from headcount.theory.plan_answer import PlanAnswer

ESTIMATE = "estimate.json"
NUMBERS = "L × h × kv × n"
SHAPE = (
    "L layers × h heads × kv key-value heads × n numbers per head. Parameters, and multiply-adds per token, "
    "of attention and feed-forward; each token in view adds 2·L·h·n. Cache: numbers per token."
)


def plan(
    task: Annotated[
        str | None,
        typer.Argument(
            metavar="D", help="D, or the estimate.json of a task, or its folder.", show_default=False
        ),
    ] = None,
    dimension: Annotated[int | None, typer.Option(help="D, as an option.", show_default=False)] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="The config.json of a Hugging Face model, or its folder.", show_default=False),
    ] = None,
    width: Annotated[
        int | None, typer.Option(help="E, the width of the model.", show_default="heads × n")
    ] = None,
    head_dim: Annotated[
        int | None, typer.Option(help="n, the numbers per head.", show_default="width / heads, or 64")
    ] = None,
    layers: Annotated[
        list[int] | None,
        typer.Option(help="A depth to plan for; may be repeated.", show_default="1, 2, 4, 6, 12"),
    ] = None,
    decoder: Annotated[
        bool | None,
        typer.Option(
            "--decoder/--encoder",
            help="Causal attention read at the last token, or a class token that reads in every layer.",
            show_default="encoder, or as the config says",
        ),
    ] = None,
    as_json: AsJson = False,
    page: Annotated[
        Path | None, typer.Option(help="Draw what shapes reach into this .html file.", show_default=False)
    ] = None,
) -> None:
    """Which shapes reach D, and what do they cost? Or: which D does a model reach?

    Prints the fewest heads and key-value heads at each depth, with parameters,
    multiply-adds and key-value cache per token. With --config: the D that weights
    exist for in that shape, and the D that trained models of such a shape reached.
    Nothing is trained.
    """
    if page is not None:
        _check_page(page)
    options = {"width": width, "head_dim": head_dim}
    answer = _answer(_dimension(task, dimension), config, layers=layers, decoder=decoder, options=options)
    if page is not None:
        from headcount.report.plan_chart import write_plan

        write_plan(answer, page, command=_command())
    if as_json:
        print(json.dumps(answer.to_json(), indent=2))
        return
    _show(answer)
    if page is not None:
        print(f"Page: {page}")


def _check_page(page: Path) -> None:
    """Refuse a page that cannot be written, before anything is."""
    from headcount.results.files import check_writable

    if page.suffix != ".html":
        raise expected("--page", "a file that ends in .html", page.name)
    if os.path.isdir(page):  # noqa: PTH112  # unlike a path's own, it takes any name
        raise InvalidInput(f"--page: expected a file, got the folder {page}")
    check_writable("--page", page.parent)


def _answer(
    dimension: int | None,
    config: Path | None,
    *,
    layers: list[int] | None,
    decoder: bool | None,
    options: dict[str, Any],
) -> "PlanAnswer":
    """The plan for D, for a model, or for both; `options` are those of a family without a model."""
    from headcount.theory.model_config import read_model_config
    from headcount.theory.plan import LAYERS, Family
    from headcount.theory.plan import plan as planned
    from headcount.theory.plan_answer import PlanAnswer

    if config is None:
        if dimension is None:
            raise InvalidInput("expected D, an estimate.json or --config config.json: `headcount plan 4`")
        model, family = None, Family(**options, decoder=bool(decoder))
    else:
        _refuse_with_config(**options, layers=layers if dimension is None else None)
        model = read_model_config(config)
        family = model.family(decoder=decoder)
    usual = LAYERS if model is None else (model.layers,)
    depths = () if dimension is None else planned(dimension, layers=layers or usual, family=family)
    taken = model is not None and decoder is None and not model.reading_known
    return PlanAnswer(dimension, family, depths, model, taken_for_encoder=taken)


def _dimension(task: str | None, dimension: int | None) -> int | None:
    """D as it was given; None where it was not."""
    from headcount.theory.plan import MAX_DIMENSION

    if task is not None and dimension is not None:
        raise InvalidInput(f"--dimension: expected D once, got {task} and {dimension}")
    name, given = "dimension", dimension
    if task is not None:
        try:
            given = int(task)
        except ValueError:
            name, given = f"{task}: dimension", _estimated(task)
    return None if given is None else check_integer(name, given, at_least=1, at_most=MAX_DIMENSION)


def _estimated(task: str) -> int:
    """The D of an estimate."""
    from headcount.theory.model_config import json_object

    if not os.path.exists(task):  # noqa: PTH110  # unlike a path's own, it takes any name
        raise expected("D", "an integer >= 1 or an estimate.json", task)
    found = json_object(Path(task), ESTIMATE)
    if "dimension" not in found:
        raise InvalidInput(f"{task}: expected an estimate, which has a dimension; a config goes to --config")
    given: int | None = found["dimension"]
    if given is None:
        raise InvalidInput(f"{task}: this estimate could not tell D; say what you expect with --dimension")
    return given


def _refuse_with_config(**options: object) -> None:
    for name, value in options.items():
        if value:
            wanted = "a D to plan for" if name == "layers" else "no config, which has its own"
            raise expected(f"--{name.replace('_', '-')}", wanted, value)


def _show(answer: "PlanAnswer") -> None:
    from headcount.commands.tables import show_lines, show_table
    from headcount.theory.plan import EXPLAINED

    show_lines([answer.sentence], style="bold")
    print()
    if answer.own is not None:
        show_table(("", " "), answer.about_model(), texts=("", " "), header=False)
        print()
    if answer.shapes:
        _show_shapes(answer)
    show_lines([*answer.notes, EXPLAINED])


def _show_shapes(answer: "PlanAnswer") -> None:
    """How sure each shape is, and below what it costs."""
    from headcount.commands.tables import show_lines, show_table

    assert answer.dimension is not None, "shapes are for a D"
    columns = (NUMBERS, "weights", "training", "largest D, by law")
    rows = [
        (str(each), *(how(answer.dimension) for how in (each.weights, each.training, each.law)))
        for each in answer.shapes
    ]
    show_table(columns, rows, texts=columns[1:])
    print()
    costs = [
        (str(each), f"{spent.parameters:,}", f"{spent.multiply_adds:,}", f"{spent.cache:,}")
        for each in answer.shapes
        for spent in [each.costs]
    ]
    show_table((NUMBERS, "parameters", "multiply-adds", "cache"), costs)
    show_lines([SHAPE])


def _command() -> str:
    return shlex.join(["headcount", *sys.argv[1:]])

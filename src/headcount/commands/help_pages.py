"""Help as it is printed: paragraphs as wide as the terminal, shapes in brackets, no types of flags."""

import inspect
import re
from collections.abc import Iterable
from typing import Any, get_args

from rich.markup import escape
from typer.core import TyperArgument

# A block that is shown as it stands: a list, an example, anything indented.
AS_IT_STANDS = re.compile(r"^(\s|- |>>> |\$ )", re.MULTILINE)
SHORTER = {
    "install_completion": "Install completion for this shell.",
    "show_completion": "Print completion for this shell.",
}


def lay_out(command: Any, parameters: Iterable[Any]) -> None:
    """Prepare the texts of a command, for a printer that takes brackets for markup."""
    if _is_new(command):
        command.help = escape(paragraphs(command.help or ""))
        command.epilog = escape(command.epilog or "")
    for parameter in filter(_is_new, parameters):
        parameter.help = escape(SHORTER.get(parameter.name) or parameter.help or "")
        parameter.metavar = _value(parameter) if parameter.metavar is None else parameter.metavar


def _is_new(part: Any) -> bool:
    """Whether this was not prepared before, in a process that prints help more than once."""
    before, part.is_laid_out = getattr(part, "is_laid_out", False), True
    return not before


def _value(parameter: Any) -> str | None:
    """What stands for its value: for an argument its name, for an option its type, for a flag nothing."""
    kind = parameter.type_descriptor
    if isinstance(parameter, TyperArgument):
        return str(parameter.name).upper()
    if parameter.is_flag or parameter.name in SHORTER:
        return ""
    if kind.is_list:
        return f"<{get_args(kind.annotation)[0].__name__}>"
    return f"<{kind.ranged_type_name}>" if kind.is_ranged else None


def paragraphs(text: str) -> str:
    r"""The text with every paragraph in one line, to be broken where the terminal ends.

    >>> print(paragraphs("One\ntwo.\n\n- three\n- four"))
    One two.
    <BLANKLINE>
    - three
    - four
    """
    blocks = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(block if AS_IT_STANDS.search(block) else " ".join(block.split()) for block in blocks)

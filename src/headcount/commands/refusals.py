"""What the command line was given and cannot use, in the words of all other messages of this project."""

from typing import Any, get_args

from headcount.validation import shown

NUMBERS = {int: "an integer", float: "a number"}


def refusal(error: Any) -> str:
    """One line for an error of the parser: what was expected, and what was given."""
    parameter = getattr(error, "param", None)
    kind = type(error).__name__
    if parameter is not None and kind == "MissingParameter":
        return f"{_name(parameter)}: expected {_wanted(parameter) or 'a value'}, got none"
    if parameter is not None and kind == "BadParameter":
        given = _given(error)
        wanted = _wanted(parameter, of_range=_is_number(given))
        if wanted and given is not None:
            return (
                f"{_name(parameter)}: expected {wanted}, got {given if _is_number(given) else shown(given)}"
            )
    if kind == "BadOptionUsage":
        what = "no value, got one" if "not take" in error.message else "a value, got none"
        return f"{error.option_name}: expected {what}"
    if kind == "NoSuchOption":
        near = ", ".join(error.possibilities or ())
        return f"{error.option_name}: no such option" + (f"; did you mean {near}?" if near else "")
    return str(error.format_message())


def _name(parameter: Any) -> str:
    """As it is written on the command line."""
    long = [name for name in parameter.opts if name.startswith("--")]
    return long[0] if long else str(parameter.metavar or parameter.name.upper())


def _given(error: Any) -> str | None:
    """The text that could not be read as a value."""
    found: list[dict[str, Any]] = getattr(error.__cause__, "errors", list)()
    return str(found[0]["input"]) if found else None


def _wanted(parameter: Any, *, of_range: bool = True) -> str:
    """What a parameter takes; empty where any text will do."""
    kind = parameter.type_descriptor
    if kind.choices is not None:
        return f"one of {', '.join(map(str, kind.choices))}"
    each = [*get_args(kind.annotation), kind.annotation] if kind.is_list else [kind.annotation]
    number = NUMBERS.get(each[0], "")
    low, high = kind.parameter_info.min, kind.parameter_info.max
    if not number or not of_range or (low is None and high is None):
        return number
    if low is None or high is None:
        return f"{number} {'<=' if low is None else '>='} {high if low is None else low}"
    return f"{number} from {low} to {high}"


def _is_number(text: str | None) -> bool:
    try:
        float(text or "")
    except ValueError:
        return False
    return True

"""What benchmarks share: a parser whose help is their docstring, results with machine and versions."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headcount.results.files import write_whole
from headcount.trials.machine import this_machine
from headcount.version import versions

RESULTS = Path(__file__).parent / "results"


def parser_of(text: str | None) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)


def about(*others: str) -> dict[str, str]:
    """The machine and the versions that a result is measured with; `others` such as "torch 2.6"."""
    return {"machine": this_machine().name, "versions": ", ".join((versions(), *others))}


def origin(paths: Sequence[Path]) -> dict[str, str]:
    """The machine and the versions of results files that were made as parts of one."""
    found = [{name: json.loads(path.read_text())[name] for name in ("machine", "versions")} for path in paths]
    if any(part != found[0] for part in found):
        sys.exit(f"expected parts of one machine and of one version, got {found}")
    return found[0]


def dealt(tasks: Sequence[Any], part: str | None) -> Sequence[Any]:
    """Every N-th task from the K-th on, for a part "K/N"; all of them where there are no parts."""
    if part is None:
        return tasks
    place, parts = (int(number) for number in part.split("/"))
    return tasks[place - 1 :: parts]


def part(text: str) -> str:
    """K/N as a part of an argument list, checked."""
    place, _, parts = text.partition("/")
    if not (place.isdecimal() and parts.isdecimal() and 1 <= int(place) <= int(parts)):
        raise argparse.ArgumentTypeError(f"expected K/N with 1 <= K <= N, got {text!r}")
    return text


def write_json(path: Path, result: dict[str, Any], *, indent: int = 2, allow_nan: bool = True) -> str:
    """Write a result, whole or not at all; returns its text."""
    text = json.dumps(result, indent=indent, allow_nan=allow_nan) + "\n"
    write_whole(path, lambda file: file.write(text.encode()))
    return text

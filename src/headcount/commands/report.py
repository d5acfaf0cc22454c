"""`headcount report`: the page of a results folder, from its rows alone."""

import json
import os
import shlex
import sys
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headcount.commands.options import AsJson
from headcount.errors import InvalidInput

if TYPE_CHECKING:
    from headcount.results.store import Store


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A results folder.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Make the page of a sweep again, from the results alone."""
    from headcount.results.store import Store

    if os.path.exists(folder / "inspect.json"):  # noqa: PTH110  # unlike a path's own, it takes any name
        _report_inspection(folder, as_json=as_json)
        return
    _refuse_data(folder)
    store = Store(folder)
    refuse_estimate(store)
    report_on(
        store,
        title=folder.resolve().name,
        command=f"headcount report {shlex.quote(str(folder))}",
        as_json=as_json,
    )


def _report_inspection(folder: Path, *, as_json: bool) -> None:
    """The page of a trained model, from inspect.json and plan.json alone."""
    from headcount.report.inspection import read_json, write_inspection
    from headcount.trained.plan import read_plan

    inspection, plan, page = read_json(folder / "inspect.json"), read_plan(folder), folder / "report.html"
    write_inspection(inspection, plan.to_json(), page, plan_file=shlex.quote(str(folder / "plan.json")))
    if as_json:
        print(json.dumps({"sentence": inspection["sentence"], "page": str(page)}, indent=2))
        return
    print(inspection["sentence"])
    print(f"Page: {page}")


def _refuse_data(path: Path) -> None:
    """A user's own data, or a folder of it, is for another command."""
    from headcount.data.files import is_data

    try:
        inside = [] if (path / "shards").exists() else sorted(path.iterdir()) if path.is_dir() else [path]
    except OSError:  # the store says why
        return
    files = [file for file in inside if is_data(file) and file.is_file()]
    if files:
        reader = f"`headcount estimate {shlex.quote(str(files[0]))}` reads it"
        raise InvalidInput(f"{path}: expected a results folder, got data; {reader}")


def refuse_estimate(store: "Store") -> None:
    """Do not overwrite the page of an estimate with that of a sweep."""
    if os.path.exists(store.folder / "estimate.json"):  # noqa: PTH110  # unlike a path's own, it takes any name
        raise InvalidInput(
            f"{store.folder}: holds an estimate; use another folder, or make its page again with the same "
            "`headcount estimate`, which trains nothing anew"
        )


def report_on(
    store: "Store", *, title: str, command: str, as_json: bool, reported: Collection[str] = ()
) -> None:
    """Write the page of a results folder and print its findings."""
    from headcount.report.page import write_page
    from headcount.results.transitions import transitions

    frame = store.frame()
    for problem in store.problems:
        if problem not in reported:
            print(f"headcount: {problem}", file=sys.stderr)
    if frame.empty:
        raise InvalidInput(f"{store.folder}: holds no finished trial")
    found = transitions(frame)
    write_page(
        frame, store.page, title=title, findings=[str(transition) for transition in found], command=command
    )
    failed = int((frame["status"] == "diverged").sum())
    if as_json:
        summary = {
            "members": len(frame),
            "failed": failed,
            "transitions": [{**asdict(transition), "clear": transition.clear} for transition in found],
            "page": str(store.page),
        }
        print(json.dumps(summary, indent=2))
        return
    for transition in found:
        print(transition)
    print(f"{len(frame)} member{'s' * (len(frame) > 1)}, {failed} failed. Page: {store.page}")

"""Data on the command line: how it was read is shown before anything trains, in the words of its options."""

import json
import re
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from headcount.api.answer import about
from headcount.commands import estimate
from headcount.commands.options import worded_as_options
from headcount.data.arrays import data_set
from headcount.errors import InvalidInput
from headcount.estimate.study import Study

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(400, 4, 2))
Y = X.max(axis=1).sum(axis=1)


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    columns = {"series": np.repeat(range(400), 4), "a": X[..., 0].ravel(), "b": X[..., 1].ravel()}
    pd.DataFrame({**columns, "y": np.repeat(Y, 4)}).to_csv("my long.csv", index=False)
    pd.DataFrame(X[..., 0], columns=list("abcd")).assign(y=Y).to_csv("wide.csv", index=False)
    np.savez("labels.npz", x=X, y=(np.median(Y) < Y) + 0.0)
    np.savez("nan.npz", x=np.where(X > 2, np.nan, X), y=Y)
    np.savez("ids.npz", x=RANDOM.integers(9, size=(400, 4)), y=Y)
    np.savez("short.npz", x=RANDOM.normal(size=(1000, 3)), y=RANDOM.normal(size=1000))
    np.save("x.npy", X)
    np.save("y.npy", Y)
    Path("results").mkdir()


COMMANDS = {
    "--id series --y y 'my long.csv'": data_set(X, Y),
    "'my long.csv' --id series --features a --y y": data_set(X[..., :1], Y),
    "wide.csv --features a:d --y y": data_set(X[..., 0], Y),
    "--x x.npy --y y.npy": data_set(X, Y),
    "x.npy --y y.npy": data_set(X, Y),
    "labels.npz --target labels": data_set(X, (np.median(Y) < Y) + 0.0, target="labels"),
    "ids.npz --tokens numbers --padding 0": None,
}


@pytest.mark.parametrize("arguments", COMMANDS)
def test_options_say_how_data_is_read_and_the_command_repeats_it(arguments, called, monkeypatch):
    read = []
    monkeypatch.setattr(estimate, "estimate_samples", lambda *given, **options: read.append((given, options)))
    assert called("estimate", *shlex.split(arguments)) == 0
    ((samples, _), options) = read[0]
    assert called(*shlex.split(options["command"])[1:]) == 0
    wanted = COMMANDS[arguments] or samples
    assert [each.fingerprint for (each, _), _ in read] == [wanted.fingerprint] * 2


def written_as(name):
    """The data of the page, in a file of this name."""
    x, y = np.tile(X, (1, 6, 1)), Y.tolist()
    if name in ("long.csv", "wide.csv"):
        columns = {"series": np.repeat(range(400), 24), "t": np.tile(range(24), 400)}
        long = pd.DataFrame(
            {**columns, "a": x[..., 0].ravel(), "b": x[..., 1].ravel(), "y": np.repeat(y, 24)}
        )
        wide = pd.DataFrame(x[..., 0], columns=[f"v{place}" for place in range(24)]).assign(y=y)
        (long if name == "long.csv" else wide).to_csv(name, index=False)
    elif name == "tokens.npz":
        np.savez(name, input_ids=np.round(9 * abs(x[..., 0])).astype(int), labels=y)
    elif name == "mine.npz":
        np.savez(name, x=x, y=y)
    elif name == "mine.parquet":
        pd.DataFrame({"x": x.tolist(), "y": y}).to_parquet(name)


PAGE = (Path(__file__).parents[2] / "docs" / "data.md").read_text("utf-8")
SHOWN = sorted(set(re.findall(r"^headcount estimate (.*)$|`headcount estimate (.*?)`", PAGE, re.MULTILINE)))


@pytest.mark.parametrize("arguments", ["".join(each) for each in SHOWN])
def test_every_command_of_the_data_page_reads_its_data(arguments, called, monkeypatch):
    read = []
    monkeypatch.setattr(estimate, "estimate_samples", lambda samples, *_, **__: read.append(samples))
    written_as(arguments.split()[0])
    if "tensors.pt" in arguments:
        monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(load=lambda *_, **__: (X, Y)))
        Path("tensors.pt").touch()
    assert called("estimate", *arguments.split()) == 0
    assert len(read) == 1 and len(read[0].x) == 400


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (
            "labels.npz",
            [
                "labels.npz: 400 sequences of 4 tokens, 2 numbers each; "
                "y: numbers (if they are labels: --target labels); no mask",
                "headcount: warning: y: 2 whole numbers (0, 1) are read as numbers; "
                "if they are labels: --target labels",
            ],
        ),
        ("short.npz", ["short.npz: 1,000 sequences of 3 tokens", "(in a table: --id COLUMN with the column"]),
        (
            "ids.npz",
            ["ids.npz: 400 sequences of 4 tokens, each one of 9 ids (if they are quantities: --tokens"],
        ),
    ],
)
@pytest.mark.parametrize("options", ["", "--json"])
def test_how_data_was_read_is_shown_before_anything_trains(
    arguments, lines, options, called, capsys, monkeypatch
):
    def stop(_):
        raise InvalidInput("training begins")

    monkeypatch.setattr(Study, "stages", stop)
    called("estimate", *arguments.split(), *options.split())
    *said, last = capsys.readouterr().err.splitlines()
    assert last.endswith("training begins")
    lines = lines[1:] if options else lines
    assert len(said) == len(lines) and all(part in line for part, line in zip(lines, said, strict=True))


LINES = {
    "estimate": "expected a file with x and y, or --x FILE and --y FILE; got none",
    "estimate wide.csv": "wide.csv: expected --id COLUMN, the column that tells sequences apart, one of "
    "a, b, c, d, y; or --features FIRST:LAST if a row is a whole sequence",
    "estimate wide.csv --id e": "wide.csv: id: expected one of a, b, c, d, y, got 'e'",
    "estimate nan.npz": "such values in",
    "estimate ids.npz --tokens words": "tokens: expected one of auto, numbers, ids, got 'words'",
    "estimate x.npy": "y: expected an .npy file, --y FILE, got none",
    "report ids.npz": "ids.npz: expected a results folder, got data; `headcount estimate ids.npz` reads it",
    "report .": ".: expected a results folder, got data; `headcount estimate ids.npz` reads it",
    "report results": "results: holds no finished trial",
    "report nowhere": "nowhere: no such folder",
    "reproduce": "NAME: expected an item of `headcount reproduce --list`, or all; got none",
}


@pytest.mark.parametrize("arguments", LINES)
def test_a_mistake_is_one_line(arguments, called, capsys, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    assert called(*arguments.split()) == 2
    printed = capsys.readouterr()
    assert not printed.out and printed.err.count("\n") == 1 and LINES[arguments] in printed.err
    assert sorted(tmp_path.rglob("*")) == before


def test_only_arguments_are_worded_as_options():
    line = 'x: expected x = 3, max=2; padding="nan", padding=-0.5 or id="a b"'
    assert worded_as_options(line) == "x: expected x = 3, max=2; --padding nan, --padding -0.5 or --id 'a b'"


def test_the_answer_says_how_its_data_was_read():
    data = data_set(X, (np.median(Y) < Y) + 0.0)
    written = json.loads(json.dumps(about(estimate._worded(data))))
    assert "--target labels" in written["read_as"] and "--target labels" in written["doubts"][0]
    assert written["read_as"].startswith("400 sequences of 4 tokens") and len(written["doubts"]) == 1

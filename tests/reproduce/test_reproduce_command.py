"""`headcount reproduce` from the command line, with a recipe small enough for a test."""

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from tiny import TINY_TRAINING

from headcount.commands import cli
from headcount.reproduce import recipe as recipes
from headcount.reproduce.item import ITEMS
from headcount.trials.training import Training


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = replace(recipes.QUICK, training=Training(**TINY_TRAINING), lengths=(6,), polish_steps=1)
    monkeypatch.setattr(recipes, "QUICK", recipe)


def called(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["headcount", "reproduce", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


def test_a_table_is_trained_polished_judged_written_and_resumed(tiny, monkeypatch, capsys, tmp_path: Path):
    out = tmp_path / "out"
    arguments = ("table4", "--quick", "--seeds", "1", "--out", str(out), "--json")
    assert called(monkeypatch, *arguments) == 0
    first = json.loads(capsys.readouterr().out)
    assert first["item"] == "table4" and first["verdicts"] and first["failed"] == 0
    (panel,) = first["panels"].values()
    assert [cell["heads"] for cell in panel] == [1, 2, 3, 4]
    for ending in (".html", ".svg", ".parquet"):
        assert (out / "reproduced" / f"table4{ending}").stat().st_size > 1000
    frame = pd.read_parquet(out / "reproduced" / "table4.parquet")
    assert len(frame) == 4 and set(frame["variant"]) == {""}
    shards = {path: path.stat().st_mtime_ns for path in (out / "shards").iterdir()}
    assert called(monkeypatch, *arguments) == 0
    assert json.loads(capsys.readouterr().out) == first
    assert {path: path.stat().st_mtime_ns for path in (out / "shards").iterdir()} == shards


def test_the_table_is_printed_beside_the_paper_s(tiny, monkeypatch, capsys, tmp_path: Path) -> None:
    assert called(monkeypatch, "table4", "--quick", "--seeds", "1", "--out", str(tmp_path / "out")) == 0
    shown = capsys.readouterr().out
    assert "Table 4" in shown and "paper" in shown and "A quick run" in shown and "Page: " in shown
    assert all(
        len(line) <= 80 for line in shown.splitlines() if "Page" not in line and "quick run" not in line
    )


def test_the_list(monkeypatch, capsys) -> None:
    assert called(monkeypatch, "--list") == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in ITEMS)


@pytest.mark.parametrize("name", ["table9", ""])
def test_an_unknown_item_is_one_line(name: str, monkeypatch, capsys) -> None:
    assert called(monkeypatch, name) == 2
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1 and "expected one of table2" in shown

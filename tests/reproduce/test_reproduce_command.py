"""`headcount reproduce` from the command line, with a recipe small enough for a test."""

import json
import re
from dataclasses import replace

import pandas as pd
import pytest
from tiny import TINY_TRAINING

from headcount.reproduce import recipe as recipes
from headcount.reproduce.item import ITEMS, MAPS, REAL_ITEMS
from headcount.trials.training import Training


def test_a_table_is_trained_judged_written_and_resumed(called, monkeypatch, capsys, tmp_path):
    recipe = replace(recipes.QUICK, training=Training(**TINY_TRAINING), lengths=(6,))
    monkeypatch.setattr(recipes, "QUICK", recipe)
    arguments = ("reproduce", "table4", "--quick", "--seeds", 1, "--out", tmp_path)
    assert called(*arguments, "--json") == 0
    first = json.loads(capsys.readouterr().out)
    assert first["item"] == "table4" and first["verdicts"] and first["failed"] == 0
    (panel,) = first["panels"].values()
    assert [cell["heads"] for cell in panel] == [1, 2, 3, 4]
    for ending in (".html", ".svg", ".parquet"):
        assert (tmp_path / "reproduced" / f"table4{ending}").stat().st_size > 1000
    frame = pd.read_parquet(tmp_path / "reproduced" / "table4.parquet")
    assert len(frame) == 4 and set(frame["variant"]) == {""}
    shards = {path: path.stat().st_mtime_ns for path in (tmp_path / "shards").iterdir()}
    assert called(*arguments, "--json") == 0
    assert json.loads(capsys.readouterr().out) == first
    assert called(*arguments) == 0
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "shards").iterdir()} == shards
    shown = capsys.readouterr().out
    assert "Table 4" in shown and "paper" in shown and "A quick run" in shown and "Page: " in shown
    assert all(len(line) <= 80 for line in shown.splitlines() if not line.startswith(("Page", "A quick run")))


def test_the_list_names_every_item(called, capsys):
    assert called("reproduce", "--list") == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in ITEMS)
    assert called("reproduce", "--list", "--json") == 0
    assert {*ITEMS, *MAPS, *REAL_ITEMS} == set(json.loads(capsys.readouterr().out))


@pytest.mark.parametrize(("name", "line"), [("table9", "expected one of table2"), ("", "--list`, or all")])
def test_an_unknown_item_is_one_line(name, line, called, capsys):
    assert called("reproduce", name) == 2
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1 and line in shown


def test_the_help_names_the_seeds_and_the_choice_that_maps_and_other_items_have(called, capsys):
    assert called("reproduce", "--help") == 0
    shown = " ".join(re.sub("[│╭╮╰╯─]", " ", capsys.readouterr().out).split())
    real = " or ".join(str(seeds) for seeds in sorted({REAL_ITEMS[name].seeds for name in REAL_ITEMS})[::-1])
    (mapped,) = {MAPS[name].seeds for name in MAPS}
    assert f"{recipes.FULL.seeds}; {mapped} of maps; {real} on real data" in shown
    assert f"Maps of shapes ({', '.join(MAPS)}) judge a cell by its lowest test error" in shown

"""The theory on the command line: what it prints, what it keeps, and how it refuses invalid input."""

import json
import re
import sys

import numpy as np
import pytest

from headcount.theory.bounds import bounds

pytestmark = pytest.mark.usefixtures("compiled_quickly")


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)

    def call(line):
        from headcount.commands.cli import main

        monkeypatch.setattr(sys, "argv", ["headcount", *line.split()])
        capsys.readouterr()
        try:
            main()
        except SystemExit as end:
            return end.code or 0, *capsys.readouterr()
        return 0, *capsys.readouterr()

    return call


BOUNDS = "bounds --dimension 4 --heads 3 --head-dim 8 --length 128"
PAPER = {"dimension": 4, "heads": 3, "head_dim": 8, "length": 128}


def test_bounds_show_both_exponents_and_all_reasons_in_80_columns(command):
    code, shown, _ = command(BOUNDS)
    assert code == 0
    assert re.search(r"m = T/4 +-0\.0714 ", shown) and re.search(r"m = T = 128 +3\.36 ", shown)
    assert max(map(len, shown.splitlines())) <= 80
    words = " ".join(line[34:].strip() for line in shown.splitlines())
    assert all(reason in " ".join(words.split()) for _, _, reason in bounds(**PAPER).rows())


def test_bounds_as_json_are_all_that_a_machine_gets(command, tmp_path):
    more = "--smallest-set 64 --gamma 1.5 --token-dim 2 --layers 1 --chart bounds.svg --json"
    code, out, err = command(f"{BOUNDS} {more}")
    setting = json.loads(out)["setting"]
    assert (code, err) == (0, "")
    assert setting == PAPER | {"smallest_set": 64, "gamma": 1.5, "token_dim": 2, "layers": 1}
    assert out.strip() == bounds(**setting).to_json()
    assert (tmp_path / "bounds.svg").read_text("utf-8").startswith("<svg")


@pytest.mark.parametrize(("ending", "start"), [("png", b"\x89PNG"), ("html", b"<!DOCTYPE html>")])
def test_the_chart_of_bounds_is_written_by_its_ending(command, ending, start, tmp_path):
    _, out, _ = command(f"{BOUNDS} --chart new/bounds.{ending}")
    assert f"Chart: new/bounds.{ending}" in out
    content = (tmp_path / "new" / f"bounds.{ending}").read_bytes()
    assert content.lstrip().startswith(start)
    assert not re.search(rb'(src|href)="https?:', content)


@pytest.mark.parametrize("kind", ["specialise", "memorise"])
def test_construct_stays_under_its_bound(command, kind):
    code, out, err = command(f"construct {kind} extremes --length 4 --epsilon 0.1 --json")
    made = json.loads(out)
    assert (code, err) == (0, "")
    assert made["measured_error"] <= made["bound"] < 0.1
    assert made["heads"] == (2 if kind == "specialise" else 1)


def test_construct_explains_itself_in_80_columns_and_writes_weights(command, tmp_path):
    code, out, _ = command("construct specialise bowls --dimension 2 --token-dim 1 --length 4 --out w.npz")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "measured error" in out and "proven" in out and "assumption 3" in out
    with np.load(tmp_path / "w.npz") as saved:
        assert saved["class_token"].shape == (4,)
        assert {"encoder.weights[0]", "readout.biases[1]", "attention.query"} <= set(saved)


@pytest.mark.parametrize(
    ("line", "fragment"),
    [
        (f"{BOUNDS} --heads 0", "heads: expected"),
        (f"{BOUNDS} --chart k.pdf", "k.pdf"),
        ("construct specialise bowls --epsilon 0", "epsilon: expected"),
        ("construct specialise bowls --epsilon 1e-30", "would be possible"),
        ("construct memorise bowls --length 64", "would fit"),
        ("construct specialise bowl", "bowls"),
        ("construct neither bowls", "neither"),
        ("construct specialise bowls --out w.txt", "w.txt"),
        ("collide max_som", "max_sum"),
        ("collide --tolerance nan", "tolerance: expected a finite number >= 1e-12, got nan"),
        ("collide --layers 2 --width 3", "width: expected an integer >= 6"),
        ("rates bowl", "bowls"),
    ],
)
def test_invalid_input_is_one_line_and_leaves_nothing(command, line, fragment, tmp_path):
    code, out, err = command(line)
    assert (code, out) == (2, "")
    assert err.startswith("headcount: error: ") and err.count("\n") == 1
    assert fragment in err
    assert not list(tmp_path.iterdir())


COLLIDE = (
    "collide bowls --dimension 2 --token-dim 1 --length 4 --max-heads 1 --steps 100 --train-samples 256 "
    "--seeds 1 --pairs 2 --candidates 100 --out found"
)


def test_collide_trains_searches_draws_and_resumes(command, tmp_path):
    code, out, err = command(COLLIDE)
    assert code == 0, err
    assert err.count("searching") == 1
    assert "…" not in out and max(map(len, out.splitlines())) <= 80
    folder = tmp_path / "found"
    assert "vegaEmbed" in (folder / "collisions.html").read_text()

    row = json.loads((folder / "collisions" / "T4-h1.json").read_text())
    assert np.shape(row["inside"]["first"]) == (4, 1)
    row = {name: value for name, value in row.items() if name in ("settings", "heads", "lemma")}
    kept = {path: path.stat().st_mtime_ns for path in folder.rglob("*.*") if path.suffix != ".html"}
    code, out, err = command(f"{COLLIDE} --json")
    assert (code, err) == (0, "")
    (found,) = json.loads(out)["collisions"]
    assert row.items() <= found.items()
    assert kept == {path: path.stat().st_mtime_ns for path in kept}  # nothing is trained or searched again

    (folder / "collisions" / "T4-h1.json").write_text("{ damaged")
    for path in (folder / "models").iterdir():
        path.write_bytes(b"")  # a member without its weights is trained again
    code, out, err = command(f"{COLLIDE} --json")
    assert code == 0, err
    assert json.loads(out)["collisions"] == [found]


def test_collide_with_two_layers_says_which_dimension_they_reach(command, tmp_path):
    line = COLLIDE.replace("--dimension 2", "--dimension 3")
    line = f"{line} --layers 2 --class-reads every --width 6 --tolerance 1e-8"
    code, out, err = command(line)
    assert code == 0, err
    assert re.search(r"T +h: D <= ", out) and re.search(r"\n4 +1: 3 +\d", out)
    assert "…" not in out and max(map(len, out.splitlines())) <= 80
    code, out, err = command(f"{line} --json")
    found = json.loads(out)
    (row,) = found["collisions"]
    assert (row["layers"], row["capacity"], row["tolerance"], row["binned"]) == (2, 3, 1e-8, None)
    assert "bins are for one layer" in row["why_not_binned"]
    assert found["command"].count("--layers 2 --class-reads every --width 6 ") == 1
    assert "--tolerance 1e-08" in found["command"]
    assert row["inside"]["representation_gap"] <= 1e-8
    assert (tmp_path / "found" / "collisions" / "T4-h1-L2.json").exists()


def test_rates_are_a_table_or_json(command, monkeypatch):
    """The long searches are left out; what they find has tests of its own."""
    monkeypatch.setattr("headcount.theory.rates.gap_rates", lambda seed: ())
    monkeypatch.setattr("headcount.theory.rates.guaranteed", lambda *_, **__: ("assumption 3 holds",))
    line = "rates extremes --length 4 --smallest-epsilon 0.02"
    code, printed, _ = command(line)
    assert code == 0 and "- assumption 3 holds" in printed and max(map(len, printed.splitlines())) <= 80
    found = json.loads(command(f"{line} --json")[1])
    assert found["dimension"] == 2 and found["gaps"] == [] and len(found["parameters"]) >= 2

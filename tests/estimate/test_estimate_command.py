"""`headcount estimate` and `headcount demo`, with members small enough for a test."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from believable_curves import sweep
from small_study import SMALL, X, Y

from headcount.commands import demo
from headcount.commands.answer import show_answer
from headcount.commands.estimate import with_options
from headcount.commands.specfile import EXAMPLE
from headcount.data.files import load
from headcount.estimate import study
from headcount.estimate.curve import Point
from headcount.estimate.evidence import with_shapes
from headcount.estimate.verdict import decide

pytestmark = pytest.mark.usefixtures("compiled_quickly")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "MemberRecipe", lambda: SMALL)


def test_a_file_is_estimated_written_and_resumed(called, capsys, tmp_path):
    np.savez(tmp_path / "mine.npz", x=X, y=Y)
    arguments = ("estimate", tmp_path / "mine.npz", "--out", tmp_path / "out", "--max-heads", 3, "--json")
    arguments += ("--d-model", 512)
    assert called(*arguments) == 0
    first = json.loads(capsys.readouterr().out)
    assert 0 < first["evidence"]["salience"]["share_of_tokens"] <= 1
    assert first["evidence"]["length"] is None
    shapes = first["evidence"]["shapes"]
    assert (shapes and shapes["dimension"]) == first["dimension"]
    assert (shapes and shapes["d_model"]) == (first["dimension"] and 512)
    assert json.loads((tmp_path / "out" / "estimate.json").read_text()) == first
    page = (tmp_path / "out" / "report.html").read_text()
    assert "How many heads does mine.npz need?" in page and "To repeat it" in page
    shards = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "shards").iterdir()}
    assert called(*arguments) == 0
    again = json.loads(capsys.readouterr().out)
    assert 0 <= again["compile_seconds"] <= first["compile_seconds"] < first["seconds"]
    times = {"seconds": 0, "compile_seconds": 0}
    assert {**again, **times} == {**first, **times}
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "shards").iterdir()} == shards


def test_the_output_fits_a_terminal(called, capsys, tmp_path):
    lengths = np.random.default_rng(0).integers(2, 5, size=400)
    mask = np.arange(4) < lengths[:, None]
    np.savez(tmp_path / "mine.npz", x=X, y=np.median(Y) < Y, mask=mask)
    options = ("--out", tmp_path / "out", "--max-heads", 3, "--no-positions")
    assert called("estimate", tmp_path / "mine.npz", *options) == 0
    printed = capsys.readouterr()
    assert re.search(r"log loss +accuracy", printed.out) and "Page: " in printed.out
    assert all(len(line) <= 80 for line in printed.out.splitlines() if "Page" not in line)
    first, second, *lines = printed.err.splitlines()[1:]
    assert re.match("About .* on .*; corrected as stages finish", first)
    assert re.match(
        r"Stage 1 of at most 4: A first look at all head counts, because .*; about .* left in all", second
    )
    stages = [
        re.match(r"Stage [234] of at most 4: (.*), because .*; about .* left in all", line) for line in lines
    ]
    assert all(stages) and len({stage[1] for stage in stages}) == len(lines)
    written = json.loads((tmp_path / "out" / "estimate.json").read_text())
    assert all(0 <= row["accuracy"] <= 1 and "typical_error" in row for row in written["curve"])
    assert [row["heads"] for row in written["evidence"]["early"]["curve"]] == [1, 2, 3]
    assert {row["heads"] for row in written["evidence"]["length"]["slopes"]} <= {1, 2, 3}


def test_a_budget_is_marked_and_a_run_without_it_goes_on(called, capsys, tmp_path):
    np.savez(tmp_path / "mine.npz", x=X, y=Y)
    out = tmp_path / "out"
    arguments = ("estimate", tmp_path / "mine.npz", "--out", out, "--max-heads", 3, "--no-positions")
    assert called(*arguments, "--minutes", 1e-4) == 0
    printed = capsys.readouterr()
    assert "Cannot tell" in printed.out and "the time was up" in printed.out and "Page" not in printed.out
    assert "Stage 1 of at most 4: A first look at all head counts: not begun" in printed.err
    assert json.loads((out / "estimate.json").read_text())["budget"]["minutes"] == 1e-4
    assert called(*arguments, "--quick", "--json") == 0
    printed = capsys.readouterr()
    quick = json.loads(printed.out)
    assert quick["budget"]["quick"] and "Trained quickly" in quick["sentence"]
    assert all(line.startswith(("About", "Stage")) for line in printed.err.splitlines()) and printed.err
    quickly = {path.name for path in (out / "models").iterdir()}
    assert called(*arguments, "--json") == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["budget"] is None
    assert "A first look" not in printed.err and quickly < {path.name for path in (out / "models").iterdir()}


def test_the_terminal_shows_every_head_count_which_curve_decides_and_what_to_type(capsys):
    some, every = (decide(sweep(3, heads=heads, noise=0.5)) for heads in ((1, 2, 3, 4, 8), range(1, 9)))
    deciding = "The distance decides, not the error: noise."
    shown_of = replace(some, deciding=deciding, early_errors=every.errors, early_distances=every.distances)
    show_answer(with_shapes(shown_of, d_model=512))
    shown = capsys.readouterr().out
    rows = re.findall(r"^(\d)  +(\S+)  +(\S+)  +(\S+)$", shown, re.MULTILINE)
    assert [row[0] for row in rows] == list("12345678")
    assert [row[0] for row in rows if row[1:] == ("–", "–", "–")] == list("567")
    assert deciding in shown and "only the first look" in shown
    assert re.search(r"^ +2 +num_heads=1 +num_heads=2 *$", shown, re.MULTILINE) and "d_model=512" in shown
    assert max(map(len, shown.splitlines())) <= 80
    show_answer(every)
    assert "only the first look" not in capsys.readouterr().out


def test_labels_have_their_accuracy_in_the_terminal(capsys):
    found = decide(sweep(2))
    right = tuple(Point(point.heads, 0.915, 0.9, 0.93) for point in found.errors)
    show_answer(replace(found, labels=True, accuracies=right))
    shown = capsys.readouterr().out
    assert re.search(r"h +log loss +accuracy +distance", shown) and shown.count("91.5%") == len(right)


def test_advice_is_worded_as_an_option():
    found = decide(sweep(3, heads=(1, 2, 3)))
    assert with_options(found).reasons[1] == "try more heads: --max-heads 6."
    assert with_options(found).sentence == found.sentence
    assert with_options(replace(found, reasons=("none",))).reasons == ("none",)


def test_invalid_input_is_one_line_and_leaves_nothing_behind(called, capsys, tmp_path):
    np.savez(tmp_path / "nan.npz", x=np.where(X > 2, np.nan, X), y=Y)
    np.savez(tmp_path / "fine.npz", x=X, y=Y)
    for arguments in (
        (tmp_path / "nowhere.npz",),
        (tmp_path / "nan.npz",),
        (tmp_path / "fine.npz", "--target", "guess"),
        (tmp_path / "fine.npz", "--max-heads", 2),
        (tmp_path / "fine.npz", "--d-model", 0),
        (tmp_path / "fine.npz", "--minutes", 0),
        (tmp_path / "fine.npz", "--minutes", "nan"),
        (tmp_path / "fine.npz", "--d-model", 512.5),
    ):
        assert called("estimate", *arguments, "--out", tmp_path / "out") == 2
        printed = capsys.readouterr()
        assert printed.err.count("\n") == 1 and printed.err.startswith("headcount: error: ")
        assert not printed.out and not (tmp_path / "out").exists()


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A folder to work in, with data and a spec."""
    monkeypatch.chdir(tmp_path)
    np.savez("mine.npz", x=X, y=Y)
    Path("spec.toml").write_text(EXAMPLE)


@pytest.mark.parametrize(
    ("command", "out"),
    [
        ("estimate mine.npz", "/proc/nowhere"),
        ("sweep spec.toml", "file/below"),
        ("demo", "file"),
        ("demo", "/"),
    ],
)
def test_an_impossible_folder_is_named_in_one_line(command, out, files, called, capsys, tmp_path):
    Path("file").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    assert called(*command.split(), "--out", out) == 2
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1 and "--out" in printed and out in printed and "probe" not in printed
    assert sorted(tmp_path.rglob("*")) == before and Path("file").read_text() == "mine"


def test_an_estimate_is_never_overwritten_by_anything_else(files, called, capsys):
    np.savez("other.npz", x=X, y=-Y)
    assert called("estimate", "mine.npz", "--out", "out", "--max-heads", 3, "--no-positions") == 0
    written = {name: Path("out", name).read_bytes() for name in ("estimate.json", "report.html")}
    for arguments, line in (
        ("estimate other.npz --out out", "estimate of other data ('mine.npz')"),
        ("report out", "out: holds an estimate"),
        ("sweep spec.toml --out out", "out: holds an estimate"),
    ):
        capsys.readouterr()
        assert called(*arguments.split()) == 2
        printed = capsys.readouterr().err
        assert printed.count("\n") == 1 and line in printed
        assert {name: Path("out", name).read_bytes() for name in written} == written


def test_the_demo_writes_its_example_beside_out_and_estimates_it(called, monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(demo, "estimate_samples", lambda *given, **options: asked.append((*given, options)))
    assert called("demo", "--out", tmp_path / "out", "--seed", 3) == 0
    ((samples, out, options),) = asked
    assert (out, options["seed"]) == (tmp_path / "out", 3)
    command = f"headcount estimate {tmp_path / 'out.npz'} --out {tmp_path / 'out'} --seed 3"
    assert options["command"] == command and samples.fingerprint == load(tmp_path / "out.npz").fingerprint
    with np.load(tmp_path / "out.npz") as example:
        x, y = example["x"], example["y"]
    assert (y - x.max(axis=1).sum(axis=1)).std() == pytest.approx(demo.NOISE * y.std(), rel=0.05)

"""`headcount estimate` and `HeadCount().fit`, with members small enough for a test."""

import json
import os
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

from headcount import HeadCount
from headcount.commands import cli
from headcount.commands.specfile import EXAMPLE
from headcount.data.arrays import data_set
from headcount.errors import InvalidInput
from headcount.estimate import members, study
from headcount.estimate.study import Study
from headcount.estimate.verdict import Estimate
from headcount.results.store import Store
from headcount.running.executor import run
from headcount.tasks.library import max_sum

pytestmark = pytest.mark.usefixtures("compiled_quickly")

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(400, 4, 2))
Y = X.max(axis=1).sum(axis=1)
SMALL = members.MemberRecipe(
    steps=400,
    batch_size=32,
    starts=((1e-2, 0),),
    more_starts=((1e-2, 1),),
    width=12,
    hidden=8,
    max_heads=3,
)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "MemberRecipe", lambda: SMALL)


def called(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr("sys.argv", ["headcount", "estimate", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


def test_a_file_is_estimated_written_and_resumed(monkeypatch, capsys, tmp_path):
    np.savez(tmp_path / "mine.npz", x=X, y=Y)
    arguments = (tmp_path / "mine.npz", "--out", tmp_path / "out", "--max-heads", 3, "--json")
    assert called(monkeypatch, *arguments) == 0
    first = json.loads(capsys.readouterr().out)
    assert 0 < first["evidence"]["salience"]["share_of_tokens"] <= 1
    assert first["evidence"]["length"] is None
    assert json.loads((tmp_path / "out" / "estimate.json").read_text()) == first
    page = (tmp_path / "out" / "report.html").read_text()
    assert "How many heads does mine.npz need?" in page and "To repeat it" in page
    shards = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "shards").iterdir()}
    assert called(monkeypatch, *arguments) == 0
    again = json.loads(capsys.readouterr().out)
    assert {**again, "seconds": 0} == {**first, "seconds": 0}
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "shards").iterdir()} == shards


def test_what_is_printed_fits_a_terminal(monkeypatch, capsys, tmp_path):
    lengths = RANDOM.integers(2, 5, size=400)
    mask = np.arange(4) < lengths[:, None]
    np.savez(tmp_path / "mine.npz", x=X, y=np.median(Y) < Y, mask=mask)
    arguments = (tmp_path / "mine.npz", "--out", tmp_path / "out", "--max-heads", 3, "--no-positions")
    assert called(monkeypatch, *arguments) == 0
    told = capsys.readouterr()
    assert "test error" in told.out and "Page: " in told.out
    assert all(len(line) <= 80 for line in told.out.splitlines() if "Page" not in line)
    assert "A first look" in told.err and "So far: " in told.err and "Do positions help?" not in told.err
    written = json.loads((tmp_path / "out" / "estimate.json").read_text())
    assert {row["heads"] for row in written["evidence"]["length"]["slopes"]} <= {1, 2, 3}


def test_mistakes_are_one_line_and_leave_nothing_behind(monkeypatch, capsys, tmp_path):
    np.savez(tmp_path / "nan.npz", x=np.where(X > 2, np.nan, X), y=Y)
    np.savez(tmp_path / "fine.npz", x=X, y=Y)
    np.savez(tmp_path / "steady.npz", x=X, y=in_one_split(2))
    for arguments in (
        (tmp_path / "steady.npz",),
        (tmp_path / "nowhere.npz",),
        (tmp_path / "nan.npz",),
        (tmp_path / "fine.npz", "--target", "guess"),
        (tmp_path / "fine.npz", "--max-heads", 2),
    ):
        assert called(monkeypatch, *arguments, "--out", tmp_path / "out") == 2
        told = capsys.readouterr()
        assert told.err.count("\n") == 1 and told.err.startswith("headcount: error: ") and not told.out
        assert not (tmp_path / "out").exists()


def in_one_split(split: int) -> np.ndarray:
    """Zeros, and a few ones that all fall into the training (0), validation (1) or test (2) split."""
    y, order = np.zeros(len(X)), np.random.default_rng(0).permutation(len(X))
    y[order[{0: slice(5), 1: slice(300, 305), 2: slice(-5, None)}[split]]] = 1
    return y


@pytest.mark.parametrize("split", [0, 1, 2])
@pytest.mark.parametrize("kind", ["a number", "the second of two numbers", "a label"])
def test_a_target_that_varies_in_one_split_alone_is_refused_before_anything_is_written(kind, split, tmp_path):
    y = in_one_split(split)
    y = {"a number": y, "the second of two numbers": np.stack([Y, y], axis=1), "a label": y.astype(int)}[kind]
    with pytest.raises(InvalidInput, match=r"y is constant in the (training|validation|test) split"):
        HeadCount(out=tmp_path / "out", max_heads=3).fit(X, y)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("out", ["a file", "a file/below", "/proc/nowhere"])
@pytest.mark.parametrize("asked", ["estimate", "sweep", "demo"])
def test_a_folder_that_cannot_be_is_named_in_one_line(asked, out, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    np.savez("fine.npz", x=X, y=Y)
    Path("spec.toml").write_text(EXAMPLE)
    Path("a file").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    given = {"estimate": ["fine.npz"], "sweep": ["spec.toml"], "demo": []}[asked]
    monkeypatch.setattr("sys.argv", ["headcount", asked, *given, "--out", out])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    told = capsys.readouterr().err
    assert ended.value.code == 2
    assert told.count("\n") == 1 and f"--out: expected a writable folder, got {out}: " in told
    assert "probe" not in told
    assert sorted(tmp_path.rglob("*")) == before and Path("a file").read_text() == "mine"


def test_an_estimate_is_written_over_by_nothing_else(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    np.savez("mine.npz", x=X, y=Y)
    np.savez("other.npz", x=X, y=-Y)
    Path("spec.toml").write_text(EXAMPLE)
    assert called(monkeypatch, "mine.npz", "--out", "out", "--max-heads", 3, "--no-positions") == 0
    written = {name: Path("out", name).read_bytes() for name in ("estimate.json", "report.html")}
    for arguments, line in (
        (["estimate", "other.npz", "--out", "out"], "estimate of other data ('mine.npz')"),
        (["report", "out"], "out: holds an estimate"),
        (["sweep", "spec.toml", "--out", "out"], "out: holds an estimate"),
    ):
        capsys.readouterr()
        monkeypatch.setattr("sys.argv", ["headcount", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        told = capsys.readouterr().err
        assert ended.value.code == 2 and told.count("\n") == 1 and line in told
        assert {name: Path("out", name).read_bytes() for name in written} == written


def test_a_study_goes_on_from_wherever_it_was_stopped(tmp_path):
    data = data_set(X, Y)
    asked = Study(data, Store(tmp_path / "one"), SMALL)
    stages = []
    while (stage := asked.next_stage()) is not None:
        stages.append(stage.name)
        for trial in stage.trials:  # one member at a time, a fresh look at the store after each
            for _ in run([trial], asked.store, keep_models=True):
                pass
            asked = Study(data, Store(tmp_path / "one"), SMALL)
    whole = HeadCount(out=tmp_path / "two", max_heads=3).fit(X, Y)
    assert list(dict.fromkeys(stages)) == [
        "Do positions help?",
        "A first look at all head counts",
        "A closer look",
    ]
    apart = [
        abs(a.value / b.value - 1)
        for a, b in zip(asked.estimate().errors, whole.estimate.errors, strict=True)
    ]
    assert max(apart) < 0.2


def test_before_d_is_told_one_head_less_fails_from_other_starts(tmp_path, monkeypatch):
    asked = started_again(tmp_path)
    three = Estimate(3, (3, 3), "retrieval", 3, {}, (), (), ())
    monkeypatch.setattr(study, "decide", lambda curve, **_: three)
    while (stage := asked.next_stage()) is not None:
        for _ in run(stage.trials, asked.store, keep_models=True):
            pass
    starts = {count: set() for count in (1, 2, 3)}
    for trial in asked._sweep().trials:
        starts[trial.architecture.heads].add(trial.seed)
    assert starts[2] == {0, 1}


def test_killed_between_weights_and_rows_it_trains_again(tmp_path):
    """Weights are written first; without its row a member is not finished."""
    stage = first_stage_trained(tmp_path)
    for shard in (tmp_path / "shards").iterdir():
        shard.unlink()
    assert started_again(tmp_path).next_stage() == stage
    assert first_stage_trained(tmp_path) == stage
    assert started_again(tmp_path).next_stage() != stage


@pytest.mark.parametrize("lost", ["test_outputs", "leaf_0"])
def test_a_file_that_lost_a_part_is_made_again(lost, tmp_path):
    stage = first_stage_trained(tmp_path)
    path = next((tmp_path / "models").iterdir())
    with np.load(path) as file:
        parts = {name: file[name] for name in file.files if name != lost}
    np.savez(path, **parts)
    assert started_again(tmp_path).next_stage() == stage
    assert first_stage_trained(tmp_path) == stage
    assert started_again(tmp_path).next_stage() != stage


def test_a_damaged_shard_is_trained_again_once(tmp_path):
    """The run sets the damaged one aside and writes another under its name."""
    stage = first_stage_trained(tmp_path)
    shard = next((tmp_path / "shards").iterdir())
    os.truncate(shard, 50)
    asked = started_again(tmp_path)
    assert asked.next_stage() == stage
    for _ in run(stage.trials, asked.store, keep_models=True):
        pass
    assert asked.next_stage() != stage


def test_a_stage_that_leaves_nothing_behind_is_not_asked_for_again(tmp_path):
    with pytest.raises(InvalidInput, match="cannot be read back"):
        list(started_again(tmp_path).stages())


def started_again(folder):
    return Study(data_set(X, Y), Store(folder), SMALL, positions=False)


def first_stage_trained(folder):
    asked = started_again(folder)
    stage = asked.next_stage()
    assert stage is not None
    for _ in run(stage.trials, asked.store, keep_models=True):
        pass
    assert asked.next_stage() != stage
    return stage


def test_the_library_needs_no_folder_and_refuses_nonsense():
    fitted = HeadCount(positions=False, max_heads=3).fit(X, Y)
    assert fitted.estimate.seconds > 0
    assert fitted.early.errors and fitted.estimate.errors
    for options in ({"max_heads": 2}, {"seed": -1}):
        with pytest.raises(InvalidInput):
            HeadCount(**options)


def test_a_task_and_a_function_are_asked_at_half_the_length_too():
    task = max_sum(dimension=2, token_dim=2)
    asked = HeadCount(positions=False, max_heads=3)
    found = asked.fit_task(task, length=6, samples=300).estimate.evidence["length"]
    assert found["lengths"] == [3, 6]
    assert [slope["heads"] for slope in found["slopes"]] == [1, 2, 3]
    assert all(slope["interval"][0] <= slope["slope"] <= slope["interval"][1] for slope in found["slopes"])
    same = asked.fit_target(
        task.target,
        lambda seed, samples, length: task.inputs(jax.random.key(seed), samples, length),
        length=6,
        samples=300,
    )
    assert same.estimate.evidence["length"] == found
    for wrong in ({"length": 3}, {"samples": 100}):
        with pytest.raises(InvalidInput):
            asked.fit_task(task, **wrong)
    with pytest.raises(InvalidInput, match="sampler"):
        asked.fit_target(task.target, lambda seed, samples, length: np.zeros((samples, 5, 2)))


def test_with_all_kinds_of_positions_in_one_program_the_helpful_kind_is_taken(tmp_path):
    x = RANDOM.normal(size=(600, 4, 1))
    data = data_set(x, x[:, 2, 0])  # what stands third
    asked = Study(data, Store(tmp_path), replace(SMALL, more_starts=()), thorough=True)
    sizes = []
    while (stage := asked.next_stage()) is not None:
        sizes.append(len(stage.trials))
        for _ in run(stage.trials, asked.store, keep_models=True):
            pass
    assert sizes == [6, 3]  # both kinds in the quick sweep, the one that helps in the sweep proper
    found = asked.estimate()
    assert [point.heads for point in found.errors] == [1, 2, 3]
    assert asked.looks(1)[0].positions == "both"
    assert found.errors[0].value < 0.5

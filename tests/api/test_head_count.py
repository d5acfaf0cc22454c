"""`HeadCount` by the conventions of scikit-learn."""

import contextlib
import io
import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.utils import estimator_checks
from sklearn.utils.validation import check_is_fitted

from headcount.api import head_count
from headcount.api.head_count import HeadCount, NotFittedError, not_fitted_error
from headcount.api.parameters import seed_of
from headcount.api.progress import FitProgress, is_interactive
from headcount.errors import DataWarning, InvalidInput, StorageError
from headcount.estimate.members import Stage
from headcount.results.store import read_results
from headcount.tasks.library import max_sum

pytestmark = pytest.mark.usefixtures("compiled_quickly")

X = np.random.default_rng(0).normal(size=(400, 4, 2))
Y = X.max(axis=1).sum(axis=1)
QUICK = {"positions": False, "max_heads": 3, "steps": 200}

# scikit-learn's checks that need no data. Those that fit do not apply: they pass two-dimensional X, where
# this estimator needs sequences [samples, length, token_dim], and fit some hundred times, each of which
# trains a dozen transformers. What they ask of a fitted estimator (pickling, unchanged parameters, results
# only after `fit`) is asked below with data of the right shape. Checks of predict, transform and score have
# nothing to call: an estimate of D predicts no y.
CHECKS = (
    estimator_checks.check_parameters_default_constructible,
    estimator_checks.check_no_attributes_set_in_init,
    estimator_checks.check_do_not_raise_errors_in_init_or_set_params,
    estimator_checks.check_get_params_invariance,
    estimator_checks.check_set_params,
    estimator_checks.check_estimator_cloneable,
    estimator_checks.check_estimator_repr,
    estimator_checks.check_estimators_unfitted,
)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory) -> HeadCount:
    out = tmp_path_factory.mktemp("kept") / "new"
    with contextlib.redirect_stderr(io.StringIO()) as printed:
        asked = HeadCount(**QUICK, out=out, verbose=True).fit(X, Y)
    read, *stages = printed.getvalue().splitlines()
    assert read.startswith("400 sequences") and len(set(stages)) == len(stages) >= 2
    assert stages[0].startswith("Stage 1 of at most 4: A first look at all head counts, because ")
    assert all(re.search(r", because .*; about .* left in all$", line) for line in stages)
    return asked


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_check_of_scikit_learn(check):
    check("HeadCount", HeadCount())


def test_parameters_are_stored_untouched_and_checked_in_fit():
    wrong = {
        "max_heads": (2, "many"),
        "steps": (150, 250),
        "d_model": (0, 64.0),
        "quick": ("very",),
        "minutes": (0, "5"),
        "random_state": (-1, "a"),
    }
    wrong |= {"positions": ("yes",), "verbose": ("loud",), "out": (3,)}
    for name, value in ((name, value) for name, values in wrong.items() for value in values):
        asked = HeadCount(**{name: value})
        assert asked.get_params()[name] is value
        with pytest.raises(InvalidInput, match=name):
            asked.fit(X, Y)
    with pytest.raises(InvalidInput, match=r"parameter: expected one of out, .*got 'heads'"):
        HeadCount().set_params(heads=3)
    with pytest.raises(TypeError, match="heads"):
        HeadCount(heads=3)


def test_results_before_fit_are_an_error_of_both_libraries():
    asked = HeadCount()
    for name in head_count.LEARNT:
        assert not hasattr(asked, name)
        with pytest.raises(NotFittedError, match=f"call fit before {name}") as raised:
            getattr(asked, name)
        for kind in (SklearnNotFittedError, ValueError, AttributeError):
            assert isinstance(raised.value, kind)
        assert type(pickle.loads(pickle.dumps(raised.value))).__name__ == "NotFittedError"
    for method, arguments in (("report", ("page.html",)), ("to_frame", ())):
        with pytest.raises(SklearnNotFittedError, match=f"call fit before {method}"):
            getattr(asked, method)(*arguments)
    with pytest.raises(SklearnNotFittedError):
        check_is_fitted(asked)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        asked.nothing  # noqa: B018


def test_without_scikit_learn_the_error_is_ours_alone(monkeypatch):
    monkeypatch.delitem(sys.modules, "sklearn.exceptions")
    assert type(not_fitted_error("not yet")) is NotFittedError
    code = "import sys, headcount; headcount.HeadCount; assert 'sklearn' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_learnt_values_are_those_of_the_estimate(fitted):
    check_is_fitted(fitted)
    found = fitted.estimate_
    for name in ("dimension", "interval", "recommended_heads"):
        assert getattr(fitted, f"{name}_") == getattr(found, name)
    assert found.seconds > 0 and found.errors and fitted.early_estimate_.errors
    assert "numbers" in fitted.read_as_ and "sequences of" in fitted.read_as_
    assert fitted.get_params() == {**HeadCount(**QUICK).get_params(), "out": fitted.out, "verbose": True}


def test_a_clone_is_not_fitted_and_a_pickle_is(fitted):
    fresh = clone(fitted)
    assert fresh.get_params() == fitted.get_params() and not hasattr(fresh, "dimension_")
    loaded = pickle.loads(pickle.dumps(fitted))
    assert loaded.estimate_ == fitted.estimate_ and repr(loaded) == repr(fitted)
    assert not hasattr(pickle.loads(pickle.dumps(fresh)), "estimate_")


def test_it_shows_what_was_set_and_what_was_found(fitted):
    assert repr(HeadCount(random_state=3)) == "HeadCount(random_state=3)"
    assert HeadCount(out=Path("<b>"))._repr_html_().count("&lt;b&gt;") == 1
    assert repr(fitted) == f"<HeadCount: {fitted.estimate_.sentence}>"
    page = fitted._repr_html_()
    assert "max_heads" not in page
    assert "<svg" in page and "http" not in page.replace("http://www.w3.org", "")


def test_its_folder_holds_what_the_command_line_writes(fitted, tmp_path):
    written = json.loads((fitted.out / "estimate.json").read_text())
    assert written["sentence"] == fitted.estimate_.sentence
    assert written["data"]["read_as"].startswith("400 sequences of 4 tokens")
    page = (fitted.out / "report.html").read_text()
    assert "HeadCount(out=" in page and "max_heads=3, steps=200, verbose=True).fit(x, y)" in page
    loaded = pickle.loads(pickle.dumps(fitted))
    assert loaded.report(tmp_path / "page.html").read_text() == page
    with pytest.raises(StorageError, match="cannot be written"):
        fitted.report(tmp_path)
    with pytest.raises(InvalidInput, match=r"^out: .* holds the estimate of other data \('data'\)"):
        clone(fitted).fit(X, -Y)


def test_a_budget_is_kept_and_marked(fitted, tmp_path):
    short = clone(fitted).set_params(minutes=1e-4, out=tmp_path / "out", verbose=False).fit(X, Y)
    assert (short.dimension_, short.interval_) == (None, None) and "the time was up" in repr(short)
    assert short.early_estimate_.verdict == "cannot tell" and short.to_frame().empty
    assert "the time was up" in short._repr_html_()
    with pytest.raises(InvalidInput, match="nothing to show yet"):
        short.report(tmp_path / "page.html")
    quick = clone(fitted).set_params(quick=True, verbose=False).fit(X, Y)
    assert quick.estimate_.budget.quick and "Trained quickly" in quick.estimate_.sentence


def test_members_are_rows_of_a_frame(fitted):
    frame = fitted.to_frame()
    assert set(frame["heads"]) == {1, 2, 3} and frame["trial"].is_unique
    frame["heads"] = 0
    assert (fitted.to_frame()["heads"] > 0).all()
    pd.testing.assert_frame_equal(fitted.to_frame(), read_results(fitted.out))


def test_old_names_work_and_warn(fitted):
    for old, new in (("most_heads", "max_heads"), ("seed", "random_state")):
        with pytest.warns(FutureWarning, match=f"{old}= is now {new}="):
            assert getattr(HeadCount(**{old: 5}), new) == 5
    for old, new in (("estimate", "estimate_"), ("early", "early_estimate_")):
        with pytest.warns(FutureWarning, match=new):
            assert getattr(fitted, old) is getattr(fitted, new)


def test_a_folder_is_resumed_and_damaged_files_are_warned_of(fitted):
    os.truncate(next((fitted.out / "shards").iterdir()), 50)
    with pytest.warns(UserWarning, match="damaged"):
        again = clone(fitted).set_params(verbose=False).fit(X, Y)
    assert again.dimension_ == fitted.dimension_


@pytest.mark.parametrize("out", ["afile", "afile/below", "/proc/nowhere"])
def test_a_folder_that_cannot_be_written_is_named_itself(out, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("afile").write_text("mine")
    with pytest.raises(InvalidInput, match=rf"^out: expected a writable folder, got {out}: "):
        HeadCount(**QUICK, out=out).fit(X, Y)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def in_one_split(split: int) -> np.ndarray:
    """Zeros, and a few ones that all fall into the training (0), validation (1) or test (2) split."""
    y, order = np.zeros(len(X)), np.random.default_rng(0).permutation(len(X))
    y[order[{0: slice(5), 1: slice(300, 305), 2: slice(-5, None)}[split]]] = 1
    return y


@pytest.mark.parametrize(
    "y",
    [in_one_split(0), np.stack([Y, in_one_split(1)], axis=1), in_one_split(2).astype(int)],
    ids=["a number", "the second of two numbers", "a label"],
)
def test_a_target_that_varies_in_one_split_alone_is_refused_before_anything_is_written(y, tmp_path):
    with pytest.raises(InvalidInput, match=r"got a constant in the (training|validation|test) split"):
        HeadCount(out=tmp_path / "out", max_heads=3).fit(X, y)
    assert not (tmp_path / "out").exists()


def test_how_data_was_read_is_shown_before_anything_trains(monkeypatch, capsys):
    def stop(*_, **__):
        raise InvalidInput("training begins")

    monkeypatch.setattr(head_count, "run", stop)
    with (
        pytest.raises(InvalidInput, match="begins"),
        pytest.warns(DataWarning, match='target="labels"') as doubts,
    ):
        HeadCount(verbose=True).fit({"X": X, "labels": (np.median(Y) < Y) + 0.0})
    assert doubts[0].filename == __file__
    assert capsys.readouterr().err.startswith("400 sequences of 4 tokens, 2 numbers each; y: numbers (if")
    frame = pd.DataFrame(X.reshape(-1, 2)).assign(series=np.repeat(range(400), 4), y=np.repeat(Y, 4))
    with pytest.raises(InvalidInput, match="begins"):
        HeadCount().fit(frame, "y", id="series")
    with pytest.raises(
        InvalidInput, match='id="COLUMN", the column that tells sequences apart, one of 0, 1, series'
    ):
        HeadCount().fit(frame, "y")


def test_random_states_are_those_of_numpy():
    assert seed_of(7) == 7 and len({seed_of(None) for _ in range(3)}) > 1
    for kind in (np.random.default_rng, np.random.RandomState):
        generator = kind(1)
        assert seed_of(generator) == seed_of(kind(1)) != seed_of(generator)


def test_progress_is_shown_where_somebody_watches(monkeypatch):
    hidden = FitProgress(SimpleNamespace(stage=None), shown=False)
    assert not is_interactive() and hidden.disable
    shell = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=1))
    monkeypatch.setitem(sys.modules, "IPython", shell)
    assert is_interactive()


def test_bars_say_why_a_stage_is_trained_and_how_long_all_takes(monkeypatch):
    countdown = SimpleNamespace(
        stage=Stage("A look", (), "it is the first"),
        title="Stage 1 of at most 2: A look",
        time_left="about 2 min left in all",
        best="validation error, share of the variance: 1.0e-1 at best",
        fraction=0.5,
        note=lambda event: None,
    )
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes standard error for a terminal
    with contextlib.redirect_stderr(io.StringIO()) as printed, FitProgress(countdown, shown=True) as progress:
        progress.begin()
        progress.note(None)
        progress.refresh()
    drawn = printed.getvalue()
    for text in (countdown.title, "50%", "about 2 min left in all: it is the first", countdown.best):
        assert text in drawn


def test_a_task_is_sampled_at_half_the_length_too():
    task = max_sum(dimension=2, token_dim=2)
    asked = HeadCount(**QUICK).fit_task(task, length=6, samples=300)
    found = asked.estimate_.evidence["length"]
    assert found["lengths"] == [3, 6]
    assert [slope["heads"] for slope in found["slopes"]] == [1, 2, 3]
    assert all(slope["interval"][0] <= slope["slope"] <= slope["interval"][1] for slope in found["slopes"])
    for wrong in ({"length": 3}, {"samples": 100}):
        with pytest.raises(InvalidInput):
            asked.fit_task(task, **wrong)
    with pytest.raises(InvalidInput, match="sampler"):
        asked.fit_target(task.target, lambda seed, samples, length: np.zeros((samples, 5, 2)))

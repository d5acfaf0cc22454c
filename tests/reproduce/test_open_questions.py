"""What the open items conclude from invented errors, and how their rows come into one file."""

from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from reproduce.invented import as_the_theory_says, invented_frame, invented_rows

from headcount.reproduce.item import ITEMS
from headcount.reproduce.recipe import FULL, QUICK
from headcount.results.store import Store
from headcount.trials.pack import Pack


@pytest.fixture
def questions(monkeypatch):
    """The benchmark that trains these items and merges their rows."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    import open_questions

    return open_questions


def growing_everywhere(trial):
    return as_the_theory_says(trial) * trial.length


def verdicts(name, error):
    item = ITEMS[name]
    found = item.judge(item.rows(invented_frame(item.trials(QUICK), error), QUICK))
    return [verdict for verdict in found if "with T" in verdict.claim]


@pytest.mark.parametrize("name", ["bounded", "layer_norm"])
def test_growth_is_judged_by_which_side_of_the_dimension_it_is_on(name):
    for verdict in verdicts(name, growing_everywhere):
        assert verdict.holds is ("does not grow" not in verdict.claim), verdict
    for verdict in verdicts(name, as_the_theory_says):
        assert verdict.holds is (None if "does not grow" in verdict.claim else True), verdict


def test_a_transition_elsewhere_is_not_the_one_at_the_dimension():
    item = ITEMS["layer_norm"]

    def one_head_later(trial):
        return 1e-2 if trial.architecture.heads * trial.architecture.layers <= 3 else 1e-7

    found = item.judge(item.rows(invented_frame(item.trials(QUICK), one_head_later), QUICK))
    falls = {verdict.claim: verdict.holds for verdict in found if "falls most" in verdict.claim}
    assert [holds for claim, holds in falls.items() if "L = 1" in claim] == [False, False]
    assert [holds for claim, holds in falls.items() if "L = 2" in claim] == [True, True]


def test_a_wide_head_is_compared_with_enough_heads_by_an_interval():
    item = ITEMS["deep_readout"]

    def worse(times):
        def error(trial):
            wide = trial.architecture.heads == 1 and len(trial.architecture.readout_hidden) == 4
            return (times if wide else 1) * 1e-4 * (1 + 0.01 * trial.seed)

        return item.rows(invented_frame(item.trials(FULL), error), FULL)

    for times, holds in ((2, True), (10, None), (500, False)):
        deep = [verdict for verdict in item.judge(worse(times)) if "four hidden" in verdict.claim]
        assert [verdict.holds for verdict in deep] == [holds, holds], deep
        assert all(f"{times} (" in verdict.evidence for verdict in deep)
    assert {verdict.holds for verdict in item.judge(worse(1).query("seed == 0"))} == {None}


def test_exponents_are_judged_on_each_kind_of_data():
    """Errors that fall with N on training data and not on test data."""
    item = ITEMS["figure4_data"]
    frame = invented_frame(item.trials(QUICK))
    flat = frame["train_error"] * (frame["hidden"] / 32) ** 0.5
    found = item.judge(item.rows(frame.assign(test_error=flat), QUICK))
    claims = {verdict.claim: verdict.holds for verdict in found}
    for heads in (1, 2, 3):
        assert claims[f"on training data, with h = {heads} the error falls as N grows, at every T"]
        assert claims[f"on test data, with h = {heads} the error falls as N grows, at every T"] is None
    assert all("over seeds" in verdict.evidence for verdict in found if "falls as N" in verdict.claim)
    assert {trial.training.train_samples for trial in item.trials(FULL)} == {128_000}
    assert len({trial.learning_rate for trial in item.trials(FULL)}) == 3


def test_growth_on_bowls_is_compared_across_the_dimension():
    item = ITEMS["bowls"]

    def power(trial, *, enough):
        noise = 1 + 0.02 * trial.seed
        return noise * 1e-7 * trial.length ** (enough if trial.architecture.heads >= 4 else 1.5)

    for enough, holds in ((0.5, True), (2.5, False)):
        frame = invented_frame(item.trials(FULL), partial(power, enough=enough))
        found = [v for v in item.judge(item.rows(frame, FULL)) if "more slowly" in v.claim]
        assert len(found) == 4 and {verdict.holds for verdict in found} == {holds}


def test_variants_of_the_readout_are_bounded_and_of_their_depth():
    item = ITEMS["bounded"]
    named = item.named(FULL)
    shapes = {name: {trial.architecture for trial in trials} for name, trials in named.items()}
    assert {len(shape.readout_hidden) for shape in shapes["five-layer relu"]} == {4}
    assert {shape.readout_activation for shape in shapes["step"]} == {"step"}
    assert all(shape.bounded for name in shapes if name != "free" for shape in shapes[name])
    without = item.judge(item.rows(invented_frame(named["relu"]), FULL))
    assert {verdict.holds for verdict in without if "step" in verdict.claim} == {None}


@pytest.mark.parametrize("part", ["0/2", "3/2", "1", "a/b", "1/0"])
def test_a_part_that_is_none_is_refused(part, questions, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["open_questions.py", "--train", "nowhere", "--part", part])
    with pytest.raises(SystemExit) as ended:
        questions.main()
    assert ended.value.code == 2
    assert f"expected K/N with 1 <= K <= N, got {part!r}" in capsys.readouterr().err


def test_parts_are_all_of_the_packs_whatever_is_known_already(questions, tmp_path, monkeypatch):
    every = questions.missing(("layer_norm",), None, quick=True)
    parts = [questions.missing(("layer_norm",), f"{place}/3", quick=True) for place in (1, 2, 3)]
    assert sorted(trial.id for part in parts for trial in part) == sorted(trial.id for trial in every)
    monkeypatch.setattr(questions, "PATH", tmp_path / "known.parquet")
    assert not questions.missing((), None, quick=True)
    known = {trial.id for trial in ITEMS["layer_norm"].trials(QUICK)} - {trial.id for trial in every}
    first = {trial.id for trial in questions.missing(("layer_norm",), "1/3", quick=True)}
    assert {trial.id for trial in parts[0]} == first - known, "known rows leave the parts as they are"


def test_rows_of_a_folder_are_added_to_the_file(questions, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(questions, "PATH", tmp_path / "rows.parquet")
    trials = ITEMS["deep_readout"].trials(QUICK)
    for place, some in enumerate((trials[:5], trials[3:9])):
        store = Store(tmp_path / f"part-{place}")
        with store.writing():
            store.prepare()
            store.write(Pack(some, some[0].architecture), invented_rows(some))
        questions.write([store.folder])
    assert set(pd.read_parquet(questions.PATH)["trial"]) == {trial.id for trial in trials[:9]}
    assert "deep_readout, quick run: 9 of 24 members" in capsys.readouterr().out
    assert len(questions.missing(("deep_readout",), None, quick=True)) == len(trials) - 9


def test_the_page_follows_from_whatever_rows_there_are(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "docs")
    import quoted_open

    monkeypatch.setattr(quoted_open, "RESULTS", tmp_path)

    def page(*frames):
        pd.concat(frames).drop_duplicates("trial").to_parquet(tmp_path / "open_questions.parquet")
        quoted_open._rows.cache_clear()
        return quoted_open.open_in_short().splitlines()[2:]

    item = ITEMS["layer_norm"]
    quick, full = (invented_frame(item.trials(recipe)) for recipe in (QUICK, FULL))
    one_later = invented_frame(item.trials(FULL), lambda t: 1e-7 if t.architecture.heads > 3 else 1e-2)
    claim = "| one layer with layer norm: the error falls most at h = D |"
    assert f"| ✓ {claim} 1 of 1 | quick |" in page(quick, full[:-1])
    assert "Of the full run 559 of 560 members are trained." in quoted_open.cells_of_open("layer_norm")
    assert f"| ✓ {claim} 1 of 1 | full |" in page(quick, full)
    assert quoted_open.cells_of_open("layer_norm").startswith("(560 of 560 members of the full run")
    assert f"| ✗ {claim} 0 of 1 | full |" in page(quick, one_later)
    assert sum(line.endswith("| not trained yet | – |") for line in page(quick)) == 15
    quoted_open._rows.cache_clear()

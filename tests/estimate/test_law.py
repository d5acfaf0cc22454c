"""The law of distances from results files: its verdict recomputed, and its weights fitted again."""

import json
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from believable_curves import curve_of, sweep
from scipy.special import expit

from headcount.estimate.verdict import EARLY, FINAL, Measures


@pytest.fixture
def benchmarks(monkeypatch):
    """The modules that record measures and fit the law to them."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    import fit_law
    import law_measures

    return law_measures, fit_law


def as_read(found):
    return json.loads(json.dumps(found, allow_nan=False))


@pytest.mark.parametrize("law", [EARLY, FINAL], ids=["early", "final"])
@pytest.mark.parametrize("dimension", [1, 2, 4])
@pytest.mark.parametrize("sharpness", [1e-3, 0.3])
def test_a_recorded_curve_has_the_same_probabilities_as_the_curve_itself(
    benchmarks, law, dimension, sharpness
):
    law_measures, fit_law = benchmarks
    curve = sweep(dimension, sharpness=sharpness)
    row = {"name": "", "family": "", "true": dimension, "law": {"look": law_measures.recorded(curve, law)}}
    task = fit_law.Judged.of(as_read(row), "look")
    assert task.probabilities(law) == task.recorded == law.probabilities(curve)
    before = Measures.of(curve)
    for field in fields(Measures):
        assert np.array_equal(getattr(task.measures, field.name), getattr(before, field.name))


def test_one_head_count_has_no_measures_and_no_margin(benchmarks):
    law_measures, _ = benchmarks
    found = law_measures.recorded(curve_of(sweep(1, heads=(1,)).tried), FINAL)
    assert found is None and law_measures.margin(1, found) is None


def test_the_margin_is_that_of_the_reported_dimension_even_where_another_is_likelier(benchmarks):
    law_measures, _ = benchmarks
    found = {"probabilities": {"1": 0.1, "2": 0.7, "3": 0.2}}
    assert law_measures.margin(2, found) == {"probability": 0.7, "next": 3, "probability_of_next": 0.2}
    assert law_measures.margin(3, found) == {"probability": 0.2, "next": 2, "probability_of_next": 0.7}
    assert law_measures.margin(None, found) is None


def invented(fit_law, law, count):
    """Tasks of two head counts, in which a law says how often one is not enough."""
    random, no = np.random.default_rng(0), np.zeros(1, bool)
    for place in range(count):
        out, level, rest = random.uniform(0, 4, 1), random.uniform(-2, 3, 1), random.uniform(-3, 0, 1)
        size = (law.level * level + law.rest * rest) * np.minimum(out / 2, 1)
        enough = random.random() >= expit(law.constant + law.excess * out + size)[0]
        measures = Measures(out, level, rest, no, no)
        yield fit_law.Judged(str(place), f"family {place % 3}", 2 - int(enough), (1, 2), measures, {})


def test_the_fit_recovers_the_weights_that_the_rows_were_drawn_by(benchmarks):
    _, fit_law = benchmarks
    law = replace(FINAL, constant=-2.0, excess=1.0, level=1.5, rest=0.7, falls=False)
    found = fit_law.fitted(list(invented(fit_law, law, 5_000)))
    assert list(fit_law.weights_of(found).values()) == pytest.approx([-2.0, 1.0, 1.5, 0.7], abs=0.2)


def test_weights_stay_finite_where_they_separate_all_tasks_and_no_measure_counts_against_more_heads(
    benchmarks,
):
    _, fit_law = benchmarks
    law = replace(FINAL, constant=-200.0, excess=100.0, level=0.0, rest=0.0, falls=False)
    found = fit_law.weights_of(fit_law.fitted(list(invented(fit_law, law, 100))))
    assert all(abs(weight) < 30 for weight in found.values())
    assert min(found["excess"], found["level"], found["rest"]) >= 0


def test_the_fit_says_what_to_run_where_there_are_no_measures(benchmarks, monkeypatch, tmp_path, capsys):
    _, fit_law = benchmarks
    monkeypatch.setattr(fit_law, "RESULTS", tmp_path)
    monkeypatch.setattr("sys.argv", ["fit_law.py"])
    for content, given in ((None, "no such file"), ({"tasks": [{"name": "old"}]}, "rows without them")):
        if content:
            (tmp_path / "dimension-calibration.json").write_text(json.dumps(content))
        with pytest.raises(SystemExit) as exit_:
            fit_law.main()
        said = capsys.readouterr().err
        assert exit_.value.code == 2 and said.count("\n") == 1
        assert given in said and "dimension.py --calibration" in said


def test_the_file_holds_the_weights_and_scores_of_both_laws(benchmarks, monkeypatch, tmp_path, capsys):
    law_measures, fit_law = benchmarks
    monkeypatch.setattr(fit_law, "RESULTS", tmp_path)
    monkeypatch.setattr(fit_law, "RESAMPLES", 3)
    monkeypatch.setattr("sys.argv", ["fit_law.py"])
    rows = [
        {
            **{"name": f"{family} {dimension}", "family": family, "true": dimension},
            "law": {look: law_measures.recorded(sweep(dimension, noise=noise), law) for look, law in looks},
        }
        for family, noise in (("clean", 0.0), ("noisy", 0.05))
        for dimension in (1, 2, 3)
        for looks in [(("final", FINAL), ("early", EARLY))]
    ]
    rows.append({"name": "noise", "family": "noisy", "true": 0, "law": {"final": None, "early": None}})
    results = {"machine": "one", "versions": "two", "tasks": rows}
    (tmp_path / "dimension-calibration.json").write_text(json.dumps(results))
    fit_law.main()
    found = json.loads((tmp_path / "law.json").read_text())["laws"]["final"]
    assert found["calibration"]["fitted"]["exact"] == found["calibration"]["in_use"]["exact"] == 6
    assert found["as_recorded"] == found["calibration"]["left_out"]["tasks"] == 6
    assert set(found["families"]) == {"clean", "noisy"} and found["reported"] is None
    assert "recorded probabilities are those of the law in use: 6 of 6" in capsys.readouterr().out

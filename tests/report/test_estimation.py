"""The page of an estimate: what its charts and sentences hold."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from believable_estimate import believable_estimate, write_believable_page

from headcount.report.attention_chart import attention_chart
from headcount.report.deciding_chart import HOLLOW, OF_LABELS, OF_NUMBERS, deciding_chart
from headcount.report.estimation import points, tokens_beside_dimension
from headcount.report.salience_chart import salience_chart


def rows_of(found):
    return max(deciding_chart(found).to_dict()["datasets"].values(), key=len)


def test_every_head_count_stands_in_the_chart_and_in_the_table_and_hollow_where_not_in_full():
    found, _ = believable_estimate()
    assert {row["heads"] for row in rows_of(found)} == set(range(1, 9))
    assert {row["heads"] for row in rows_of(found) if not row["full"]} == {5, 6}
    table = points(found)
    assert [row["heads"] for row in table] == list(range(1, 9))
    assert [row["heads"] for row in table if row["error"] is None] == [5, 6]
    assert [row["heads"] for row in table if row["dimension"]] == [3]


def test_heads_stand_at_their_true_distances():
    chart = json.dumps(deciding_chart(believable_estimate()[0]).to_dict())
    assert '"type": "quantitative"' in chart and '"ordinal"' not in chart and HOLLOW in chart
    everything = deciding_chart(believable_estimate(in_full=range(1, 9))[0])
    assert HOLLOW not in json.dumps(everything.to_dict())


@pytest.mark.parametrize(("labels", "title"), [(False, OF_NUMBERS), (True, OF_LABELS)])
def test_the_axis_is_named_for_what_is_measured(labels, title):
    chart = json.dumps(deciding_chart(believable_estimate(labels=labels)[0]).to_dict())
    assert title in chart and ({OF_NUMBERS, OF_LABELS} - {title}).pop() not in chart


def test_curves_that_were_never_trained_make_no_broken_chart():
    nothing = replace(
        believable_estimate()[0], errors=(), distances=(), early_errors=(), early_distances=(), dimension=None
    )
    json.dumps(deciding_chart(nothing).to_dict(), allow_nan=False)
    assert points(nothing) == []


def test_the_page_says_how_the_data_was_read_what_to_type_and_what_decides(tmp_path):
    found = write_believable_page(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    body = re.sub(r"\s+", " ", re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL))
    said = ("read as 300 sequences of 16 tokens", "end in 0", found.deciding, "num_heads=4", "d_model=512")
    for text in said:
        assert text in body
    assert not re.search(r"\de-0\d", body), "one form of numbers"
    assert "log loss" not in body.lower()


def test_labels_have_a_column_of_accuracies(tmp_path):
    write_believable_page(tmp_path / "page.html", labels=True)
    page = (tmp_path / "page.html").read_text()
    assert "accuracy" in page and page.count("90.0%") == 6


SEEN = {"tokens": 4, "fits_well_enough": True, "share_of_tokens": 0.25}


@pytest.mark.parametrize(
    ("seen", "changes", "why"),
    [
        ({"tokens": 3}, {}, None),
        ({}, {"dimension": None, "interval": None}, None),
        ({}, {"interval": (3, 4)}, "one head may weigh two tokens of a sequence; the interval holds both"),
        ({}, {"interval": (3, 3)}, "one head may weigh two tokens of a sequence."),
        ({"tokens": 1}, {}, "Up to 1 token matters"),
        ({"tokens": 2}, {"interval": (2, 3)}, "at one token; the interval holds both"),
        ({"tokens": 12, "share_of_tokens": 0.9}, {}, "averages"),
        ({"fits_well_enough": False}, {}, "fits too loosely"),
        ({}, {"labels": True}, "probability of a label"),
    ],
)
def test_tokens_that_matter_are_reconciled_with_d_where_they_differ(seen, changes, why):
    found = replace(believable_estimate()[0], evidence={"salience": {**SEEN, **seen}}, **changes)
    said = tokens_beside_dimension(found)
    assert said == "" if why is None else why in said


def test_the_number_of_tokens_has_its_place_whether_any_sequence_has_it_or_not():
    chart = salience_chart(np.array([1, 1, 6]), dimension=3).to_dict()
    assert chart["layer"][0]["encoding"]["x"]["scale"]["domain"] == [1, 2, 3, 4, 5, 6]


def test_a_map_holds_every_weight():
    weights = np.random.default_rng(0).dirichlet(np.ones(100), size=2)
    chart = attention_chart(weights, name="one").to_dict()
    (rows,) = chart["datasets"].values()
    assert len(rows) == 200 and len(chart["encoding"]["x"]["axis"]["values"]) <= 8

"""The page of an inspection, from made-up files."""

import json
import re
from functools import partial

import pytest
from believable_inspection import FULL, HEADS, LAYERS, TOLERANCE, believable_inspection, rise
from hypothesis import given
from hypothesis import strategies as st

from headcount.errors import InvalidInput
from headcount.report.inspected import Rise, read
from headcount.report.inspection import key_numbers, maps, render_inspection
from headcount.report.inspection_charts import layer_charts, whole_chart
from headcount.report.loss_panel import Losses
from headcount.report.recovery_chart import recovery_chart
from headcount.report.rendering import save_chart

small = partial(believable_inspection, layers=4, heads=6)
HEADINGS = ["Loss against heads", "Each layer alone", "Which heads stay", "Layer by layer", "How to go on"]
MORE = ["Fewer key-value heads", "Costs, before and after", "What one head fewer cannot tell apart"]


def page_of(inspection, plan):
    return render_inspection(inspection, plan, plan_file="inspect/plan.json")


def headings(page):
    return re.findall(r'<h2 id="[^"]+">([^<]+)</h2>', page)


def rows_of(drawn, field):
    """The rows of a chart that have this field."""
    return [row for rows in drawn.to_dict()["datasets"].values() for row in rows if field in row]


def test_the_page_says_the_sentence_and_the_command_and_has_every_part_in_order():
    inspection, plan = small(entries=FULL, grouped={"kv_heads": 3})
    page = page_of(inspection, plan)
    assert f'<p class="finding">{inspection["sentence"]}</p>' in page
    assert "<code>headcount shrink inspect/plan.json --out small</code>" in page
    assert "The plan can go down to 3 a layer." in page
    assert headings(page) == [*HEADINGS[:-1], *MORE, HEADINGS[-1], "How it was computed"]


def test_parts_that_were_not_measured_are_left_out():
    inspection, plan = small()
    assert headings(page_of(inspection, plan)) == [*HEADINGS, "How it was computed"]
    del inspection["curves"]["alone"]
    assert "Each layer alone" not in page_of(inspection, plan)


def test_what_distillation_wins_back_is_shown_beside_what_was_lost():
    inspection, plan = small()
    inspection["free"]["recovered"] = rise(0.012)
    assert "Before and after distillation" in headings(page_of(inspection, plan))
    bars = rows_of(recovery_chart(read(inspection, plan)[0]), "what")
    assert [(row["which"], row["rise"]) for row in bars] == [
        ("free, refitted", inspection["free"]["reported"]["mean"]),
        ("free, distilled", 0.012),
    ]


def test_an_interval_of_heads_that_stay_is_told_as_heads_that_can_go():
    inspection, plan = small()
    inspection["free"]["interval"] = [inspection["free"]["heads"] - 1, inspection["free"]["heads"] + 2]
    found, _ = read(inspection, plan)
    gone = found.heads - found.free.heads
    assert key_numbers(found)[0][1] == f"{gone} of {found.heads} [{gone - 2}, {gone + 1}]"


def test_texts_of_samples_are_escaped_and_images_are_shown():
    picture = {**FULL["collisions"][0], "first": "data:image/png;base64,AAAA", "second": "<script>"}
    inspection, plan = small(entries={"collisions": [FULL["collisions"][0], picture]})
    page = page_of(inspection, plan)
    assert "is &lt;b&gt;aspirin&lt;/b&gt; safe" in page and "<b>aspirin" not in page
    assert '<img src="data:image/png;base64,AAAA"' in page and "<blockquote>&lt;script&gt;" in page
    assert "Layer 3 with 5 heads" in page


def test_the_chart_of_the_model_has_both_solutions_their_ends_and_the_baselines():
    found, _ = read(*believable_inspection(entries=FULL))
    drawn = whole_chart(found)
    marks = [row for row in rows_of(drawn, "which") if row["heads"] == found.free.heads]
    assert {"free"} <= {row["which"] for row in marks}
    reported = {row["rise"] for row in marks if row["which"] == "free"}
    assert found.free.reported.mean in reported
    names = {each["name"] for each in FULL["baselines"]}
    assert {row["which"] for row in rows_of(drawn, "which")} == {"free", "uniform", *names}
    assert {row["tolerance"] for row in rows_of(drawn, "tolerance")} == {TOLERANCE}


def test_a_point_that_the_upper_bound_forbids_is_hollow_although_its_mean_is_inside():
    losses = Losses.of([], 0.05, most=3, ticks=3)
    assert losses.point("", 4, Rise(mean=0.04, low=0.03, high=0.05)).inside
    assert not losses.point("", 4, Rise(mean=0.04, low=0.02, high=0.06)).inside


FINITE = st.floats(-1e6, 1e6)


@given(st.lists(st.tuples(FINITE, FINITE, FINITE).map(sorted), max_size=5), st.floats(1e-9, 1e6))
def test_the_tolerance_and_every_mark_are_on_the_axis(triples, tolerance):
    rises = [Rise(low=low, mean=mean, high=high) for low, mean, high in triples]
    losses = Losses.of(rises, tolerance, most=3, ticks=3)
    assert losses.low <= 0 < tolerance < losses.high <= 3 * tolerance
    for each in rises:
        point = losses.point("", 1, each)
        assert losses.low <= point.shown <= losses.high
        assert point.beyond == (each.mean > losses.high)


def test_there_is_a_chart_for_each_layer_all_on_the_same_axis():
    found, _ = read(*believable_inspection())
    charts = list(layer_charts(found))
    assert len(charts) == LAYERS
    domains = {
        json.dumps(layer["encoding"]["y"]["scale"]["domain"])
        for chart in charts
        for layer in chart.to_dict()["layer"]
        if "scale" in layer["encoding"].get("y", {})
    }
    assert len(domains) == 1
    for chart, layer in zip(charts, found.layers, strict=True):
        assert f"[{layer.low}, {layer.high}]" in chart.to_dict()["description"]


def test_the_map_has_a_cell_for_every_head_and_fills_those_of_the_plan():
    inspection, plan = believable_inspection()
    _, planned = read(inspection, plan)
    for drawn, name in zip(maps(planned), ("free", "uniform"), strict=True):
        cells = {(row["layer"], row["head"]): row["kept"] for row in rows_of(drawn, "left")}
        assert len(cells) == LAYERS * HEADS
        kept = {(layer, head) for layer, heads in enumerate(plan[name]["kept"]) for head in heads}
        assert {place for place, is_kept in cells.items() if is_kept} == kept


def test_heads_that_are_to_share_a_key_value_head_have_a_map_of_their_own():
    groups = [[[0, 3], [1, 2]]] * 2
    files = believable_inspection(layers=2, heads=4, grouped={"kv_heads": 2, "groups": groups})
    *_, drawn = maps(read(*files)[1])
    assert {(row["head"], row["group"]) for row in rows_of(drawn, "left")} == {(0, 0), (3, 0), (1, 1), (2, 1)}


def test_heads_of_one_key_value_head_stand_close():
    *_, drawn = maps(read(*believable_inspection(layers=1, heads=4, kv_heads=2))[1])
    ends = {row["head"]: (row["left"], row["right"]) for row in rows_of(drawn, "left")}
    assert ends[1][0] - ends[0][1] < ends[2][0] - ends[1][1]


def whole_kept(*, low):
    """An inspection that removes nothing: the first step fails, and `low` is its lower bound."""
    inspection, plan = believable_inspection(layers=2, heads=4)
    none, fails = rise(0.0, floor=0.0), {"mean": 0.06, "low": low, "high": 0.1, "samples": 9}
    for name in ("free", "uniform"):
        inspection[name] |= {"heads": 8, "judged": none, "reported": none}
        inspection["curves"][name] = [{"heads": 8, "judged": none}, {"heads": 7, "judged": fails}]
        plan[name]["kept"] = [list(range(4))] * 2
    return inspection, plan


def test_noise_is_told_from_heads_that_are_needed():
    for low, said in ((-0.1, "cannot tell"), (0.01, "0 of 8")):
        found, _ = read(*whole_kept(low=low))
        assert [value for _, value, _ in key_numbers(found)[:2]] == [said, said]


def test_nothing_is_to_be_shrunk_where_all_heads_stay():
    page = page_of(*whole_kept(low=0.01))
    assert "headcount shrink" not in page and "The plan keeps all heads" in page


def test_an_edited_plan_is_shown_as_it_is_and_named():
    inspection, plan = small()
    assert "<b>Edited</b>" not in page_of(inspection, plan)
    plan["free"]["kept"][0] = [0]
    assert "<b>Edited</b>" in page_of(inspection, plan)


@pytest.mark.parametrize("ending", ["svg", "png", "html"])
def test_a_chart_can_be_a_file(ending, tmp_path):
    found, planned = read(*believable_inspection(layers=2, heads=4, entries=FULL))
    chart = {"svg": whole_chart(found), "png": next(layer_charts(found)), "html": next(maps(planned))}[ending]
    save_chart(chart, tmp_path / f"chart.{ending}", width=400)
    content = (tmp_path / f"chart.{ending}").read_bytes()
    begins = {"svg": b"<svg", "png": b"\x89PNG", "html": b"<!DOCTYPE html>"}[ending]
    assert content.lstrip().startswith(begins) and len(content) > 1000


def set_at(content, path, value):
    *way, last = path
    for key in way:
        content = content[key]
    content[last] = value


@pytest.mark.parametrize(
    ("file", "path", "value", "said"),
    [
        (0, ("tolerance",), 0, "inspect.json: tolerance: "),
        (0, ("sentence",), None, "inspect.json: sentence: "),
        (0, ("layers", 1, "rise"), float("nan"), "inspect.json: layers.1.rise: "),
        (0, ("curves", "alone"), [[]], "inspect.json: expected curves for 4 layers, got 1"),
        (0, ("layers", 0, "heads"), 5, "plan.json: expected layers of [5, 6, "),
        (0, ("gains",), {"rows": [["parameters"]]}, "inspect.json: gains.rows.0"),
        (1, ("free",), {}, "plan.json: free.kept: "),
        (1, ("uniform", "kept"), [[0]], "plan.json: expected heads for 4 layers, got 1"),
    ],
)
def test_damaged_files_are_one_line(file, path, value, said):
    files = small()
    set_at(files[file], path, value)
    with pytest.raises(InvalidInput) as refusal:
        page_of(*files)
    assert str(refusal.value).startswith(said) and "\n" not in str(refusal.value)


@pytest.fixture
def folder(tmp_path):
    inspection, plan = believable_inspection(layers=2, heads=4)
    (tmp_path / "inspect.json").write_text(json.dumps(inspection))
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    return tmp_path


def test_headcount_report_makes_the_page_of_an_inspection_again(folder, called, capsys):
    assert called("report", folder) == 0
    printed = capsys.readouterr().out
    assert "heads can go" in printed and str(folder / "report.html") in printed
    assert f"headcount shrink {folder}/plan.json" in (folder / "report.html").read_text()


def test_headcount_report_on_an_inspection_as_json(folder, called, capsys):
    assert called("report", folder, "--json") == 0
    assert json.loads(capsys.readouterr().out)["page"] == str(folder / "report.html")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"tolerance": NaN}'])
def test_headcount_report_refuses_a_damaged_inspection_in_one_line(content, folder, called, capsys):
    (folder / "inspect.json").write_text(content)
    assert called("report", folder) == 2
    printed = capsys.readouterr().err
    assert "inspect.json" in printed and "Traceback" not in printed
    assert len([line for line in printed.splitlines() if line.startswith("headcount: error: ")]) == 1
    assert not (folder / "report.html").exists()

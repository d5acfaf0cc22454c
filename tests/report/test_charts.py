import json
import re

import pytest
import vl_convert
from believable import ODD_FRAMES, believable_frame, diverge, in_cell, with_error

from headcount.errors import InvalidInput
from headcount.report.page import error_against_length, heat_map
from headcount.report.rendering import save_chart


def svg(chart) -> str:
    return vl_convert.vegalite_to_svg(chart.properties(width=600).to_dict())


def rows(chart, name: str):
    return chart.to_dict()["datasets"][name]


def marks(picture: str, kind: str) -> int:
    return len(re.findall(f'aria-roledescription="{kind}"', picture))


@pytest.mark.parametrize("frame", ODD_FRAMES.values(), ids=ODD_FRAMES)
def test_every_frame_gives_two_pictures_with_strict_json(frame):
    for chart in (error_against_length(frame), heat_map(frame)):
        json.dumps(chart.to_dict(), allow_nan=False)
        picture = svg(chart)
        assert picture.startswith("<svg") and "NaN" not in picture
    written = [row["written"] for row in rows(heat_map(frame), "cells")]
    assert len(written) == len(frame.groupby(["heads", "length"]))
    assert all(re.fullmatch(r"\d\.\de[+-]\d+|0|×", label) for label in written)


@pytest.mark.parametrize("name", ["usual", "one number of heads", "sixteen heads, many seeds"])
def test_there_is_one_line_per_number_of_heads(name):
    picture = svg(error_against_length(ODD_FRAMES[name]))
    assert marks(picture, "line mark") == ODD_FRAMES[name]["heads"].nunique()


def test_ticks_stand_exactly_at_the_lengths():
    x = error_against_length(believable_frame(lengths=(10, 37, 100))).to_dict()["layer"][0]["encoding"]["x"]
    assert x["axis"]["values"] == [10, 37, 100]
    assert x["scale"]["base"] == 2


def test_a_member_without_an_error_is_on_no_axis():
    usual = believable_frame()
    chart = error_against_length(diverge(usual, in_cell(usual, heads=3, length=32)))
    assert not [row for row in rows(chart, "members") if (row["heads"], row["length"]) == (3, 32)]
    (cross,) = rows(chart, "lost")
    assert "shown" not in cross
    assert cross["diverged"] == "6 of 6 members"
    assert cross["learning_rates"] == "0.001, 0.01"


def test_a_member_that_diverged_late_is_a_cross_at_its_own_error():
    drawn = rows(error_against_length(ODD_FRAMES["diverged after an error"]), "members")
    assert {(row["shown"], row["mark"]) for row in drawn if row["status"] == "diverged"} == {
        (3.0, "diverged")
    }


def test_a_line_breaks_where_every_member_failed():
    usual = believable_frame(seeds=2)
    chart = error_against_length(diverge(usual, in_cell(usual, heads=3, length=32)))
    gaps = [(row["heads"], row["length"]) for row in rows(chart, "paths") if row["shown"] is None]
    assert gaps == [(3, 32)]


def test_zero_keeps_its_value_and_has_a_mark_of_its_own():
    usual = believable_frame()
    drawn = rows(error_against_length(with_error(usual, usual["heads"] == 6, 0.0)), "selected")
    assert {(row["mark"], row["test_error"]) for row in drawn if row["heads"] == 6} == {("zero", 0.0)}


def test_lines_are_dashed_below_the_dimension_and_only_there():
    lines = error_against_length(believable_frame(dimension=4)).to_dict()["layer"][0]
    scale = lines["encoding"]["strokeDash"]["scale"]
    dashed = {heads for heads, dash in zip(scale["domain"], scale["range"], strict=True) if dash != [1, 0]}
    assert dashed == {1, 2, 3}


def test_the_dimension_is_named_in_the_legend():
    assert "4 = D" in svg(error_against_length(ODD_FRAMES["usual"]))
    assert "= D" not in svg(error_against_length(ODD_FRAMES["dimension not known"]))


def test_more_members_than_altair_takes_by_default():
    frame = believable_frame(heads=range(1, 17), seeds=32)
    assert len(frame) > 5000
    assert len(rows(error_against_length(frame), "members")) == len(frame)


def test_the_same_frame_gives_the_same_chart_and_is_not_changed():
    frame = believable_frame()
    before = frame.copy()
    assert error_against_length(frame).to_dict() == error_against_length(frame).to_dict()
    assert frame.equals(before)


@pytest.mark.parametrize(("ending", "start"), [(".svg", b"<svg"), (".png", b"\x89PNG")])
def test_a_chart_is_saved_as_a_picture(tmp_path, ending, start):
    path = tmp_path / f"plot{ending}"
    save_chart(error_against_length(believable_frame(seeds=1)), path)
    assert path.read_bytes().startswith(start)


def test_a_picture_of_another_kind_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"\.svg, \.png or \.html, got .plot\.gif"):
        save_chart(heat_map(believable_frame(seeds=1)), tmp_path / "plot.gif")

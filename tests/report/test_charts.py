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


@pytest.mark.parametrize("frame", ODD_FRAMES.values(), ids=ODD_FRAMES)
def test_every_frame_gives_two_pictures_with_strict_json(frame):
    before = frame.copy()
    for draw in (error_against_length, heat_map):
        assert draw(frame).to_dict() == draw(frame).to_dict() and frame.equals(before)
        json.dumps(draw(frame).to_dict(), allow_nan=False)
        picture = svg(draw(frame))
        assert picture.startswith("<svg") and "NaN" not in picture
    written = [row["written"] for row in rows(heat_map(frame), "cells")]
    assert len(written) == len(frame.groupby(["heads", "length"]))
    assert all(re.fullmatch(r"\d\.\de[+-]\d+|0|×", label) for label in written)


@pytest.mark.parametrize("name", ["usual", "one number of heads", "sixteen heads, many seeds"])
def test_there_is_one_line_per_number_of_heads(name):
    picture = svg(error_against_length(ODD_FRAMES[name]))
    assert picture.count('aria-roledescription="line mark"') == ODD_FRAMES[name]["heads"].nunique()


def test_ticks_stand_exactly_at_the_lengths():
    x = error_against_length(believable_frame(lengths=(10, 37, 100))).to_dict()["layer"][0]["encoding"]["x"]
    assert x["axis"]["values"] == [10, 37, 100] and x["scale"]["base"] == 2


def test_members_without_an_error_are_one_cross_on_no_axis_and_break_their_line():
    usual = believable_frame()
    chart = error_against_length(diverge(usual, in_cell(usual, heads=3, length=32)))
    assert not [row for row in rows(chart, "members") if (row["heads"], row["length"]) == (3, 32)]
    (cross,) = rows(chart, "lost")
    assert "shown" not in cross
    assert (cross["diverged"], cross["learning_rates"]) == ("6 of 6 members", "0.001, 0.01")
    gaps = [(row["heads"], row["length"]) for row in rows(chart, "paths") if row["shown"] is None]
    assert gaps == [(3, 32)]


def test_an_error_after_which_a_member_diverged_and_zero_have_marks_of_their_own():
    drawn = rows(error_against_length(ODD_FRAMES["diverged after an error"]), "members")
    crosses = {(row["shown"], row["mark"]) for row in drawn if row["status"] == "diverged"}
    assert crosses == {(3.0, "diverged")}
    usual = believable_frame()
    drawn = rows(error_against_length(with_error(usual, usual["heads"] == 6, 0.0)), "selected")
    assert {(row["mark"], row["test_error"]) for row in drawn if row["heads"] == 6} == {("zero", 0.0)}


def test_the_dimension_is_named_in_the_legend_and_lines_are_dashed_below_it_only():
    chart = error_against_length(ODD_FRAMES["usual"])
    scale = chart.to_dict()["layer"][0]["encoding"]["strokeDash"]["scale"]
    dashed = {heads for heads, dash in zip(scale["domain"], scale["range"], strict=True) if dash != [1, 0]}
    assert dashed == {1, 2, 3} and "4 = D" in svg(chart)
    assert "= D" not in svg(error_against_length(ODD_FRAMES["dimension not known"]))


def test_more_members_than_altair_takes_by_default():
    frame = believable_frame(heads=range(1, 17), seeds=32)
    assert len(rows(error_against_length(frame), "members")) == len(frame) > 5000


def test_a_chart_is_saved_as_a_picture_of_a_known_kind(tmp_path):
    chart = heat_map(believable_frame(seeds=1))
    for ending, start in ((".svg", b"<svg"), (".png", b"\x89PNG")):
        save_chart(chart, tmp_path / f"plot{ending}")
        assert (tmp_path / f"plot{ending}").read_bytes().startswith(start)
    with pytest.raises(InvalidInput, match=r"\.svg, \.png or \.html, got .plot\.gif"):
        save_chart(chart, tmp_path / "plot.gif")

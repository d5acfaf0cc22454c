"""Where the numbers of a panel land on its axis."""

import numpy as np
import pandas as pd
import pytest

from headcount.report.panel import Panel
from headcount.report.panel_chart import OUR_MEAN, panel_layers
from headcount.reproduce.page import columns, written


def table(errors):
    """One line over three lengths; with a deviation of a tenth of each error."""
    made = {"length": [8, 16, 64], **dict.fromkeys(("min", "median", "mean"), errors)}
    return pd.DataFrame(made).assign(heads=1, std=np.array(errors) / 10, failed=0, members=2)


def drawn(panel, channel="y"):
    """The points, and the scale of a channel that they are drawn with."""
    chart = panel_layers(panel).to_dict()
    layer = chart["layer"][-1]
    return chart["datasets"][layer["data"]["name"]], layer["encoding"][channel]["scale"]


def on_axis(panel):
    """The errors, and the ends and the kind of the axis that they stand on."""
    points, scale = drawn(panel)
    return [row["error"] for row in points], scale["domain"], scale.get("type", "linear")


def test_an_error_of_zero_stands_at_the_foot_of_a_logarithmic_axis():
    points, (low, high), kind = on_axis(Panel("errors", table([0.0, 1e-3, 0.2])))
    assert kind == "log" and points[0] == low < 1e-3
    assert all(low <= point <= high for point in points)


@pytest.mark.parametrize("errors", [[0.0, 0.02, 0.5], [0.0, 0.0, 0.0]])
def test_shares_stand_on_an_axis_from_zero_that_holds_their_bars(errors):
    points, (low, high), kind = on_axis(Panel("shares", table(errors), shares=True))
    assert kind == "linear" and points == errors
    assert low == 0 < high and high >= 1.1 * max(errors)


def test_shares_are_shown_as_means_in_percent():
    panel = Panel("shares", table([0.0, 0.02, 0.5]).assign(paper=[0.1, 0.2, np.nan]), shares=True)
    assert columns(panel) == ("h", "T", "paper", "ours", "failed")
    papers, ours = ["10.0%", "20.0%", "–"], ["0% ± 0%", "2.0% ± 0.20%", "50.0% ± 5.0%"]
    assert [row[2:4] for row in written(panel)] == list(zip(papers, ours, strict=True))
    assert {row["whose"] for row in drawn(panel)[0]} == {OUR_MEAN, "the paper"}


@pytest.mark.parametrize("shares", [True, False])
def test_a_line_has_the_same_colour_in_panels_that_lack_others(shares):
    lines = pd.concat([table([0.1, 0.2, 0.3]).assign(heads=heads) for heads in (1, 2, 4, 6, 8)])
    whole = Panel("whole", lines, shares=shares, among=(1, 2, 4, 6, 8))
    some = Panel("some", lines.query("heads in (2, 8)"), shares=shares, among=(1, 2, 4, 6, 8))
    scales = [drawn(panel, "color")[1] for panel in (whole, some)]
    of_whole, of_some = (dict(zip(scale["domain"], scale["range"], strict=True)) for scale in scales)
    assert of_some == {heads: of_whole[heads] for heads in (2, 8)}
    assert len(set(of_whole.values())) == 5

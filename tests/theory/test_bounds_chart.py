import json

import pytest

from headcount.errors import StorageError
from headcount.report.bounds_chart import BITES, NO_BOUND, VACUOUS, bounds_chart
from headcount.report.rendering import save_chart
from headcount.theory.bounds import bounds
from headcount.theory.theorem import LARGEST, Setting

PAPER = {"dimension": 4, "heads": 3, "head_dim": 8, "length": 128}


def panels(**changes):
    """For each panel of the chart, its cells by heads and length."""
    chart = bounds_chart(Setting(**(PAPER | changes))).to_dict(validate=False)
    json.dumps(chart, allow_nan=False)
    return [
        {(cell["heads"], cell["length"]): cell for cell in chart["datasets"][panel["data"]["name"]]}
        for panel in chart["hconcat"]
    ]


def test_a_chart_that_cannot_be_written_is_a_storage_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"bounds\.svg: cannot be written"):
        save_chart(bounds_chart(Setting(**PAPER)), tmp_path / "file" / "bounds.svg")


def test_every_cell_of_both_panels_is_what_the_bound_says():
    for panel, name in zip(panels(), ("lower_as_stated", "lower"), strict=True):
        assert {heads for heads, _ in panel} == {1, 2, 3, 4, 5}
        assert {length for _, length in panel} == {2**power for power in range(3, 11)}
        for (heads, length), cell in panel.items():
            bound = getattr(bounds(**(PAPER | {"heads": heads, "length": length})), name)
            assert cell["why"] == bound.reason
            assert (cell["kind"] in BITES) == (not bound.vacuous)
            assert (cell["kind"] == NO_BOUND) == (heads >= 4)
            assert (cell["kind"] == VACUOUS) == (heads < 4 and bound.vacuous)


def test_the_setting_itself_is_framed_at_any_length_but_not_for_several_layers():
    for panel in panels(length=100):
        assert [place for place, cell in panel.items() if cell["asked"]] == [(3, 100)]
    for panel in panels(layers=2):
        assert not any(cell["asked"] for cell in panel.values())
        assert any(cell["kind"] in BITES for cell in panel.values())


def test_the_second_panel_keeps_the_share_of_the_smallest_set():
    first, second = panels(smallest_set=64)
    assert second[3, 256]["written"] == first[3, 512]["written"] == "3.36"


@pytest.mark.parametrize("numbers", [(1, 1, 1, 1), (60, 41, 8, 3000), (LARGEST,) * 4])
def test_any_setting_has_a_chart_of_bearable_size(numbers):
    setting = dict(zip(PAPER, numbers, strict=True))
    for panel in panels(**setting):
        heads, lengths = ({place[axis] for place in panel} for axis in (0, 1))
        assert len(heads) <= 12 and len(lengths) <= 9
        assert {setting["heads"], setting["dimension"]} <= heads and setting["length"] in lengths

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer

from headcount.commands.bounds import bounds as command
from headcount.errors import InvalidInput, StorageError
from headcount.report.bounds_chart import BITES, NO_BOUND, VACUOUS, bounds_chart
from headcount.report.rendering import save_chart
from headcount.theory.bounds import bounds
from headcount.theory.theorem import LARGEST, Setting

PAPER = {"dimension": 4, "heads": 3, "head_dim": 8, "length": 128}


def call(**options: object) -> None:
    """`headcount bounds` for the paper's setting, with more or other options."""
    app = typer.Typer(add_completion=False)
    app.command()(command)
    given = PAPER | options
    arguments = [
        word
        for name, value in given.items()
        for word in ([f"--{name}"] if value is True else [f"--{name.replace('_', '-')}", str(value)])
    ]
    app(arguments, standalone_mode=False)


def panels(setting: Setting) -> list[dict[tuple[int, int], dict[str, Any]]]:
    """For each panel of the chart, its cells by heads and length."""
    chart = bounds_chart(setting).to_dict(validate=False)
    json.dumps(chart, allow_nan=False)
    return [
        {(cell["heads"], cell["length"]): cell for cell in chart["datasets"][panel["data"]["name"]]}
        for panel in chart["hconcat"]
    ]


def test_the_table_shows_both_exponents_and_all_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    call()
    shown = capsys.readouterr().out
    assert re.search(r"m = T/4 +-0\.0714 ", shown)
    assert re.search(r"m = T = 128 +3\.36 ", shown)
    assert max(map(len, shown.splitlines())) <= 80
    words = " ".join(line[34:].strip() for line in shown.splitlines())
    for _, _, reason in bounds(**PAPER).rows():
        assert reason in " ".join(words.split())


def test_json_is_all_that_a_machine_gets(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    call(smallest_set=64, gamma=1.5, token_dim=2, layers=1, chart=tmp_path / "bounds.svg", json=True)
    out, err = capsys.readouterr()
    answer = json.loads(out)
    assert err == ""
    assert answer["setting"] == PAPER | {"smallest_set": 64, "gamma": 1.5, "token_dim": 2, "layers": 1}
    assert out.strip() == bounds(**answer["setting"]).to_json()
    assert (tmp_path / "bounds.svg").read_text("utf-8").startswith("<svg")


@pytest.mark.parametrize("options", [{"heads": 0}, {"chart": "k.pdf"}])
def test_invalid_input_prints_and_writes_nothing(
    options: dict[str, object],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match=f"{next(iter(options))}"):
        call(**options)
    assert capsys.readouterr().out == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("ending", "start"), [("png", b"\x89PNG"), ("html", b"<!DOCTYPE html>")])
def test_the_chart_is_written_by_its_ending(
    ending: str, start: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "new folder" / f"bounds.{ending}"
    call(chart=path)
    assert f"Chart: {path}" in capsys.readouterr().out.replace("\n", "")
    content = path.read_bytes()
    assert content.lstrip().startswith(start)
    assert not re.search(rb'(src|href)="https?:', content)


def test_a_chart_that_cannot_be_written_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"bounds\.svg: cannot be written"):
        save_chart(bounds_chart(Setting(**PAPER)), tmp_path / "file" / "bounds.svg")


def test_every_cell_of_both_panels_is_what_the_bound_says() -> None:
    for panel, name in zip(panels(Setting(**PAPER)), ("lower_as_stated", "lower"), strict=True):
        assert {heads for heads, _ in panel} == {1, 2, 3, 4, 5}
        assert {length for _, length in panel} == {2**power for power in range(3, 11)}
        for (heads, length), cell in panel.items():
            bound = getattr(bounds(**(PAPER | {"heads": heads, "length": length})), name)
            assert cell["why"] == bound.reason
            assert (cell["kind"] in BITES) == (not bound.vacuous)
            assert (cell["kind"] == NO_BOUND) == (heads >= 4)
            assert (cell["kind"] == VACUOUS) == (heads < 4 and bound.vacuous)


def test_the_setting_itself_is_framed_at_any_length_but_not_for_several_layers() -> None:
    for panel in panels(Setting(**(PAPER | {"length": 100}))):
        assert [place for place, cell in panel.items() if cell["asked"]] == [(3, 100)]
    for panel in panels(Setting(**PAPER, layers=2)):
        assert not any(cell["asked"] for cell in panel.values())
        assert any(cell["kind"] in BITES for cell in panel.values())


def test_the_second_panel_keeps_the_share_of_the_smallest_set() -> None:
    first, second = panels(Setting(**PAPER, smallest_set=64))
    assert second[3, 256]["written"] == "3.36"
    assert first[3, 512]["written"] == "3.36"


@pytest.mark.parametrize(
    "numbers",
    [
        {"dimension": 1, "heads": 1, "head_dim": 1, "length": 1},
        {"dimension": 60, "heads": 41, "head_dim": 8, "length": 3000},
        dict.fromkeys(PAPER, LARGEST),
    ],
)
def test_any_setting_has_a_chart_of_bearable_size(numbers: dict[str, int]) -> None:
    setting = Setting(**numbers)
    for panel in panels(setting):
        heads, lengths = ({place[axis] for place in panel} for axis in (0, 1))
        assert len(heads) <= 12
        assert len(lengths) <= 9
        assert {setting.heads, setting.dimension} <= heads
        assert setting.length in lengths

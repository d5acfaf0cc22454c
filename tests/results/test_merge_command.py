import json
import re
import sys
from pathlib import Path

import pytest
from merge_folders import files, row, write_folder

from headcount.commands.cli import main
from headcount.commands.merge import MAX_NAMED
from headcount.results.store import read_results


@pytest.fixture
def call(monkeypatch, capsys):
    """`headcount merge ...`, in this process: its exit code, and what it said."""

    def run(*arguments: str | Path) -> tuple[int | str | None, str, list[str]]:
        monkeypatch.setattr(sys, "argv", ["headcount", "merge", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        return end.value.code or 0, said.out, said.err.splitlines()

    return run


def test_it_says_what_came_from_where(call, folders, tmp_path):
    code, out, err = call(*folders, "--out", tmp_path / "all")
    assert (code, err) == (0, [])
    assert f"2 in {folders[1]}" in out
    assert f"4 trials altogether in {tmp_path / 'all'}: 1 of them from more than one folder, 2 with a" in out
    assert len(read_results(tmp_path / "all")) == 4


def test_machines_get_the_same_as_json_and_a_damaged_shard_in_one_line(call, folders, tmp_path):
    damaged = folders[0] / "shards" / "pack1.parquet"
    damaged.write_bytes(b"")
    code, out, err = call(*folders, "--out", tmp_path / "all", "--json")
    problem = f"{damaged}: damaged (empty), left out"
    assert (code, err) == (0, [f"headcount: {problem}"])
    assert json.loads(out) == {
        "out": str(tmp_path / "all"),
        "trials": 3,
        "shared": 1,
        "models": 1,
        "folders": {str(folder): 2 for folder in folders},
        "problems": [problem],
    }


def test_one_conflict_is_one_line_and_strict_is_to_the_last_digit(call, folders, tmp_path):
    near, far = (
        write_folder(tmp_path / name, [row(3, test_error=row(3).test_error * factor)])
        for name, factor in (("near", 1 + 1e-9), ("far", 2))
    )
    before = files(tmp_path)
    for other, options in ((far, []), (near, ["--strict"])):
        code, out, err = call(*folders, other, "--out", tmp_path / "all", *options)
        assert (code, out, len(err)) == (2, "", 1)
        start = "headcount: error: 1 trial has different results, so nothing is written: trial "
        assert err[0].startswith(start)
        for fragment in (row(3).trial, str(folders[1]), str(other), "test_error (0.075 and "):
            assert fragment in err[0]
    assert files(tmp_path) == before
    assert call(*folders, near, "--out", tmp_path / "all")[0] == 0


def test_of_many_conflicts_the_first_are_named_and_the_others_counted(call, tmp_path):
    many = MAX_NAMED + 5
    folders = [
        write_folder(tmp_path / name, [row(trial, counted_parameters=step) for trial in range(many)])
        for step, name in enumerate(("one", "other"))
    ]
    code, out, err = call(*folders, "--out", tmp_path / "all")
    assert (code, out, len(err)) == (2, "", MAX_NAMED + 1)
    named = re.findall(r"trial ([0-9a-f]{16}) ", "\n".join(err))
    assert len(named) == len(set(named)) == MAX_NAMED
    assert err[-2] == "headcount: and 5 more"
    assert f"{many} trials have different results" in err[-1]

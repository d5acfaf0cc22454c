import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from robust_support import Command, Disturbed, Undisturbed, marks, numbers, same, shards


def test_a_killed_sweep_ends_as_if_nobody_had_disturbed_it(
    undisturbed: Undisturbed, tmp_path: Path, cache: Path
) -> None:
    killed = Disturbed(undisturbed.spec, tmp_path / "killed", cache)
    for shards_first in (0, 1):
        was_killed = killed.kill_once(shards_first=shards_first)
        assert was_killed, "done before it was killed: the specification is too light"
        assert len(shards(killed.out)) >= shards_first
    last = killed.finish()
    assert f"17 members, 0 failed. Page: {killed.out / 'report.html'}" in last.out
    assert (killed.out / "report.html").is_file()
    assert len(shards(killed.out)) == 3
    same(numbers(killed.out), undisturbed.frame())


def test_a_real_process_prints_json_alone_and_is_quiet_where_nobody_looks(undisturbed: Undisturbed) -> None:
    undisturbed.frame()
    assert undisturbed.process.err == ""
    answer = json.loads(undisturbed.process.out)
    assert (answer["members"], answer["failed"]) == (17, 0)
    assert Path(answer["page"]).is_file()


HOLDER = Path(__file__).parents[1] / "lock_holder.py"


@pytest.mark.usefixtures("quick_page")
def test_a_second_sweep_is_refused_in_one_line_and_a_killed_one_makes_room(
    finished: tuple[Path, Path], tmp_path: Path, command: Command
) -> None:
    spec, whole = finished
    folder = shutil.copytree(whole, tmp_path / "runs")
    shards(folder)[0].unlink()
    holder = subprocess.Popen([sys.executable, HOLDER, folder], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        before = marks(folder)
        refused = command("sweep", spec, "--out", folder)
        assert (refused.code, refused.out, len(refused.lines)) == (2, "", 1)
        assert f"{folder}: is being written to by process {holder.pid} on " in refused.err
        assert marks(folder) == before
    finally:
        holder.kill()
        holder.communicate()
    assert command("sweep", spec, "--out", folder).code == 0
    same(numbers(folder), numbers(whole))

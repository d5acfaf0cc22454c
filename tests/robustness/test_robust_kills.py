import json
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from robust_support import Process, check_refused, checkpoints, marks, same, shards

from headcount.results.lock import LOCK


def under_way(folder: Path) -> dict[str, tuple[int, int]]:
    """When each checkpoint was written, and how far its pack had come: its largest counter."""
    found = {}
    for path in checkpoints(folder):
        try:
            written = path.stat().st_mtime_ns
            with np.load(path) as saved:
                counters = [leaf for leaf in saved.values() if leaf.dtype == np.int32 and leaf.size]
        except FileNotFoundError:  # its pack was finished meanwhile
            continue
        found[path.stem] = written, max(int(leaf.max()) for leaf in counters)
    return found


def kill(process: Process, out: Path, *, shards_first: int) -> None:
    """Kill a sweep at a random moment after its first chunk, once it has written so many shards.

    What was under way before must go on from where it was.
    """
    finished, before = shards(out), under_way(out)
    too_light = "done before it was killed: the specification is too light"
    try:
        moved = process.wait_until(lambda: shards(out) != finished or under_way(out) != before)
        assert moved, too_light
        resumed = under_way(out)
        assert process.wait_until(lambda: len(shards(out)) >= shards_first), too_light
        time.sleep(random.uniform(0, 1.2))
    finally:
        process.popen.kill()
    assert process.wait() == -9, too_light
    for pack in before.keys() & resumed.keys():
        assert resumed[pack][1] > before[pack][1], f"{pack} began again: step {resumed[pack][1]}"


def test_a_killed_sweep_ends_as_if_nobody_had_disturbed_it(undisturbed, tmp_path, cache):
    spec, out = undisturbed.output.with_name("heavy.toml"), tmp_path / "killed"
    for kills in range(3):
        finished = {path: mark for path, mark in marks(out).items() if path in shards(out)}
        process = Process("sweep", spec, "--out", out, cache=cache, log=tmp_path / f"log{kills}")
        if kills < 2:
            kill(process, out, shards_first=kills)
        else:
            assert (process.wait(), process.err) == (0, "")
        assert finished.items() <= marks(out).items(), "a finished shard was written again"
    assert f"17 members, 0 failed. Page: {out / 'report.html'}" in process.out
    assert (out / "report.html").is_file()
    assert not list(out.rglob("*.partial"))
    assert len(shards(out)) == 3
    assert undisturbed.wait() == 0, undisturbed.err
    same(out, undisturbed.output.with_name("runs"))


def test_a_real_process_prints_json_alone_and_is_quiet_where_nobody_looks(undisturbed):
    assert (undisturbed.wait(), undisturbed.err) == (0, "")
    answer = json.loads(undisturbed.out)
    assert (answer["members"], answer["failed"]) == (17, 0)
    assert Path(answer["page"]).is_file()


HOLD = """\
import sys, time
from pathlib import Path
from headcount.results.lock import writing

with writing(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.usefixtures("quick_page")
def test_a_second_sweep_is_refused_in_one_line_and_a_killed_one_makes_room(spec, whole, folder, command):
    shards(folder)[0].unlink()
    holder = subprocess.Popen([sys.executable, "-c", HOLD, folder], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        before = marks(folder)
        refused = command("sweep", spec, "--out", folder)
        check_refused(refused, f"{folder}: is being written to by process {holder.pid} on ")
        assert marks(folder) == before
    finally:
        holder.kill()
        holder.communicate()
    assert (folder / LOCK).is_file(), "left by the killed process"
    assert command("sweep", spec, "--out", folder).code == 0
    same(folder, whole)

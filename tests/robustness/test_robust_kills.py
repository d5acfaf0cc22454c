import json
from pathlib import Path

from robust_support import Disturbed, Undisturbed, numbers, same, shards


def test_a_killed_sweep_ends_as_if_nobody_had_disturbed_it(
    undisturbed: Undisturbed, tmp_path: Path, cache: Path
) -> None:
    killed = Disturbed(undisturbed.spec, tmp_path / "killed", cache)
    for shards_first in (0, 1):
        kill = killed.kill_once(shards_first=shards_first)
        assert kill is not None, "done before it was killed: the specification is too light"
        assert kill.shards >= shards_first
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

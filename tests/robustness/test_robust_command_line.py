import io
import math
import re
from pathlib import Path

import pytest
from rich.console import Console
from robust_support import Command, tiny, write
from robust_terminal import drawn, widest

from headcount import Grid, Outcome, TaskChoice
from headcount.commands.specfile import load
from headcount.commands.terminal import LiveGrid
from headcount.running.executor import Advanced, FileProblem, Finished, GivenUp, Planned, Staffed
from headcount.trials.machine import Machine
from headcount.trials.pack import Pack, plan
from headcount.trials.row import Row
from headcount.trials.trial import Trial


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        (["swep"], ["swep", "sweep"]),
        (["sweep", "spec.toml", "--oot", "runs"], ["--oot", "--out"]),
        (["sweep"], ["spec"]),
        (["report", "one", "two"], ["two"]),
        (["sweep", "spec.toml", "--seed", "-1"], ["--seed", "greater than or equal to 0"]),
        (["sweep", "spec.toml", "--json=yes"], ["--json"]),
        (["demo", "--seed", "1.5"], ["--seed", "integer"]),
        (["report", "no such folder"], ["no such folder"]),
    ],
)
def test_a_slip_on_the_command_line_is_one_line(
    arguments: list[str],
    fragments: list[str],
    tmp_path: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    result = command(*arguments)
    assert (result.code, result.out) == (2, "")
    assert len(result.lines) == 1, result.err
    assert result.err.startswith("headcount: error: ")
    for fragment in fragments:
        assert fragment in result.err, result.err
    assert not list(tmp_path.iterdir())


def test_no_command_at_all_shows_the_help_and_no_empty_complaint(command: Command) -> None:
    result = command()
    assert "Usage: headcount" in result.out + result.err
    assert "headcount: error:" not in [line.strip() for line in result.lines]


def test_a_seed_that_no_generator_takes_is_one_line(
    finished: tuple[Path, Path], tmp_path: Path, command: Command
) -> None:
    result = command("sweep", finished[0], "--out", tmp_path / "runs", "--seed", str(2**70))
    assert result.code == 2
    assert len(result.lines) == 1
    assert "seed" in result.err
    assert str(2**70) in result.err
    assert not (tmp_path / "runs").exists()


def test_the_example_is_a_specification_that_loads(tmp_path: Path, command: Command) -> None:
    result = command("example")
    assert (result.code, result.err) == (0, "")
    trials = load(write(tmp_path / "example.toml", result.out))
    assert len(trials) == 2 * 4 * 3 * 2 * 4
    assert {trial.task.name for trial in trials} == {"max_sum"}


@pytest.mark.usefixtures("quick_page")
@pytest.mark.parametrize("verb", ["sweep", "report"])
def test_json_is_all_that_a_machine_gets(verb: str, finished: tuple[Path, Path], command: Command) -> None:
    spec, folder = finished
    arguments = ["sweep", spec, "--out", folder] if verb == "sweep" else ["report", folder]
    result = command(*arguments, "--json")
    assert (result.code, result.err) == (0, "")
    answer = result.json
    assert answer["members"] == 10
    assert answer["failed"] == 0
    assert answer["page"] == str(folder / "report.html")
    (transition,) = answer["transitions"]
    assert (transition["task"], transition["below"], transition["heads"]) == ("max_sum", 1, 2)


def test_json_of_members_that_all_diverged(tmp_path: Path, command: Command) -> None:
    """With the real page: charts of nothing must not fail either."""
    spec = write(tmp_path / "hot.toml", tiny("[training]\n", "[training]\nlearning_rate = 1e30\n"))
    result = command("sweep", spec, "--out", tmp_path / "runs", "--json")
    assert (result.code, result.err) == (0, "")
    assert (result.json["members"], result.json["failed"]) == (10, 10)
    assert (tmp_path / "runs" / "report.html").stat().st_size > 1000


MACHINE = Machine("cpu", "made up", 2, 8 << 30)
TASK = TaskChoice.of("max_sum", token_dim=4)


def grid(
    *, lengths: tuple[int, ...], heads: tuple[int, ...], dimensions: tuple[int, ...]
) -> tuple[Trial, ...]:
    return Grid(TASK, dimension=dimensions, length=lengths, heads=heads).trials()


class Watched:
    """A live grid on an 80 × 24 terminal that remembers all that it is told to draw."""

    def __init__(self, trials: tuple[Trial, ...]) -> None:
        self.trials = trials
        self.file = io.StringIO()
        console = Console(
            file=self.file, width=80, height=24, force_terminal=True, legacy_windows=False, _environ={}
        )
        self.view = LiveGrid(trials, console)
        self.packs: list[Pack] = plan(trials, MACHINE)

    def train(self, error: float) -> None:
        """Every pack makes 1,000 steps and comes to this error."""
        self.view.show(Planned(tuple(self.packs), {}))
        for pack in self.packs:
            self.view.show(Advanced(pack, 1_000, (error,) * len(pack.trials)))

    def finish(self, pack: Pack, error: float) -> None:
        outcome = Outcome(None, error, error, error, best_step=10, diverged=math.isnan(error))
        rows = tuple(Row.of(trial, outcome, MACHINE, seconds=1.0) for trial in pack.trials)
        self.view.show(Finished(pack, rows))

    def frame(self) -> str:
        """What is drawn now."""
        before = self.file.tell()
        self.view.live.refresh()
        return self.file.getvalue()[before:]


@pytest.mark.parametrize(
    ("lengths", "dimensions"),
    [((8, 32, 128), (2, 3)), (tuple(2**k for k in range(2, 12)), (2,))],
)
def test_the_live_grid_shows_all_it_has_within_80_columns(
    lengths: tuple[int, ...], dimensions: tuple[int, ...]
) -> None:
    watched = Watched(grid(lengths=lengths, heads=(1, 2, 3), dimensions=dimensions))
    with watched.view:
        watched.train(4.2e-2)
        seen = watched.frame()
    assert widest(watched.file.getvalue()) <= 80
    text = "\n".join(drawn(seen))
    assert "heads" in text
    for dimension in dimensions:
        assert f"max_sum, D = {dimension}" in text
    for length in lengths:
        assert str(length) in text, f"T = {length} is not to be seen:\n{text}"
    assert len(re.findall(r"\b4(?:\.2)?e-0?2\b", text)) == len(lengths) * 3 * len(dimensions), text
    assert f"0 of {len(watched.trials)} members, 10% of the steps" in text


def test_the_live_grid_keeps_its_progress_in_sight_on_a_low_terminal() -> None:
    watched = Watched(grid(lengths=(8, 32), heads=tuple(range(1, 9)), dimensions=(2, 3, 4)))
    with watched.view:
        watched.train(4.2e-2)
        seen = drawn(watched.frame())
    assert len(seen) <= 24
    assert any("of the steps" in line for line in seen), "\n".join(seen)


def test_the_live_grid_shows_finished_members_and_diverged_ones() -> None:
    watched = Watched(grid(lengths=(8,), heads=(1, 2), dimensions=(2,)))
    with watched.view:
        watched.train(4.2e-2)
        for pack in watched.packs:
            watched.finish(pack, 3.1e-4)
        seen = "\n".join(drawn(watched.frame()))
    assert seen.count("3.1e-04") == 2
    assert "2 of 2 members, 100% of the steps" in seen

    nothing = Watched(grid(lengths=(8,), heads=(1,), dimensions=(2,)))
    with nothing.view:
        nothing.train(math.nan)
        nothing.finish(nothing.packs[0], math.nan)
        seen = "\n".join(drawn(nothing.frame()))
    assert "nan" not in seen
    assert "1 of 1 member" in seen


def test_the_live_grid_keeps_a_problem_in_one_piece() -> None:
    """A name that was cut into lines can be neither searched for nor copied."""
    name = f"runs/shards/{'0123456789abcdef' * 5}.parquet"
    watched = Watched(grid(lengths=(8,), heads=(1,), dimensions=(2,)))
    watched.view.show(FileProblem(f"{name}: damaged"))
    assert name in watched.file.getvalue()


def test_a_pack_that_is_given_up_is_named_by_its_place_in_the_grid() -> None:
    watched = Watched(grid(lengths=(8,), heads=(1, 2), dimensions=(2,)))
    watched.view.show(GivenUp(Pack(watched.trials, watched.trials[0].architecture), "out of memory"))
    watched.view.show(Staffed(1, 1))
    seen = "\n".join(drawn(watched.file.getvalue()))
    assert "a pack of 2 members (max_sum, D = 2, h = 1 to 2, T = 8) is given up: out of memory" in seen
    with watched.view:
        assert "1 worker, 1 pack in flight" in "\n".join(drawn(watched.frame()))


@pytest.mark.parametrize("quiet", [False, True])
def test_without_a_terminal_a_line_now_and_then_says_how_far_it_is(quiet: bool) -> None:
    trials = grid(lengths=(8,), heads=(1,), dimensions=(2,))
    file = io.StringIO()
    view = LiveGrid(trials, Console(file=file, force_terminal=False), quiet=quiet)
    (pack,) = plan(trials, MACHINE)
    with view:
        view.show(Planned((pack,), {}))
        view.show(Advanced(pack, 1_000, (0.1,)))
        assert file.getvalue() == ""
        view.reported -= 31
        view.show(Advanced(pack, 1_000, (0.1,)))
        view.show(Advanced(pack, 1_000, (0.1,)))
    lines = file.getvalue().splitlines()
    assert len(lines) == (0 if quiet else 1)
    assert all(line.startswith("headcount: 0 of 1 member, 10% of the steps") for line in lines)

import io
import math
import re

import pytest
from rich.console import Console
from robust_support import check_refused, drawn, tiny, widest, write

from headcount import Grid, Outcome, TaskChoice
from headcount.commands.specfile import load
from headcount.commands.terminal import LiveGrid
from headcount.running.executor import Advanced, FileProblem, Finished, GivenUp, Planned, WorkerCount
from headcount.trials.machine import Machine
from headcount.trials.pack import plan
from headcount.trials.row import Row


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        (["swep"], ["swep", "sweep"]),
        (["sweep", "spec.toml", "--oot", "runs"], ["--oot", "--out"]),
        (["sweep"], ["SPEC: expected a value, got none"]),
        (["merge", "one"], ["--out"]),
        (["merge", "--out", "all"], ["DIR"]),
        (["report", "one", "two"], ["two"]),
        (["sweep", "spec.toml", "--seed", "-1"], ["--seed", "expected an integer >= 0, got -1"]),
        (["sweep", "spec.toml", "--json=yes"], ["--json"]),
        (["demo", "--seed", "1.5"], ["--seed", "integer"]),
        (["report", "no such folder"], ["no such folder"]),
    ],
)
def test_a_slip_on_the_command_line_is_one_line(arguments, fragments, tmp_path, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_refused(command(*arguments), *fragments)
    assert not list(tmp_path.iterdir())


def test_no_command_at_all_shows_the_help_and_no_empty_complaint(command):
    result = command()
    assert "Usage: headcount" in result.out + result.err
    assert "headcount: error:" not in [line.strip() for line in result.lines]


def test_a_seed_that_no_generator_takes_is_one_line(spec, tmp_path, command):
    result = command("sweep", spec, "--out", tmp_path / "runs", "--seed", str(2**70))
    check_refused(result, "seed", str(2**70))
    assert not (tmp_path / "runs").exists()


def test_the_example_is_a_specification_that_loads(tmp_path, command):
    result = command("example")
    assert (result.code, result.err) == (0, "")
    trials = load(write(tmp_path / "example.toml", result.out))
    assert len(trials) == 2 * 4 * 3 * 2 * 4
    assert {trial.task.name for trial in trials} == {"max_sum"}


@pytest.mark.usefixtures("quick_page")
@pytest.mark.parametrize("verb", ["sweep", "report"])
def test_json_is_all_that_a_machine_gets(verb, spec, folder, command):
    arguments = ["sweep", spec, "--out", folder] if verb == "sweep" else ["report", folder]
    result = command(*arguments, "--json")
    assert (result.code, result.err) == (0, "")
    (transition,) = result.json.pop("transitions")
    assert (transition["task"], transition["below"], transition["heads"]) == ("max_sum", 1, 2)
    page = str(folder / "report.html")
    assert result.json == {"members": 10, "failed": 0, "page": page, "transitions": [transition]}


def test_json_of_members_that_all_diverged(tmp_path, command):
    """With the real page: charts of nothing must not fail either."""
    spec = write(tmp_path / "hot.toml", tiny("[training]\n", "[training]\nlearning_rate = 1e30\n"))
    result = command("sweep", spec, "--out", tmp_path / "runs", "--json")
    assert (result.code, result.err) == (0, "")
    assert (result.json["members"], result.json["failed"]) == (10, 10)
    assert (tmp_path / "runs" / "report.html").stat().st_size > 1000


MACHINE = Machine("cpu", "made up", 2, 8 << 30)


class Watched:
    """A live grid on an 80 × 24 terminal, which remembers all that is drawn, or where there is none."""

    def __init__(self, *, lengths=(8,), heads=(1, 2), dimensions=(2,), terminal=True, quiet=False) -> None:
        task = TaskChoice.of("max_sum", token_dim=4)
        self.trials = Grid(task, dimension=dimensions, length=lengths, heads=heads).trials()
        self.packs = plan(self.trials, MACHINE)
        self.file = io.StringIO()
        console = Console(
            file=self.file, width=80, height=24, force_terminal=terminal, legacy_windows=False, _environ={}
        )
        self.view = LiveGrid(self.trials, console, quiet=quiet)

    def advance(self, error: float) -> None:
        """Every pack makes 1,000 steps and comes to this error."""
        for pack in self.packs:
            self.view.show(Advanced(pack, 1_000, (error,) * len(pack.trials)))

    def frame(self, *, error: float, finished_at: float | None = None) -> str:
        """What is drawn after some training, and once all members are finished where an error is given."""
        with self.view:
            self.view.show(Planned(tuple(self.packs), {}))
            self.advance(error)
            for pack in self.packs if finished_at is not None else ():
                outcome = Outcome(None, *[finished_at] * 3, best_step=10, diverged=math.isnan(finished_at))
                rows = tuple(Row.of(trial, outcome, MACHINE, seconds=1.0) for trial in pack.trials)
                self.view.show(Finished(pack, rows))
            before = self.file.tell()
            self.view.live.refresh()
            return "\n".join(drawn(self.file.getvalue()[before:]))


@pytest.mark.parametrize(
    ("lengths", "dimensions"), [((8, 32, 128), (2, 3)), (tuple(2**k for k in range(2, 12)), (2,))]
)
def test_the_live_grid_shows_all_it_has_within_80_columns(lengths, dimensions):
    watched = Watched(lengths=lengths, heads=(1, 2, 3), dimensions=dimensions)
    seen = watched.frame(error=4.2e-2)
    assert widest(watched.file.getvalue()) <= 80
    titles = [f"max_sum, D = {dimension}" for dimension in dimensions]
    progress = f"0 of {len(watched.trials)} members, 10% of the steps"
    for text in (*titles, "heads", *(f"{length}" for length in lengths), progress):
        assert text in seen, f"{text} is not to be seen:\n{seen}"
    assert len(re.findall(r"\b4(?:\.2)?e-0?2\b", seen)) == len(lengths) * 3 * len(dimensions), seen


def test_the_live_grid_keeps_its_progress_in_sight_on_a_low_terminal():
    seen = Watched(lengths=(8, 32), heads=tuple(range(1, 9)), dimensions=(2, 3, 4)).frame(error=4.2e-2)
    assert len(seen.splitlines()) <= 24
    assert "of the steps" in seen


def test_the_live_grid_shows_finished_members_and_diverged_ones():
    seen = Watched().frame(error=4.2e-2, finished_at=3.1e-4)
    assert seen.count("3.1e-4") == 2
    assert "2 of 2 members, 100% of the steps" in seen
    seen = Watched(heads=(1,)).frame(error=math.nan, finished_at=math.nan)
    assert "nan" not in seen
    assert "1 of 1 member" in seen


def test_the_live_grid_keeps_a_problem_in_one_piece():
    """A name that was cut into lines can be neither searched for nor copied."""
    name = f"runs/shards/{'0123456789abcdef' * 5}.parquet"
    watched = Watched()
    watched.view.show(FileProblem(f"{name}: damaged"))
    watched.view.show(GivenUp(watched.packs[0], f"{name} is gone"))
    watched.view.show(WorkerCount(1, 1))
    assert watched.file.getvalue().count(name) == 2
    assert "1 worker, 1 pack in flight" in watched.frame(error=0.1)


@pytest.mark.parametrize("quiet", [False, True])
def test_without_a_terminal_a_line_now_and_then_says_how_far_it_is(quiet):
    watched = Watched(heads=(1,), terminal=False, quiet=quiet)
    watched.advance(0.1)
    assert watched.file.getvalue() == ""
    watched.view.reported -= 31
    watched.advance(0.1)
    watched.advance(0.1)
    lines = watched.file.getvalue().splitlines()
    assert len(lines) == (0 if quiet else 1)
    assert all(line.startswith("headcount: 0 of 1 member, 10% of the steps") for line in lines)

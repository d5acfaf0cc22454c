"""What a run reports while it works."""

from collections.abc import Mapping
from dataclasses import dataclass

from headcount.trials.pack import Pack
from headcount.trials.row import Row


@dataclass(frozen=True)
class Planned:
    """What is about to be done: packs to train, and validation errors of what is finished already."""

    packs: tuple[Pack, ...]
    finished: Mapping[str, float]


@dataclass(frozen=True)
class Advanced:
    """A pack made a chunk of steps; `errors` are the members' best validation errors so far."""

    pack: Pack
    step: int
    errors: tuple[float, ...]


@dataclass(frozen=True)
class Finished:
    """A pack is done and its rows are on disk."""

    pack: Pack
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class FileProblem:
    """A file that could not be used; the run goes on without it."""

    line: str


@dataclass(frozen=True)
class Staffed:
    """How many workers a cluster has, and how many packs are with them."""

    workers: int
    in_flight: int


@dataclass(frozen=True)
class GivenUp:
    """A pack that failed too often; the run goes on without it."""

    pack: Pack
    reason: str

    @property
    def line(self) -> str:
        """One line that names the pack by its grid point."""
        trials = self.pack.trials
        task, heads = trials[0].task.name, sorted({trial.architecture.heads for trial in trials})
        members = f"{len(trials)} member{'s' if len(trials) > 1 else ''}"
        point = f"{task}, h = {', '.join(map(str, heads))}, T = {self.pack.length}"
        return f"pack of {members} ({point}) is given up: {self.reason}"


Event = Planned | Advanced | Finished | FileProblem | Staffed | GivenUp

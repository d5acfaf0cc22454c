"""Trials → packs: members that share one compiled program.

Every new shape costs seconds of compiling; every padded head costs arithmetic on each step. A GPU has
arithmetic to spare, so there a whole column of head counts is one shape. A CPU has not, so there head
counts share a shape only where that saves more compiling than it costs.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from headcount.engine.machine import Machine
from headcount.engine.spec import Trial
from headcount.errors import InvalidInput
from headcount.models import Architecture

MOST_MEMBERS = {"cpu": 8, "gpu": 512}
COMPILE_SECONDS = 2.5
STEP_SECONDS = 2e-4
MULTIPLY_ADD_SECONDS = 3.5e-10


@dataclass(frozen=True)
class Pack:
    """Trials that are trained together, in arrays of one architecture that holds them all."""

    trials: tuple[Trial, ...]
    architecture: Architecture

    @cached_property
    def id(self) -> str:
        """A hash of the members and their common shape."""
        text = "\n".join([*(trial.id for trial in self.trials), repr(self.architecture)])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def length(self) -> int:
        """T, the same for all members."""
        return self.trials[0].length

    def without(self, finished: Iterable[str]) -> "Pack | None":
        """The pack less the trials that are finished; None when nothing is left."""
        finished = set(finished)
        left = tuple(trial for trial in self.trials if trial.id not in finished)
        return replace(self, trials=left) if left else None


def plan(trials: Iterable[Trial], machine: Machine) -> list[Pack]:
    """All trials in packs, the same for the same trials and machine whatever is finished already."""
    groups: dict[tuple[object, ...], list[Trial]] = {}
    for trial in trials:
        groups.setdefault(_signature(trial), []).append(trial)
    packs = []
    for group in groups.values():
        for bucket in [group] if machine.kind == "gpu" else _buckets(group, machine):
            architecture = _hull(bucket)
            size = most_members(architecture, bucket[0], machine)
            packs += [
                Pack(tuple(bucket[start : start + size]), architecture)
                for start in range(0, len(bucket), size)
            ]
    return packs


def most_members(architecture: Architecture, trial: Trial, machine: Machine) -> int:
    """How many members fit the machine's memory at once."""
    needed = member_bytes(architecture, trial)
    if needed > machine.memory:
        raise InvalidInput(
            f"heads = {architecture.heads}, head_dim = {architecture.head_dim}, hidden = "
            f"{max(architecture.encoder_hidden, default=0)}, length = {trial.length}: one member needs "
            f"{needed / 2**30:,.1f} GiB; allowed are {machine.memory / 2**30:,.1f} on this machine"
        )
    return min(MOST_MEMBERS[machine.kind], machine.memory // needed)


def member_bytes(architecture: Architecture, trial: Trial) -> int:
    """An upper estimate of what one member holds while it trains."""
    batch, length = trial.training.batch_size, trial.length
    hidden = sum(architecture.encoder_hidden) + architecture.encoder_sizes[0]
    token = 5 * hidden + 8 * architecture.heads
    if architecture.layers > 1 or architecture.layer_norm:
        token += 8 * architecture.width
    token += (architecture.layers - 1) * (
        16 * architecture.width + 5 * architecture.heads * length + 4 * architecture.feedforward
    )
    sequence = architecture.heads * (sum(architecture.encoder_sizes[-2:]) + architecture.width) * 4
    sequence += 4 * sum(architecture.readout_sizes)
    states = 10 * (architecture.counted_parameters() + 4 * architecture.layers * architecture.width**2)
    data = (
        trial.training.train_samples + trial.training.validation_samples + trial.training.test_samples
    ) * (length * architecture.token_dim + architecture.output_dim)
    return 4 * (states + batch * (length * token + sequence) + data)


def step_seconds(architecture: Architecture, trial: Trial) -> float:
    """A rough time of one step of one member on one core: the folded form's multiply-adds, thrice."""
    hidden, heads, width = architecture.encoder_sizes[-2], architecture.heads, architecture.width
    token = hidden * (architecture.token_dim + 2 * heads)
    token += (architecture.layers - 1) * (4 * width**2 + 2 * width * trial.length)
    return STEP_SECONDS + 3 * MULTIPLY_ADD_SECONDS * trial.training.batch_size * trial.length * token


def _signature(trial: Trial) -> tuple[object, ...]:
    """What must be equal for members to share a program: all but heads, head_dim, seed, rate and data."""
    architecture = trial.architecture
    alike = replace(architecture, heads=1, head_dim=1, kv_heads=None)
    return (trial.length, replace(trial.training, data_seed=0), alike, architecture.group_size)


def _hull(trials: Sequence[Trial]) -> Architecture:
    """The smallest architecture that holds every trial's."""
    first = trials[0].architecture
    heads = max(trial.architecture.heads for trial in trials)
    head_dim = max(trial.architecture.head_dim for trial in trials)
    kv_heads = None if first.group_size == 1 else heads // first.group_size
    return replace(first, heads=heads, head_dim=head_dim, kv_heads=kv_heads)


def _buckets(group: Sequence[Trial], machine: Machine) -> list[list[Trial]]:
    """Neighbouring shapes joined so that compiling and training together take the least time."""
    shapes: dict[tuple[int, int], list[Trial]] = {}
    for trial in group:
        shapes.setdefault((trial.architecture.heads, trial.architecture.head_dim), []).append(trial)
    columns = [shapes[shape] for shape in sorted(shapes)]

    def seconds(bucket: list[Trial]) -> float:
        steps = len(bucket) * bucket[0].training.steps / machine.lanes
        return COMPILE_SECONDS + steps * step_seconds(_hull(bucket), bucket[0])

    best: list[tuple[float, list[list[Trial]]]] = [(0.0, [])]
    for end in range(1, len(columns) + 1):
        joined = [
            (start, [trial for column in columns[start:end] for trial in column]) for start in range(end)
        ]
        best.append(
            min(
                ((best[start][0] + seconds(bucket), [*best[start][1], bucket]) for start, bucket in joined),
                key=lambda choice: choice[0],
            )
        )
    return best[-1][1]

"""A pack: trials that are trained together by one compiled program."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import ceil
from typing import Generic, TypeAlias, TypeVar

from headcount.errors import InvalidInput
from headcount.models.architecture import Architecture
from headcount.trials.machine import Machine
from headcount.trials.sizes import MAX_PLACES, are_rounded, array_shape, array_sizes
from headcount.trials.task_choice import Task, TaskChoice
from headcount.trials.training import Training
from headcount.trials.trial import Shape, ShapeT, TaskT, TaskTrial, Trial


class TooLarge(InvalidInput):
    """A member that the machine cannot hold."""


@dataclass(frozen=True)
class Pack(Generic[TaskT, ShapeT]):
    """Trials that are trained together, in arrays of one architecture that holds them all."""

    trials: tuple[Trial[TaskT, ShapeT], ...]
    architecture: ShapeT

    @cached_property
    def id(self) -> str:
        """A hash of the members and their common shape."""
        text = "\n".join([*(trial.id for trial in self.trials), repr(self.architecture)])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def length(self) -> int:
        """T, the same for all members."""
        return self.trials[0].length

    def without(self, finished: Iterable[str]) -> "Pack[TaskT, ShapeT] | None":
        """The pack less the trials that are finished; None when nothing is left."""
        known = finished if isinstance(finished, Set | Mapping) else set(finished)
        left = tuple(trial for trial in self.trials if trial.id not in known)
        return replace(self, trials=left) if left else None


TaskPack: TypeAlias = Pack[TaskChoice, Architecture]


_Task = TypeVar("_Task", bound=Task)
_Shape = TypeVar("_Shape", bound=Shape)

MAX_MEMBERS = {"cpu": 8, "gpu": 512}  # in a pack on one machine without GPUs, and on one GPU


@dataclass(frozen=True)
class Cost:
    """A rough model of a machine's time: to compile a shape, and for a step of one member.

    `step` is spent whatever the size, `token` for a multiply-add of a token, `weight` for a weight of the
    attention: reading, moving and writing it. `layer` is what a step costs a whole pack, however few its
    members, for each layer in which tokens attend to tokens.
    """

    compile: float
    step: float
    token: float
    weight: float
    layer: float


COSTS = {"cpu": Cost(2.5, 1.4e-4, 1e-10, 4e-9, 0.0), "gpu": Cost(5.0, 4e-6, 1.65e-12, 3e-11, 5e-4)}
SOFTMAX = 12  # multiply-adds that take as long as a weight of a token on a token: moving it about


def plan(trials: Iterable[TaskTrial], machine: Machine) -> list[TaskPack]:
    """All trials in packs, the same for the same trials and machine whatever is finished already."""
    groups: dict[tuple[object, ...], list[TaskTrial]] = {}
    for trial in trials:
        groups.setdefault(_signature(trial, machine), []).append(trial)
    packs = []
    for group in groups.values():
        few_shapes = _of_all_head_counts if machine.kind == "gpu" else _blocks
        buckets = few_shapes if are_rounded(group[0]) else _buckets
        for bucket in buckets(group, machine):
            architecture = _hull(bucket, with_places=_has_room_for_places(bucket[0], machine))
            packs += cut(bucket, architecture, max_members(architecture, bucket[0], machine), machine)
    return packs


def cut(
    trials: Sequence[Trial[_Task, _Shape]], architecture: _Shape, at_most: int, machine: Machine
) -> list[Pack[_Task, _Shape]]:
    """Trials of one program in packs of at most this size."""
    size = at_most
    if machine.pack_seconds is not None:  # as many packs, but even ones: none is waited for longest
        size = ceil(len(trials) / ceil(len(trials) / at_most))
    return [Pack(tuple(trials[start : start + size]), architecture) for start in range(0, len(trials), size)]


def max_members(architecture: Architecture, trial: TaskTrial, machine: Machine) -> int:
    """How many members fit the machine's memory at once, and the time that a pack may take."""
    needed = member_bytes(architecture, trial)
    if needed > machine.memory_for_one:
        raise TooLarge(
            f"heads = {architecture.heads}, head_dim = {architecture.head_dim}, "
            f"hidden = {max(architecture.encoder_hidden, default=0)}, length = {trial.length}: expected a "
            f"member of at most {machine.memory_for_one / 2**30:,.1f} GiB, got {needed / 2**30:,.1f} GiB"
        )
    member_seconds = trial.training.steps * step_seconds(architecture, trial, machine)
    return max_in_time(machine, machine.holding(needed), member_seconds)


def max_in_time(machine: Machine, holding: int, member_seconds: float) -> int:
    """How many members may be in a pack, by the seconds each takes and by what the memory holds."""
    if machine.pack_seconds is None:
        gpus = machine.lanes if machine.kind == "gpu" else 1
        return max(1, min(MAX_MEMBERS[machine.kind] * gpus, holding))
    in_time = round(machine.pack_seconds / member_seconds)
    return max(1, min(max(MAX_MEMBERS.values()), holding, in_time))


def member_bytes(architecture: Architecture, trial: TaskTrial) -> int:
    """An upper estimate of what one member holds while it trains."""
    batch, (*samples, length) = trial.training.batch_size, array_sizes(trial)
    hidden = sum(architecture.encoder_hidden) + architecture.encoder_sizes[0]
    token = 5 * hidden + 8 * architecture.heads
    if architecture.layers > 1 or architecture.layer_norm or architecture.bounded:
        token += 8 * architecture.width
    token += (architecture.layers - 1) * (
        16 * architecture.width + 5 * architecture.heads * length + 4 * architecture.feedforward
    )
    sequence = architecture.heads * (sum(architecture.encoder_sizes[-2:]) + architecture.width) * 4
    sequence += 4 * sum(architecture.readout_sizes)
    states = 10 * (architecture.counted_parameters() + architecture.layers * _attention_weights(architecture))
    data = sum(samples) * (length * architecture.token_dim + architecture.output_dim)
    return 4 * (states + batch * (length * token + sequence) + data)


def step_seconds(architecture: Architecture, trial: TaskTrial, machine: Machine) -> float:
    """A rough time of one step of one member: the folded form's multiply-adds, and the weights."""
    hidden, heads, weights = (
        architecture.encoder_sizes[-2],
        architecture.heads,
        _attention_weights(architecture),
    )
    token = hidden * (architecture.token_dim + 2 * heads)
    length = array_sizes(trial).length
    token += (architecture.layers - 1) * (weights + SOFTMAX * heads * length)
    cost = COSTS[machine.kind]
    tokens = trial.training.batch_size * length
    return cost.step + cost.token * tokens * token + cost.weight * architecture.layers * weights


def _attention_weights(architecture: Architecture) -> int:
    """Of one block: query, key, value and output, where each query head has a key and value of its own."""
    return 4 * architecture.width * architecture.heads * architecture.head_dim


def _signature(trial: TaskTrial, machine: Machine) -> tuple[object, ...]:
    """What must be equal for members to share a program: all but heads, head_dim, seed, rate and data.

    Members on a user's data are put together as one estimate trains them, by their positions and on a GPU by
    the data: its stages, and those of other data, then find the program of the first.
    """
    alike, group_size = _shape(trial.architecture, trial.length)
    task = None
    if are_rounded(trial):
        alike = replace(alike, positions=trial.architecture.positions, length=trial.architecture.length)
        task = trial.task if machine.kind == "gpu" else None
    masked = trial.task.data is not None and trial.task.data.mask is not None
    return (trial.length, _program(trial.training), alike, group_size, masked, task)


@lru_cache(maxsize=4096)
def _shape(architecture: Architecture, length: int) -> tuple[Architecture, int]:
    """An architecture less its heads, and how many of them share keys; found once for many members."""
    seeing = _seeing(architecture, length)
    return replace(seeing, heads=1, head_dim=1, kv_heads=None), seeing.group_size


@lru_cache(maxsize=4096)
def _program(training: Training) -> Training:
    return replace(training, data_seed=0)


def _hull(trials: Sequence[TaskTrial], *, with_places: bool = False) -> Architecture:
    """The smallest architecture that holds every trial's; `with_places`: one that has room for positions."""
    some_see = len({trial.architecture.positions for trial in trials}) > 1
    first = trials[0].architecture
    first = _seeing(first, trials[0].length) if some_see or with_places else first
    heads = max(trial.architecture.heads for trial in trials)
    head_dim = max(trial.architecture.head_dim for trial in trials)
    kv_heads = None if first.group_size == 1 else heads // first.group_size
    # Many narrow heads beside a few wide ones: no member is as wide as all of the wide ones together.
    width = max(trial.architecture.width for trial in trials)
    held = replace(
        first,
        heads=heads,
        head_dim=head_dim,
        kv_heads=kv_heads,
        residual_width=None if width == heads * head_dim else width,
    )
    return array_shape(held, trials[0])


def _seeing(architecture: Architecture, length: int) -> Architecture:
    """The architecture, with positions where it could learn to see them: it has room for a blind one."""
    if architecture.positions == "none" and architecture.positions_start == "zero":
        return replace(architecture, positions="both", length=length)
    return architecture


def _has_room_for_places(trial: TaskTrial, machine: Machine) -> bool:
    """Whether members without positions get the program of those with them: on a GPU it costs little."""
    return machine.kind == "gpu" and are_rounded(trial) and trial.length <= MAX_PLACES


def _of_all_head_counts(group: Sequence[TaskTrial], machine: Machine) -> list[list[TaskTrial]]:
    """All together: a GPU spends more on one more program than on padded heads."""
    return [list(group)]


def _blocks(group: Sequence[TaskTrial], machine: Machine) -> list[list[TaskTrial]]:
    """Head counts in fixed blocks, one each on two cores: which others are trained changes no program.

    So the stages of a study share programs, and so do data sets of different D. Blocks are larger where more
    cores would be idle, for two members or more of each head count.
    """
    size = max(1, min(machine.lanes, MAX_MEMBERS["cpu"]) // 2)
    blocks: dict[int, list[TaskTrial]] = {}
    for trial in sorted(group, key=lambda trial: trial.architecture.heads):
        blocks.setdefault((trial.architecture.heads - 1) // size, []).append(trial)
    return list(blocks.values())


def _buckets(group: Sequence[TaskTrial], machine: Machine) -> list[list[TaskTrial]]:
    """Neighbouring shapes joined so that compiling and training together take the least time."""
    shapes: dict[tuple[int, int], list[TaskTrial]] = {}
    for trial in group:
        shapes.setdefault((trial.architecture.heads, trial.architecture.head_dim), []).append(trial)
    columns = [shapes[shape] for shape in sorted(shapes)]

    def seconds(bucket: list[TaskTrial]) -> float:
        steps, architecture, cost = bucket[0].training.steps, _hull(bucket), COSTS[machine.kind]
        alone = cost.compile + steps * (architecture.layers - 1) * cost.layer
        return alone + len(bucket) * steps / machine.lanes * step_seconds(architecture, bucket[0], machine)

    best: list[tuple[float, list[list[TaskTrial]]]] = [(0.0, [])]
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

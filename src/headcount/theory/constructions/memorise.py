"""h = 1, n = T·d: one wide head carries the whole sequence to the readout, which does all the work."""

from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import block_diag

from headcount.errors import InvalidInput
from headcount.models.architecture import Architecture
from headcount.models.network import Network
from headcount.models.transformer import Attention, Transformer
from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.constructions.bound import ROUNDING, certified, with_room_for_rounding
from headcount.theory.constructions.construction import (
    Construction,
    assumptions_of,
    checked,
    guarantees,
)
from headcount.theory.constructions.coordinates import Coordinate, Outer, coordinates_of
from headcount.theory.constructions.rounding import rounding
from headcount.theory.constructions.shallow import OutOfReach, Shallow, rounded_up, within_reach
from headcount.validation import check_number


class TwoLayers(NamedTuple):
    """last · relu(middle · relu(first · u + first_bias) + middle_bias)."""

    first: Float[np.ndarray, "first numbers"]
    first_bias: Float[np.ndarray, " first"]
    middle: Float[np.ndarray, "middle first"]
    middle_bias: Float[np.ndarray, " middle"]
    last: Float[np.ndarray, "1 middle"]

    def __call__(self, u: Float[np.ndarray, "points numbers"]) -> Float[np.ndarray, " points"]:
        """Its value, row by row."""
        hidden = np.maximum(u @ self.first.T + self.first_bias, 0)
        return (np.maximum(hidden @ self.middle.T + self.middle_bias, 0) @ self.last.T)[:, 0]


def maximum(numbers: int, levels: int) -> TwoLayers:
    """max_t u_t to 1/N, from above: Σ_{j<N} min(S_j, 1/N) with S_j = Σ_t relu(u_t − j/N).

    A level j/N that the maximum clears by 1/N or more adds a whole step 1/N, one that it does not reach
    adds nothing, and the one level between adds at least what is missing and at most a step. So the sum
    lies between the maximum and the next multiple of 1/N. Values below 0 count as 0, values above 1 as 1.

    >>> maximum(3, 10)(np.array([[0.2, 0.55, 0.52], [0.0, 0.0, 0.0]])).round(6)
    array([0.57, 0.  ])
    """
    steps = np.arange(levels) / levels
    sums = np.kron(np.eye(levels), np.ones((1, numbers)))
    return TwoLayers(
        first=np.tile(np.eye(numbers), (levels, 1)),
        first_bias=-np.repeat(steps, numbers),
        middle=np.repeat(sums, 2, axis=0),
        middle_bias=np.tile([0.0, -1 / levels], levels),
        last=np.tile([1.0, -1.0], levels)[None],
    )


MEMORY_GIB = 1.0
_BYTES = 8


def memorise(
    task: RetrievalTask, *, length: int, epsilon: float, memory_gib: float = MEMORY_GIB, seed: int = 0
) -> Construction:
    """A model with one head, as wide as the sequence is long, within epsilon of the target on [0,1]^(T×d).

    The encoder writes x(t) into the t-th of T slots, the head averages with equal weights, so the
    representation is the whole sequence, divided by T. Four hidden layers of the readout then compute
    every psi_i at every token, their minima over the S_i, and F_0.

    The weights of the second of these layers are what takes the memory: more than `memory_gib` is refused.

    >>> from headcount.tasks.library import extremes
    >>> made = memorise(extremes(), length=4, epsilon=0.1)
    >>> made.model.architecture.heads, made.model.architecture.head_dim
    (1, 4)
    >>> bool(abs(made.predict([[0.5], [0.25], [1.0], [0.75]]) - 1.25) < made.error.total)
    True
    """
    epsilon, length = checked(epsilon, length)
    check_number("memory_gib", memory_gib, above=0)
    return with_room_for_rounding(epsilon, lambda epsilon: _memorise(task, length, epsilon, memory_gib, seed))


def _memorise(task: RetrievalTask, length: int, epsilon: float, memory_gib: float, seed: int) -> Construction:
    assumptions = assumptions_of(task, length, seed)
    plan = _plan_that_fits(task, length, epsilon, memory_gib, seed)
    phi, steepness = plan.phi, plan.steepness
    readout = _readout(plan.psis, phi, [p.indices(length) for p in task.positions], plan.levels, length)
    slots = length * task.token_dim
    model = Transformer(
        encoder=_encoder(length, task.token_dim),
        token_layers=(),
        class_token=np.zeros(slots),
        attention=_attention(slots),
        readout=readout,
        architecture=plan.architecture,
    )
    parts = {
        "networks of the f_i": steepness * max(net.error for net in plan.psis),
        "levels of the minimum": steepness / plan.levels,
        "network of F_0": phi.error,
    }
    lost = rounding(model, length, plan.coordinates, plan.outer, softened=0.0, parts=parts)
    points = plan.outer.points + sum(net.points for net in (*plan.psis, phi))
    error = certified({**parts, ROUNDING: lost}, points=points)
    return Construction(
        name="memorise",
        task=task,
        length=length,
        epsilon=epsilon,
        model=model,
        labels=tuple(f"x({t})_{j} / {length}" for t in range(length) for j in range(task.token_dim)),
        error=error,
        guarantees=guarantees(assumptions, proven=error.proven),
    )


@dataclass(frozen=True, eq=False)
class Plan:
    """The networks of the f_i and of F_0, the levels of the minima, and the model that they lead to."""

    coordinates: tuple[Coordinate, ...]
    outer: Outer
    psis: tuple[Shallow, ...]
    phi: Shallow
    steepness: float
    set_sizes: tuple[int, ...]
    levels: int
    architecture: Architecture
    epsilon: float

    @property
    def gib(self) -> float:
        """The memory of all weights."""
        attention = 4 * self.architecture.width**2
        return _BYTES * (self.architecture.counted_parameters() + attention) / 2**30

    @property
    def connections(self) -> int:
        """The weights of P and F that are not zero: most of the dense matrices is."""
        encoder = 3 * self.architecture.width
        through = zip(self.psis, self.set_sizes, strict=True)
        units = sum(
            size * (np.count_nonzero(net.inner) + self.levels * np.count_nonzero(net.outer))
            for net, size in through
        )
        sums = 2 * self.levels * sum(self.set_sizes)
        combined = 2 * self.levels * np.count_nonzero(self.phi.inner) + np.count_nonzero(self.phi.outer)
        return int(encoder + units + sums + combined)


def plan_memorise(task: RetrievalTask, *, length: int, epsilon: float, seed: int = 0) -> Plan:
    """How large `memorise` would be, without building it.

    >>> from headcount.tasks.library import bowls
    >>> plan = plan_memorise(bowls(dimension=2, token_dim=1), length=16, epsilon=1e-3)
    >>> plan.architecture.readout_hidden[1] == 2 * 16 * plan.levels
    True
    """
    coordinates = coordinates_of(task, seed=seed)
    outer = Outer(task, coordinates)
    steepness = max(outer.steepness, 1e-12)
    whole = (partial(outer.network, seed=seed), 1 / 2)
    (phi,) = within_reach(epsilon, [whole], finest=outer.resolution)
    # What phi leaves of epsilon is shared so that the largest layer, levels × units, is smallest.
    left = max(1 - phi.error / epsilon, 1 / 2) * 0.999 / steepness
    parts = [(partial(coordinate.network, seed=seed), left / 3) for coordinate in coordinates]
    psis = tuple(within_reach(epsilon, parts, finest=outer.resolution))
    levels = max(1, ceil(1 / (epsilon * left - max(net.error for net in psis))))
    positions = [len(p.indices(length)) for p in task.positions]
    architecture = Architecture(
        token_dim=task.token_dim,
        heads=1,
        head_dim=length * task.token_dim,
        output_dim=task.output_dim,
        encoder_hidden=(length * task.token_dim,),
        readout_hidden=(
            sum(net.units * count for net, count in zip(psis, positions, strict=True)),
            levels * sum(positions),
            2 * levels * task.dimension,
            phi.units,
        ),
        readout_activation="relu",
        positions="one_hot",
        length=length,
        scale_logits=False,
    )
    return Plan(coordinates, outer, psis, phi, steepness, tuple(positions), levels, architecture, epsilon)


def _plan_that_fits(task: RetrievalTask, length: int, epsilon: float, memory_gib: float, seed: int) -> Plan:
    """The plan for epsilon; or why it does not fit, and an epsilon that does."""
    reason, possible = "", epsilon
    while True:
        try:
            plan = plan_memorise(task, length=length, epsilon=possible, seed=seed)
        except OutOfReach as error:
            reason, possible = reason or error.reason, rounded_up(error.possible)
            continue
        if plan.gib <= memory_gib:
            break
        size = f"at length {length} the weights take {plan.gib:.3g} GiB"
        reason = reason or f"{size}, more than memory_gib = {memory_gib:g}"
        if possible > 2 * plan.steepness + 1:  # a constant would do as well
            raise InvalidInput(f"epsilon = {epsilon:g}: {reason}; no epsilon fits, a shorter length would")
        # Memory falls like a power of epsilon between 1 and 2.5: no step leaps over what fits.
        possible = rounded_up(possible * max(1.2, (plan.gib / memory_gib) ** 0.4))
    if reason:
        raise InvalidInput(f"epsilon = {epsilon:g}: {reason}; epsilon = {possible:g} would fit")
    return plan


def _encoder(length: int, token_dim: int) -> Network:
    """e_t ⊗ x(t): slot (t, j) is relu(x_j + e_t − 1), which is x_j at position t and 0 elsewhere."""
    tokens = np.tile(np.eye(token_dim), (length, 1))
    places = np.repeat(np.eye(length), token_dim, axis=0)
    slots = length * token_dim
    first = np.concatenate([tokens, places], axis=1)
    return Network((first, np.eye(slots)), (-np.ones(slots), np.zeros(slots)), "relu")


def _attention(slots: int) -> Attention:
    """A class token of zeros asks nothing, so all tokens weigh the same; values are the slots as they are."""
    nothing, as_it_is = np.zeros((1, slots, slots)), np.eye(slots)[None]
    return Attention(nothing, nothing, as_it_is, np.eye(slots).reshape(slots, 1, slots))


def _readout(
    psis: tuple[Shallow, ...],
    phi: Shallow,
    sets: list[Float[np.ndarray, " positions"]],
    levels: int,
    length: int,
) -> Network:
    """Relu layers: units of the psi_i, levels of 1 − psi_i, their capped sums, units of F_0.

    Between two layers stands one affine map; where the parts meet it is the product of the two parts' own.
    """
    first, first_bias, second, second_bias, third, third_bias = ([] for _ in range(6))
    minima = []
    for net, positions in zip(psis, sets, strict=True):
        places = np.eye(length)[positions] * length  # undoes the division by T
        first.append(np.kron(places, net.inner))
        first_bias.append(np.tile(net.offset, len(positions)))
        largest = maximum(len(positions), levels)
        values = np.kron(np.eye(len(positions)), -net.outer)  # 1 − psi at each position
        second.append(largest.first @ values)
        second_bias.append(largest.first @ np.full(len(positions), 1 - net.constant[0]) + largest.first_bias)
        third.append(largest.middle)
        third_bias.append(largest.middle_bias)
        minima.append(-largest.last)  # 1 − max(1 − psi)
    read = phi.inner @ block_diag(*minima)
    return Network(
        (np.concatenate(first), block_diag(*second), block_diag(*third), read, phi.outer),
        (
            np.concatenate(first_bias),
            np.concatenate(second_bias),
            np.concatenate(third_bias),
            phi.inner.sum(axis=1) + phi.offset,
            phi.constant,
        ),
        "relu",
    )

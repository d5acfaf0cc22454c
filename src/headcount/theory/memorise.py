"""h = 1, n = T·d: one wide head carries the whole sequence to the readout, which does all the work."""

from dataclasses import dataclass
from math import ceil

import numpy as np
from jaxtyping import Float

from headcount.errors import InvalidInput
from headcount.models import Architecture, Transformer
from headcount.models.network import Network
from headcount.models.transformer import Attention
from headcount.tasks import RetrievalTask
from headcount.theory.building.construction import Bound, Construction, checked, guarantees
from headcount.theory.building.coordinates import Coordinate, coordinates_of
from headcount.theory.building.extremum import maximum
from headcount.theory.building.outer import Outer
from headcount.theory.building.shallow import Shallow, within_reach
from headcount.validation import finite_number

MEMORY_GIB = 1.0
_BYTES = 8


def memorise(
    task: RetrievalTask,
    *,
    length: int,
    epsilon: float,
    memory_gib: float = MEMORY_GIB,
    seed: int = 0,
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
    >>> bool(abs(made.predict([[0.5], [0.25], [1.0], [0.75]]) - 1.25) < made.bound.total)
    True
    """
    epsilon, length = checked(epsilon, length)
    finite_number("memory_gib", memory_gib, above=0)
    coordinates = coordinates_of(task, seed=seed)
    outer = Outer(task, coordinates)
    steepness = max(outer.steepness, 1e-12)
    with within_reach(epsilon):
        phi = outer.network(epsilon / 2, seed=seed)
        plan = _plan(task, coordinates, length, epsilon, phi, steepness, seed)
    if plan.gib > memory_gib:
        raise InvalidInput(_too_large(task, coordinates, length, plan, phi, steepness, memory_gib, seed))
    readout = _readout(plan.psis, phi, [p.indices(length) for p in task.positions], plan.levels, length)
    slots = length * task.token_dim
    fitted = not all(net.proven for net in (*plan.psis, phi))
    return Construction(
        name="memorise",
        task=task,
        length=length,
        epsilon=epsilon,
        model=Transformer(
            encoder=_encoder(length, task.token_dim),
            token_layers=(),
            class_token=np.zeros(slots),
            attention=_attention(slots),
            readout=readout,
            architecture=Architecture(
                token_dim=task.token_dim,
                heads=1,
                head_dim=slots,
                output_dim=task.output_dim,
                encoder_hidden=(slots,),
                readout_hidden=tuple(len(bias) for bias in readout.biases[:-1]),
                readout_activation="relu",
                positions="one_hot",
                length=length,
                scale_logits=False,
            ),
        ),
        labels=tuple(f"x({t})_{j} / {length}" for t in range(length) for j in range(task.token_dim)),
        bound=Bound(
            {
                "networks of the f_i": steepness * max(net.error for net in plan.psis),
                "levels of the minimum": steepness / plan.levels,
                "network of F_0": phi.error,
            },
            proven=not fitted,
        ),
        guarantees=guarantees(task, length, seed=seed, fitted=fitted),
    )


@dataclass(frozen=True, eq=False)
class _Plan:
    """The networks of the f_i, the levels of the minima, and the layer widths that they lead to."""

    psis: tuple[Shallow, ...]
    levels: int
    sizes: tuple[int, ...]
    epsilon: float

    @property
    def gib(self) -> float:
        """The memory of the readout's weights; the attention's four matrices are small beside them."""
        pairs = zip(self.sizes, self.sizes[1:], strict=False)
        attention = 4 * self.sizes[0] ** 2
        return _BYTES * (sum(before * after for before, after in pairs) + attention) / 2**30


def _plan(
    task: RetrievalTask,
    coordinates: tuple[Coordinate, ...],
    length: int,
    epsilon: float,
    phi: Shallow,
    steepness: float,
    seed: int,
) -> _Plan:
    # What phi leaves of epsilon is shared so that the largest layer, levels × units, is smallest.
    left = max(epsilon - phi.error, epsilon / 2) * 0.999 / steepness
    psis = tuple(coordinate.network(left / 3, seed=seed) for coordinate in coordinates)
    levels = ceil(1 / (left - max(net.error for net in psis)))
    positions = [len(p.indices(length)) for p in task.positions]
    sizes = (
        length * task.token_dim,
        sum(net.units * count for net, count in zip(psis, positions, strict=True)),
        levels * sum(positions),
        2 * levels * task.dimension,
        phi.units,
        task.output_dim,
    )
    return _Plan(psis, levels, sizes, epsilon)


def _too_large(
    task: RetrievalTask,
    coordinates: tuple[Coordinate, ...],
    length: int,
    plan: _Plan,
    phi: Shallow,
    steepness: float,
    memory_gib: float,
    seed: int,
) -> str:
    """What was asked for, and the smallest epsilon that would fit."""
    wanted, epsilon = plan.gib, plan.epsilon
    needs = f"epsilon = {epsilon:g}: at length {length} the readout's weights take {wanted:.3g} GiB, "
    while plan.gib > memory_gib:
        epsilon *= 1.1
        if epsilon > 1e3:
            return f"{needs}and no epsilon fits into memory_gib = {memory_gib:g}; a shorter length would"
        plan = _plan(task, coordinates, length, epsilon, phi, steepness, seed)
    return f"{needs}more than memory_gib = {memory_gib:g}; epsilon = {epsilon:.3g} would fit"


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
    token_dim = psis[0].inner.shape[1]
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
    assert first[0].shape[1] == length * token_dim
    read = phi.inner @ _block_diagonal(minima)
    return Network(
        (np.concatenate(first), _block_diagonal(second), _block_diagonal(third), read, phi.outer),
        (
            np.concatenate(first_bias),
            np.concatenate(second_bias),
            np.concatenate(third_bias),
            phi.inner.sum(axis=1) + phi.offset,
            phi.constant,
        ),
        "relu",
    )


def _block_diagonal(blocks: list[np.ndarray]) -> np.ndarray:
    rows, columns = (sum(block.shape[axis] for block in blocks) for axis in (0, 1))
    whole = np.zeros((rows, columns))
    row = column = 0
    for block in blocks:
        whole[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return whole

"""Measured exponents beside those of the theory: of parameters, and of the closest representations."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from headcount.errors import InvalidInput
from headcount.models.architecture import Architecture
from headcount.models.transformer import Transformer
from headcount.tasks.library import Bowl, Projection, bowls
from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.assumptions.checks import check_assumptions
from headcount.theory.collisions.pigeonhole import ROUNDING, pigeonhole
from headcount.theory.constructions.construction import Construction
from headcount.theory.constructions.coordinates import Outer, coordinates_of
from headcount.theory.constructions.memorise import plan_memorise
from headcount.theory.constructions.shallow import OutOfReach
from headcount.theory.constructions.specialise import specialise
from headcount.theory.theorem import Setting, lower_bound
from headcount.validation import check_number, expected


def geometric(smallest: float) -> tuple[float, ...]:
    """Seven epsilons from 0.1 down."""
    return tuple(float(epsilon) for epsilon in np.geomspace(1e-1, smallest, 7))


EPSILONS = geometric(1e-4)
GAMMA = 2.0  # the theorem's, for a finite Barron norm
_TWO_BOWLS = bowls(dimension=2, token_dim=2, wells=[[0.15, 0.2], [0.8, 0.75]])


@dataclass(frozen=True)
class Rate:
    """A quantity at several epsilons, the exponent that a line through the logarithms has, and others.

    - `theorem`: what the theorem says with gamma = 2, nothing measured: an upper end for parameters, and for
      the exponent of a gap, where there is no gamma, a lower end.
    - `formula`: what the formula of the knots says, nothing measured; None where networks are fitted.
    - `from_measured_gamma`: what the theorem makes of the gamma measured in the same run. That is no
      prediction: it tests how gamma leads to the other exponents, and not what gamma is.
    """

    name: str
    epsilons: tuple[float, ...]
    values: tuple[float, ...]
    theorem: float
    formula: float | None = None
    from_measured_gamma: float | None = None

    @property
    def exponent(self) -> float:
        """The slope of log(value) against |log(epsilon)|: positive where the value grows as epsilon falls."""
        return float(np.polyfit(-np.log(self.epsilons), np.log(self.values), 1)[0])

    def to_json(self) -> dict[str, Any]:
        """All fields and the exponent."""
        return {**asdict(self), "exponent": self.exponent}


def parameter_rates(
    task: RetrievalTask, *, length: int, epsilons: Sequence[float] = EPSILONS, seed: int = 0
) -> tuple[Rate, ...]:
    """Parameters of `specialise` and of `memorise`, beside gamma and 1 + gamma.

    Three gammas: 2, the theorem's for a finite Barron norm; 1/2 for bowls and 0 for projections, by the
    formula of their knots; and the measured one, units of the very networks that both are made of against
    their tolerance. `memorise` reaches 1 + gamma where only weights that are not zero count. As dense
    matrices the capped sums, N levels of every token into 2N units, bring it to 2 at least.

    >>> rates = parameter_rates(bowls(dimension=2, token_dim=1), length=8)
    >>> [round(rate.exponent, 1) for rate in rates[:3]]
    [0.5, 0.5, 1.5]
    """
    made = _down_to_the_finest(task, length, _checked(epsilons), seed)
    epsilons = tuple(each.epsilon for each in made)
    known = _gamma_of_knots(task)
    units = _network_rate(task, epsilons, seed, known)
    plans = [plan_memorise(task, length=length, epsilon=epsilon, seed=seed) for epsilon in epsilons]
    counted = [float(each.model.counted_parameters()) for each in made]
    dense = [float(plan.architecture.counted_parameters()) for plan in plans]
    connected = [float(plan.connections) for plan in plans]

    def rate(name: str, values: list[float], exponent: Callable[[float], float]) -> Rate:
        formula = None if known is None else exponent(known)
        return Rate(name, epsilons, tuple(values), exponent(GAMMA), formula, exponent(units.exponent))

    return (
        units,
        rate("specialise: parameters", counted, lambda gamma: gamma),
        rate("memorise: nonzero weights", connected, lambda gamma: 1 + gamma),
        rate("memorise: dense entries", dense, lambda gamma: max(2.0, 1 + gamma)),
    )


def _gamma_of_knots(task: RetrievalTask) -> float | None:
    """1/2 where a bowl is among the f_i, as its knots lie sqrt(delta) apart; 0 for projections alone."""
    kinds = {type(function) for function in task.coordinate_functions}
    if task.outer is not jnp.sum or not kinds <= {Bowl, Projection}:
        return None
    return 0.5 if Bowl in kinds else 0.0


def _down_to_the_finest(
    task: RetrievalTask, length: int, epsilons: tuple[float, ...], seed: int
) -> list[Construction]:
    """From coarse to fine, as far as networks can be fitted."""
    made: list[Construction] = []
    for epsilon in sorted(epsilons, reverse=True):
        try:
            made.append(specialise(task, length=length, epsilon=epsilon, seed=seed))
        except OutOfReach:
            if len(made) < 2:
                raise
            break
    return made


def guaranteed(task: RetrievalTask, *, length: int, seed: int = 0) -> tuple[str, ...]:
    """What the exponents of the theory rest on, checked on the task and on the bowls of `gap_rates`."""
    constructed = specialise(task, length=length, epsilon=max(EPSILONS), seed=seed).guarantees
    lines = [
        f"assumption 2 of the two bowls: {finding.clause} {finding.verdict}"
        for finding in check_assumptions(_TWO_BOWLS, length=8).select("2")
        if finding.verdict != "holds"
    ]
    return (*constructed, *(lines or ["assumption 2 of the two bowls holds: k is theirs"]))


def _network_rate(task: RetrievalTask, epsilons: tuple[float, ...], seed: int, known: float | None) -> Rate:
    coordinates = coordinates_of(task, seed=seed)
    outer = Outer(task, coordinates)
    share = 4 * max(outer.steepness, 1e-12) * task.dimension

    def units(epsilon: float) -> float:
        nets = [coordinate.network(epsilon / share, seed=seed) for coordinate in coordinates]
        return float(sum(net.units for net in nets) + outer.network(epsilon / 2, seed=seed).units)

    return Rate(
        "units of the networks: gamma",
        epsilons,
        tuple(units(epsilon) for epsilon in epsilons),
        GAMMA,
        known,
    )


@dataclass(frozen=True)
class GapRate(Rate):
    """The closest representation gap of candidates whose targets are 3 epsilon apart, at one length."""

    length: int = 0
    candidates: tuple[int, ...] = ()

    @property
    def exponent(self) -> float:
        """A gap falls with epsilon: the slope of log(gap) against log(epsilon)."""
        return -super().exponent


def gap_rates(
    *,
    lengths: Sequence[int] = (5, 6, 7, 8),
    points: Sequence[int] = (2, 3, 4, 6, 8, 12, 16, 24),
    candidates: int = 300_000,
    seed: int = 0,
) -> tuple[GapRate, ...]:
    """Bowls with D = 2 and one head of one number: the closest gap against epsilon, beside k + 1.

    So few dimensions that every candidate can be tried, as the proof would: lengths and points whose
    candidates are more than `candidates` are left out. The model is a random start with a curved encoder;
    with a straight one many candidates would coincide exactly.
    """
    architecture = Architecture(token_dim=2, heads=1, head_dim=1, encoder_activation="tanh")
    model = jax.tree.map(
        lambda leaf: 3 * np.asarray(leaf, np.float64), Transformer.initialise(architecture, seed=seed)
    )
    rates = []
    for length in lengths:
        found = [
            pigeonhole(model, _TWO_BOWLS, length, points=count, candidates=candidates, seed=seed)
            for count in points
            if count ** (length - 2) <= candidates
        ]
        found = [pair for pair in found if pair.representation_gap > ROUNDING]
        if len(found) < 2:
            raise InvalidInput(
                f"length = {length}: fewer than two numbers of points fit into {candidates} candidates"
            )
        setting = Setting(dimension=2, heads=1, head_dim=1, length=length, token_dim=2)
        exponent = lower_bound(setting).exponent
        assert exponent is not None
        rates.append(
            GapRate(
                f"closest gap at T = {length}",
                tuple(pair.epsilon for pair in found),
                tuple(pair.representation_gap for pair in found),
                theorem=exponent + 1,
                length=length,
                candidates=tuple(pair.candidates for pair in found),
            )
        )
    return tuple(rates)


def _checked(epsilons: Sequence[float]) -> tuple[float, ...]:
    checked = tuple(check_number("epsilon", epsilon, above=0) for epsilon in epsilons)
    if len(set(checked)) < 2:
        raise expected("epsilons", "at least two different values", list(checked))
    return checked

"""Explicit weights for shapes: the plain formula of the model class beside the definition of the task."""

from dataclasses import replace

import numpy as np
import pytest
from theory.constructions.construction_cases import distance, own, sequences

from headcount.errors import InvalidInput
from headcount.tasks.library import bowls, extremes, max_sum, product
from headcount.theory.capacity import capacity
from headcount.theory.constructions.composed import readout_of
from headcount.theory.constructions.coordinates import Outer, coordinates_of
from headcount.theory.constructions.span import deal, rank_of
from headcount.theory.constructions.specialise import specialise
from headcount.theory.shape import Shape

pytestmark = pytest.mark.usefixtures("one_answer")
EPSILON = 9e-3


def maxima(dimension, *, outer=None, positions="all"):
    task = max_sum(
        dimension=dimension, token_dim=dimension, directions=np.eye(dimension), positions=positions
    )
    task = replace(task, distribution="uniform")
    return task if outer is None else replace(task, outer=outer)


def built(task, length=8, **shape):
    return specialise(task, length=length, epsilon=EPSILON, **shape)


def assert_within_its_bound(made):
    architecture = made.model.architecture
    x = sequences(made.task, made.length, count=4)
    random = np.random.default_rng(1)
    # Tokens that a softmax of this sharpness can hardly tell apart are the hardest.
    near = np.clip(x[:4, :1] + random.normal(size=x[:4].shape) / architecture.beta, 0, 1)
    error = distance(made, np.concatenate([x, near]))
    assert error <= made.error.total < EPSILON


def assert_no_narrower(made, **shape):
    """A stream one number narrower would not do, by what `capacity` counts."""
    architecture, dimension = made.model.architecture, made.task.dimension
    shape |= {"layers": architecture.layers, "heads": architecture.heads, "head_dim": architecture.head_dim}
    shape |= {"kv_heads": architecture.key_value_heads}
    assert capacity(**shape, width=architecture.width).constructed >= dimension
    if architecture.width > 1:
        assert capacity(**shape, width=architecture.width - 1).constructed < dimension


CAPACITIES = [
    (layers, heads, kv_heads, reading)
    for layers in (1, 2, 3)
    for heads, kv_heads in ((1, 1), (2, 1), (2, 2), (3, 1))
    for reading in ("last", "every", "last token")
]


@pytest.mark.parametrize(("layers", "heads", "kv_heads", "reading"), CAPACITIES)
def test_every_shape_is_built_at_its_capacity_and_refused_beyond(layers, heads, kv_heads, reading):
    shape = {"layers": layers, "heads": heads, "kv_heads": kv_heads, "reading": reading}
    mask = "causal" if reading == "last token" else "full"
    reach = capacity(**shape, head_dim=64, mask=mask)
    made = built(maxima(min(reach.constructed, 9)), **shape)
    assert made.model.architecture.layers == layers
    assert_within_its_bound(made)
    assert_no_narrower(made, reading=reading, mask=mask)
    if reach.constructed < 9:
        with pytest.raises(InvalidInput, match=f"expected at most {reach.constructed} ") as refusal:
            built(maxima(reach.constructed + 1), **shape)
        assert reach.law in str(refusal.value)


@pytest.mark.parametrize("reading", ["last", "every"])
def test_the_smallest_number_of_numbers_is_found_and_one_less_refused(reading):
    shape = {"layers": 2, "heads": 2, "kv_heads": 1, "reading": reading}
    task = maxima(4)
    made = built(task, **shape)
    numbers = made.model.architecture.head_dim
    assert numbers == {"last": 4, "every": 2}[reading]
    with pytest.raises(InvalidInput, match=r"kv·n"):
        built(task, head_dim=numbers - 1, **shape)


def test_a_product_of_many_coordinates_is_within_its_bound():
    made = built(maxima(6, outer=product), layers=2, heads=2, kv_heads=1)
    assert len(made.model.readout.weights) == 4
    assert_within_its_bound(made)


@pytest.mark.parametrize("name", ["sets", "all"])
@pytest.mark.parametrize("reading", ["last", "every", "last token"])
def test_position_sets_are_kept_in_several_layers(name, reading):
    sets = ["first half", "second half"] if name == "sets" else "all"
    made = built(bowls(dimension=2, token_dim=1, positions=sets), layers=2, heads=1, reading=reading)
    assert_within_its_bound(made)


@pytest.mark.parametrize(("reading", "dimension"), [("last", 9), ("every", 12), ("last", 7), ("every", 10)])
def test_places_let_tokens_ask_for_different_coordinates(reading, dimension):
    made = built(maxima(dimension), layers=2, heads=3, reading=reading, positions=True)
    assert made.model.architecture.positions == "one_hot"
    assert made.model.architecture.feedforward == 0
    assert_within_its_bound(made)
    assert_no_narrower(made, reading=reading, positions=True)


@pytest.mark.parametrize("layers", [2, 3])
@pytest.mark.parametrize("heads", [1, 2])
def test_with_a_network_two_layers_reach_what_their_numbers_hold(layers, heads):
    task = maxima(8)
    made = built(
        task, length=12, layers=layers, heads=heads, reading="last", positions=True, feedforward=True
    )
    assert made.model.architecture.heads == heads
    assert_within_its_bound(made)
    assert_no_narrower(made, reading="last", positions=True, feedforward=True)


def test_a_sequence_too_short_for_all_groups_is_refused():
    with pytest.raises(InvalidInput, match="length: expected at least 8"):
        built(maxima(8), length=7, layers=2, heads=1, positions=True, feedforward=True)


ABILITIES = ({}, {"positions": True}, {"positions": True, "feedforward": True})


def is_built(dimension, length, shape):
    try:
        made = built(maxima(dimension), length=length, **shape)
    except InvalidInput:
        return False
    assert made.error.total < EPSILON
    return True


@pytest.mark.parametrize("length", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("reading", ["last", "every"])
@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), [(1, 1, 3), (2, 1, 5), (3, 3, 3), (4, 4, 2)])
def test_what_is_built_of_a_length_is_its_capacity_and_grows_with_abilities(
    heads, kv_heads, head_dim, reading, length
):
    shape = {"layers": 2, "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "reading": reading}
    reached = 0
    for abilities in ABILITIES:
        reach = capacity(**shape, **abilities, length=length).constructed
        assert reach >= reached
        assert is_built(reach, length, shape | abilities)
        assert is_built(max(reached, 1), length, shape | abilities)
        assert not is_built(reach + 1, length, shape | abilities)
        reached = reach


def test_a_network_takes_nothing_away_where_sequences_are_short():
    shape = {"layers": 2, "heads": 3, "head_dim": 9, "reading": "last", "length": 4, "positions": True}
    for feedforward in (False, True):
        assert_within_its_bound(built(maxima(7), feedforward=feedforward, **shape))
    with pytest.raises(InvalidInput, match="length: expected at least 10, a token for every group, got 4"):
        built(maxima(10), feedforward=True, **shape)


@pytest.mark.parametrize(
    ("task", "heads", "numbers"),
    [
        (extremes(), 2, 1),
        (bowls(dimension=4, token_dim=1), 4, 2),
        (replace(max_sum(dimension=4, token_dim=2, smallest_angle=20), distribution="uniform"), 4, 2),
    ],
    ids=["max and min of one function", "bowls on a line", "directions in a plane"],
)
def test_functions_that_depend_on_each_other_need_the_numbers_of_their_span(task, heads, numbers):
    assert_within_its_bound(built(task, heads=heads, kv_heads=1, head_dim=numbers))
    if numbers > 1:
        with pytest.raises(InvalidInput, match="kv·n"):
            built(task, heads=heads, kv_heads=1, head_dim=numbers - 1)
    # Spread over two key-value heads, each share must fit on its own: two bowls span two dimensions.
    if heads == 4:
        with pytest.raises(InvalidInput):
            built(task, heads=heads, kv_heads=2, head_dim=1)


def test_shares_are_dealt_so_that_each_span_fits():
    x, y = np.random.default_rng(0).uniform(size=(2, 50))
    values = np.stack([x, y, 1 - x, 2 * y + 1], axis=1)
    assert rank_of(values) == 2
    shares = deal(values, Shape(1, 4, 2, 1))
    assert shares is not None
    assert sorted(map(sorted, shares)) == [[0, 2], [1, 3]]
    assert deal(np.stack([x, y, x * y, x**2], axis=1), Shape(1, 4, 2, 1)) is None


def test_own_functions_without_structure_are_fitted_in_several_layers():
    def wavy(token):
        return 0.5 + 0.4 * token[0] * token[1]

    task = own(wavy, lambda token: token[0])
    made = specialise(task, length=4, epsilon=0.5, layers=2, heads=1, reading="last")
    assert distance(made, sequences(task, 4, count=4)) <= made.error.total <= 0.5


def test_a_product_as_an_exponential_is_as_close_as_it_says():
    task = maxima(5, outer=product)
    outer = Outer(task, coordinates_of(task))
    made = readout_of(outer, 1e-2)
    z = np.random.default_rng(0).uniform(size=(500, 5))
    values = z.T
    for place, (weight, bias) in enumerate(zip(made.weights, made.biases, strict=True)):
        values = weight @ values + bias[:, None]
        values = np.maximum(values, 0) if place < len(made.weights) - 1 else values
    assert np.abs(values[0] - np.prod(2 - z, axis=1)).max() <= made.error <= 1e-2


def test_a_gate_of_ones_own_goes_with_the_usual_shape_alone():
    with pytest.raises(InvalidInput, match="gate"):
        specialise(maxima(2), length=4, epsilon=0.1, layers=2, gate=-3.0)

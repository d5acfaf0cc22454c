"""The capacity of a shape: the schedule against an exhaustive search, and laws that must follow from it."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interpreted import steps

from headcount.errors import InvalidInput
from headcount.models.architecture import Architecture
from headcount.models.positions import visible
from headcount.theory.bounds import bounds
from headcount.theory.capacity import capacity, sums_in_two_layers
from headcount.theory.schedule import numbers_of_stream, schedule
from headcount.theory.shape import Shape, relays_of_window
from headcount.theory.sight import relays

quickly = settings(max_examples=80)
WHOLE = {"positions": True, "feedforward": True}


sights = st.just({}) | st.fixed_dictionaries(
    {
        "window": st.integers(1, 9),
        "stride": st.none() | st.integers(1, 5),
        "global_tokens": st.integers(0, 1),
        "length": st.just(9),
    }
)


@st.composite
def shapes(draw, most=6):
    kv_heads, group = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    reading = draw(st.sampled_from(["last", "every", "last token"]))
    mask = "causal" if reading == "last token" else draw(st.sampled_from(["full", "causal"]))
    layers, head_dim = draw(st.integers(1, most)), draw(st.integers(1, 12))
    sparse = draw(sights) if mask == "full" else {}
    return Shape(layers, kv_heads * group, kv_heads, head_dim, reading, mask, **sparse)


@cache
def most_by_trying(layers, heads, numbers, reading, gathers):
    """The largest D over every way to share the numbers of every layer, by walking through the layers."""
    reached = {(0, 0)}  # (read by the reader, waiting at the tokens)
    for layer in range(layers):
        last = layer == layers - 1
        after = set()
        for done, waiting in reached:
            can_read = last or reading != "last"
            for read in range(min(heads, numbers) + 1 if can_read else 1):
                for handed in range(min(waiting, numbers - read) + 1 if can_read else 1):
                    most = 0 if last or not gathers else min(heads, numbers - read - handed)
                    after |= {
                        (done + read + handed, waiting - handed + gathered) for gathered in range(most + 1)
                    }
        reached = after
    return max(done for done, _ in reached)


@quickly
@given(shapes(most=3))
def test_no_other_way_to_share_the_numbers_reaches_further(shape):
    reach = most_by_trying(shape.layers, shape.heads, shape.numbers, shape.reading, shape.gathers)
    assert capacity(**{**vars(shape), "positions": False, "feedforward": False}).constructed == reach


@quickly
@given(shapes(), st.integers(1, 60))
def test_a_schedule_stays_within_every_limit(shape, dimension):
    works = schedule(shape, dimension)
    assert (works is None) == (dimension > capacity(**vars(shape)).constructed)
    if works is None:
        return
    assert len(works) == shape.layers
    assert sum(work.read + work.handed_over for work in works) == dimension
    waiting = 0
    for place, work in enumerate(works):
        assert max(work.read, work.gathered) <= shape.heads
        assert work.read + work.gathered + work.handed_over <= shape.numbers
        assert work.handed_over <= waiting
        waiting += work.gathered - work.handed_over
        if shape.reading == "last" and place < shape.layers - 1:
            assert work.read == work.handed_over == 0
    assert waiting == 0


@pytest.mark.parametrize("layers", [1, 2, 3, 4, 12])
@pytest.mark.parametrize("heads", [1, 2, 3, 8])
def test_with_numbers_enough_heads_and_layers_decide(layers, heads):
    def reach(reading, **more):
        return capacity(layers=layers, heads=heads, head_dim=64, reading=reading, **more).constructed

    assert reach("every") == (2 * layers - 1) * heads
    assert reach("last") == min(layers * heads, 64 * heads)
    assert reach("last token", mask="causal") == reach("every", mask="causal") == layers * heads
    assert reach("last", mask="causal") == heads


@quickly
@given(shapes())
def test_more_of_anything_never_reaches_less(shape):
    reach = capacity(**vars(shape)).constructed
    more = [
        {"layers": shape.layers + 1},
        {"head_dim": shape.head_dim + 1},
        {"heads": 2 * shape.heads, "kv_heads": 2 * shape.kv_heads},
        {"positions": True},
    ]
    for change in more:
        assert capacity(**{**vars(shape), **change}).constructed >= reach
    in_sums = sums_in_two_layers(shape.heads, shape.numbers, shape.reading)
    assert capacity(**vars(shape)).trained <= max(reach, in_sums) or shape.sparse


@quickly
@given(shapes(), st.integers(1, 12), st.integers(1, 80), st.booleans())
def test_more_abilities_tokens_or_heads_never_reach_less(shape, length, width, narrow):
    shape = replace(shape, length=shape.length or length, width=width if narrow else None)
    blind, placed, whole = (
        capacity(**vars(replace(shape, positions=positions, feedforward=feedforward))).constructed
        for positions, feedforward in ((False, False), (True, False), (True, True))
    )
    assert blind <= placed <= whole
    sees = {"positions": True, "feedforward": shape.kv_heads % 2 == 0}
    reach = capacity(**{**vars(shape), **sees}).constructed
    if not shape.sparse:
        assert reach <= capacity(**{**vars(shape), **sees, "length": shape.length + 1}).constructed
        assert reach <= capacity(**{**vars(shape), **sees, "length": None}).constructed
    if not narrow:
        assert (
            reach
            <= capacity(
                **{**vars(replace(shape, heads=2 * shape.heads, kv_heads=2 * shape.kv_heads)), **sees}
            ).constructed
        )


@quickly
@given(shapes(), st.integers(1, 60))
def test_a_narrow_stream_reaches_no_more_and_guesses_what_it_loses(shape, width):
    wide, narrow, wider = (capacity(**{**vars(shape), "width": each}) for each in (None, width, width + 1))
    assert narrow.constructed <= wider.constructed <= wide.constructed
    assert narrow.trained <= wider.trained <= wide.trained
    in_sums = sums_in_two_layers(shape.heads, shape.numbers, shape.reading)
    assert shape.sparse or narrow.trained <= max(narrow.constructed, in_sums)
    if narrow.constructed < wide.constructed:
        assert narrow.law.startswith(f"E = {width}: D = {narrow.constructed + 1} takes ")
        assert narrow.behind_trained == "guessed"


@pytest.mark.parametrize(
    ("shape", "law", "reach"),
    [
        ({"layers": 1, "heads": 4, "kv_heads": 1, "head_dim": 3}, "kv·n = 3 numbers a layer", 3),
        ({"layers": 2, "heads": 2, "kv_heads": 1, "head_dim": 2}, "kv·n = 2 numbers a layer", 4),
        (
            {"layers": 2, "heads": 3, "head_dim": 4, "reading": "last", "positions": True},
            "h² = 9 with positions, T >= 3",
            9,
        ),
        (
            {"layers": 2, "heads": 3, "head_dim": 4, "positions": True},
            "h² + h = 12 with positions, T >= 3",
            12,
        ),
        ({"layers": 2, "heads": 1, "head_dim": 8, "positions": True, "feedforward": True}, "kv·n = 8", 8),
        ({"layers": 2, "heads": 1, "head_dim": 8, **WHOLE, "length": 5}, "T = 5; heads are no limit", 5),
        (
            {"layers": 2, "heads": 4, "head_dim": 9, **WHOLE, "length": 3},
            "T·h + h = 16 with positions, T = 3",
            16,
        ),
        (
            {"layers": 2, "heads": 3, "head_dim": 9, **WHOLE, "length": 4},
            "h² + h = 12 with positions, T >= 3",
            12,
        ),
        ({"layers": 1, "heads": 2, "head_dim": 8, "positions": True, "feedforward": True}, "h = 2", 2),
        ({"layers": 2, "heads": 1, "head_dim": 8, "width": 5}, "E = 5: D = 3 takes 6 numbers", 2),
        ({"layers": 1, "heads": 4, "head_dim": 1, "width": 4}, "h = 4", 4),
        ({"layers": 3, "heads": 1, "head_dim": 8, "window": 4, "length": 9}, "L·h = 3, and 1 more in", 3),
        ({"layers": 3, "heads": 1, "head_dim": 8, "window": 8, "length": 9}, "(2L - 1)·h = 5", 5),
    ],
)
def test_the_law_that_binds_is_named(shape, law, reach):
    found = capacity(**shape)
    assert found.law.startswith(law)
    assert found.constructed == reach


def test_what_training_reaches_is_called_mapped_only_where_it_was():
    assert capacity(layers=2, heads=1, head_dim=24).behind_trained == "mapped"
    assert capacity(layers=12, heads=12, head_dim=64).behind_trained == "guessed"
    assert capacity(layers=2, heads=1, head_dim=24, window=2, length=9).behind_trained == "mapped"
    assert capacity(layers=2, heads=1, head_dim=24, window=2, length=16).behind_trained == "guessed"
    assert capacity(layers=2, heads=1, head_dim=24, width=5).behind_trained == "guessed"


@given(sights.filter(bool), st.integers(1, 4))
def test_tokens_hear_of_each_other_by_the_sight_of_the_model_class(sight, global_tokens):
    sight = {**sight, "global_tokens": sight["global_tokens"] * global_tokens}
    length = sight.pop("length")
    sees = visible(length, Architecture(token_dim=1, heads=1, head_dim=1, **sight))
    heard = [np.linalg.matrix_power(sees.astype(int), layers).all() for layers in range(1, length + 1)]
    for most in (1, 2, length):
        found = heard.index(True) + 1 if any(heard[:most]) else None
        assert relays(length, most=most, **sight) == found


def test_tokens_that_never_hear_of_each_other_are_known_by_that_at_once():
    assert relays(9, most=10**9, stride=2) is None
    assert relays(300, most=10**9, window=1) == 299


def most_in_numbers(shape, *, most):
    """The largest D whose schedule holds, tried from 1 on, with every sum taken anew in every layer."""
    reads = min(shape.heads, shape.numbers)
    best = 0
    for dimension in range(1, most + 1):
        works = schedule(shape, dimension)
        if works is None:
            return best
        for layer in range(shape.layers):
            known = sum(work.gathered for work in works[:layer])
            assert sum(work.handed_over for work in works[: layer + 1]) <= known
            assert works[layer].read <= reads
        best = dimension
    return best


@quickly
@given(shapes(most=12))
def test_the_capacity_is_that_of_trying_one_d_after_the_other(shape):
    assert capacity(**vars(shape)).constructed == most_in_numbers(shape, most=24 * shape.heads)


@quickly
@given(shapes(), st.integers(1, 60))
def test_the_stream_holds_what_the_schedule_puts_there(shape, dimension):
    works = schedule(shape, dimension)
    if works is None or shape.reading == "last token":
        return
    gathered = sum(work.gathered for work in works)
    asked = bool(gathered) + any(work.read for work in works[:-1])
    assert numbers_of_stream(shape, dimension) == dimension + gathered + asked


@given(st.integers(1, 40), st.integers(1, 45), st.integers(0, 3), st.integers(1, 40))
def test_a_window_passes_on_as_far_as_walking_through_the_layers_says(length, window, global_tokens, most):
    found = relays_of_window(length, window=window, global_tokens=global_tokens)
    tried = relays(length, most=most, window=window, global_tokens=global_tokens)
    assert tried == (found if found <= most else None)


@pytest.mark.parametrize("reading", ["last", "every", "last token"])
def test_large_shapes_are_no_more_work_than_small_ones(reading):
    def work(size, **more):
        sizes = {"layers": size, "heads": size, "head_dim": size}
        return steps(lambda: capacity(**sizes, reading=reading, **more))

    assert work(10_000) <= 1.1 * work(10)
    assert work(10_000, width=10**6) <= 10 * work(10, width=20)  # a bisection
    if reading != "last token":
        assert work(1000, window=3, length=2048) <= 1.1 * work(10, window=3, length=9)


def test_the_largest_shape_that_is_allowed_is_answered():
    sizes = {"layers": 10_000, "heads": 10_000, "head_dim": 10_000}
    assert capacity(**sizes).constructed == 19_999 * 10_000
    assert capacity(**sizes, reading="last").constructed == 10_000 * 10_000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heads": 0}, "heads: expected an integer from 1 to 10000, got 0"),
        ({"heads": 4, "kv_heads": 3}, "kv_heads: expected a divisor of heads = 4, got 3"),
        ({"reading": "twice"}, "reading: expected one of last, every, last token, got 'twice'"),
        ({"width": 0}, "width: expected an integer >= 1, got 0"),
        ({"window": 0, "length": 9}, "window: expected an integer >= 1, got 0"),
        ({"global_tokens": -1}, "global_tokens: expected an integer >= 0, got -1"),
        ({"window": 2}, "length: expected that of the sequences, with a window or a stride, got None"),
        ({"stride": 2, "length": 10**6}, "length: expected an integer from 1 to 2048, got 1000000"),
        ({"window": 2, "length": 9, "mask": "causal"}, "mask: expected full with a window or a stride"),
        (
            {"window": 2, "length": 9, "reading": "last token"},
            "reading: expected last or every with a window or a stride, got 'last token'",
        ),
    ],
)
def test_a_shape_that_is_none_is_refused(change, message):
    with pytest.raises(InvalidInput, match=f"^{message}"):
        capacity(**{"layers": 1, "heads": 1, "head_dim": 1, **change})


def test_bounds_of_several_layers_say_what_the_shape_reaches():
    found = bounds(dimension=5, heads=2, head_dim=8, length=64, layers=2)
    rows = {name: reason for name, _, reason in found.rows()}
    assert "within (2L - 1)·h = 6" in rows["read in every layer"]
    assert "beyond L·h = 4" in rows["read in the last layer"]
    assert not found.conjecture.vacuous

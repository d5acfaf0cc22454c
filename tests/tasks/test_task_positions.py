import numpy as np
import pytest

from headcount.errors import InvalidInput
from headcount.tasks.positions import Positions, position_sets


@pytest.mark.parametrize(
    ("rule", "indices"),
    [
        ("all", [0, 1, 2, 3, 4]),
        ("first half", [0, 1, 2]),
        ("second half", [3, 4]),
        ("even", [0, 2, 4]),
        ("odd", [1, 3]),
        ([4, 0], [0, 4]),
        (np.array([2, 1]), [1, 2]),
        (lambda length: range(length - 2, length), [3, 4]),
    ],
)
def test_a_rule_names_its_positions(rule: object, indices: list[int]) -> None:
    (positions,) = position_sets(rule)
    assert positions.indices(5).tolist() == indices
    assert np.flatnonzero(positions.mask(5)).tolist() == indices


def test_equal_sets_are_equal_whatever_the_order() -> None:
    assert Positions([3, 1]) == Positions((1, 3)) != Positions([3])
    assert hash(Positions([3, 1])) == hash(Positions((1, 3)))


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("evens", "positions: expected one of all, first half, .* got 'evens'"),
        ([], "positions: expected at least one, got none"),
        ([0, 2, 0], "positions: expected each index once, got 0 twice"),
        ([True], "position: expected an integer >= 0, got True"),
        (5, "positions: expected one of all, first half, .* got 5"),
    ],
)
def test_a_set_that_cannot_be_is_refused_at_once(rule: object, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Positions(rule)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("positions", "length", "words"),
    [
        (Positions([0, 7]), 7, "positions: expected indices from 0 to 6 at length 7, got 7"),
        (Positions("odd"), 1, "positions: expected at least one at length 1, got none"),
        (Positions(lambda length: [0, 0]), 3, "got 0 twice"),
        (Positions("all"), 2.0, "length: expected an integer >= 1, got 2.0"),
    ],
)
def test_a_length_that_does_not_fit_is_refused(positions: Positions, length: int, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        positions.indices(length)

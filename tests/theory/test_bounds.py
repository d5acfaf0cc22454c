import doctest
import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headcount.errors import InvalidInput
from headcount.theory.bounds import EVIDENCE, bounds
from headcount.theory.theorem import (
    LARGEST,
    Setting,
    conjecture,
    enough_heads,
    lower_bound,
    lower_bound_as_stated,
    uniqueness,
    wide_head,
)

DOCUMENT = Path(__file__).parents[2] / "docs" / "theory" / "bounds.md"
quickly = settings(max_examples=60)


def stated(**numbers):
    """The paper's synthetic setting at its largest length, with some numbers changed."""
    return Setting(**({"dimension": 4, "heads": 3, "head_dim": 8, "length": 128} | numbers))


def plain_exponent(setting, m):
    """The formula of the theorem, letter by letter."""
    s, n, D = setting.heads, setting.head_dim, setting.dimension
    return (m - s - D + 1) / Fraction((n + 1) * s + 1) - 1


@st.composite
def too_few_heads(draw, max_dimension=40):
    dimension, length = draw(st.integers(2, max_dimension)), draw(st.integers(1, 4000))
    return Setting(
        dimension=dimension,
        heads=draw(st.integers(1, dimension - 1)),
        head_dim=draw(st.integers(1, max_dimension)),
        length=length,
        smallest_set=draw(st.integers(1, length)),
    )


any_setting = st.builds(
    lambda length, part, **others: Setting(
        length=length, smallest_set=None if part is None else 1 + part % length, **others
    ),
    dimension=st.integers(1, 12),
    heads=st.integers(1, 14),
    head_dim=st.integers(1, 3000),
    length=st.integers(1, 2000),
    part=st.none() | st.integers(0, 10**6),
    token_dim=st.integers(1, 6),
    gamma=st.floats(0.1, 50.0),
    layers=st.integers(1, 4),
)


def found(setting):
    return bounds(**vars(setting))


@quickly
@given(too_few_heads())
def test_both_exponents_are_the_formula_exactly(setting):
    assert lower_bound(setting).exponent == float(plain_exponent(setting, Fraction(setting.smallest_set)))
    everywhere = replace(setting, smallest_set=None)
    quarter = plain_exponent(setting, Fraction(setting.length, 4))
    assert lower_bound_as_stated(everywhere).exponent == float(quarter)
    assert lower_bound_as_stated(everywhere).vacuous == (quarter <= 0)


@quickly
@given(too_few_heads())
def test_k_rises_with_the_smallest_set_and_falls_with_heads_and_their_size(setting):
    def changed(name):
        return lower_bound(replace(setting, **{name: getattr(setting, name) + 1})).exponent

    assume(setting.heads + 1 < setting.dimension)
    assume(setting.heads + setting.dimension - 1 < setting.smallest_set < setting.length)
    k = lower_bound(setting).exponent
    assert changed("heads") < k and changed("head_dim") < k < changed("smallest_set")


@settings(max_examples=25)
@given(too_few_heads(max_dimension=6), st.fractions(Fraction(1, 8), 1, max_denominator=9))
def test_the_smallest_length_is_the_first_with_a_positive_exponent(setting, share):
    claimed = lower_bound(setting, share=share).positive_from
    positive = [T for T in range(1, claimed + 20) if plain_exponent(setting, share * T) > 0]
    assert positive == list(range(claimed, claimed + 20))


def test_a_vacuous_reason_names_the_length_at_which_it_ends():
    for bound, first in ((lower_bound_as_stated, 137), (lower_bound, 35)):
        assert f"so T >= {first}" in bound(stated(length=34)).reason
        assert bound(stated(length=first - 1)).vacuous and not bound(stated(length=first)).vacuous
    assert "so T >= 218, while m / T stays 5/32" in lower_bound(stated(smallest_set=20)).reason


@quickly
@given(too_few_heads())
def test_an_exponent_never_comes_without_its_caveat(setting):
    bound = lower_bound(setting)
    assert bound.vacuous == bound.reason.startswith("vacuous at this T") == (bound.exponent <= 0)
    assert bound.five_layers * 4 == bound.exponent
    assert "(rT)^(-alpha T)" in bound.reason
    assert bound.vacuous != ("d, D << T << 1/eps" in bound.reason)


def test_enough_heads_or_several_layers_have_no_lower_bound():
    for changed, reason in (({"heads": 4}, "h = 4 is not below D = 4"), ({"layers": 2}, "one layer")):
        for bound in (lower_bound(stated(**changed)), lower_bound_as_stated(stated(**changed))):
            assert (bound.exponent, bound.positive_from, bound.five_layers) == (None, None, None)
            assert bound.vacuous and reason in bound.reason


def test_the_stated_form_needs_sets_of_a_quarter():
    small, quarter = stated(length=1024, smallest_set=255), stated(length=1024, smallest_set=256)
    assert lower_bound_as_stated(small).exponent is None
    assert "T/4 = 256 positions, the smallest has 255" in lower_bound_as_stated(small).reason
    assert not lower_bound(small).vacuous
    assert lower_bound_as_stated(quarter).exponent is not None


@quickly
@given(any_setting)
def test_enough_heads_cost_gamma_where_the_conditions_hold(setting):
    bound = enough_heads(setting)
    applies = setting.layers == 1 and setting.heads >= setting.dimension and setting.head_dim >= 2
    assert bound.exponent == (setting.gamma if applies else None)
    assert bound.vacuous != applies
    assert applies == (f"max(d, D) = {max(setting.token_dim, setting.dimension)}" in bound.reason)
    assert setting.layers == 1 or "one layer" in bound.reason


@quickly
@given(any_setting, st.integers(-1, 1), st.integers(1, 2))
def test_a_wide_head_costs_one_more(setting, off, layers):
    needed = setting.length * setting.token_dim
    setting = replace(setting, head_dim=max(1, needed + off), layers=layers)
    bound = wide_head(setting)
    applies = layers == 1 and setting.head_dim >= needed
    assert bound.vacuous != applies
    assert bound.exponent == (1 + setting.gamma if applies else None)
    assert bound.sharper == (max(1, setting.gamma) if applies else None)
    assert layers == 1 or "one layer" in bound.reason


@quickly
@given(any_setting)
def test_no_setting_has_both_a_lower_and_an_upper_exponent(setting):
    answer = found(setting)
    if not (answer.enough_heads.vacuous and answer.wide_head.vacuous):
        assert answer.lower.vacuous and answer.lower_as_stated.vacuous


@quickly
@given(any_setting)
def test_the_conjecture_gives_a_form_and_no_number(setting):
    answer = conjecture(setting)
    asks = setting.layers > 1 and setting.layers * setting.heads < setting.dimension
    assert answer.vacuous != asks
    assert (answer.form in answer.reason) == asks
    assert ("unproved" in answer.reason and "unknown" in answer.reason) == asks
    assert f"a_{setting.layers} * T^b_{setting.layers} / (n*h)" in answer.form
    assert answer.heads_needed == min(h for h in range(1, 13) if setting.layers * h >= setting.dimension)


@pytest.mark.parametrize("length", [1, *range(99, 300, 7), 99, 100, 249, 250, 499, 500, 849, 850, 5000])
def test_corollary_1_by_brute_force(length):
    sizes = range(1, 12)
    pairs = {(one, two) for one in sizes for two in sizes if Fraction(length, 50) >= one**2 + two**2}
    for dimension in (1, 2, 3, 4):
        answer = uniqueness(dimension=dimension, length=length)
        beside = {two for one, two in pairs if one == dimension}
        assert answer.largest_rival == max(beside, default=0)
        assert answer.largest_dimension == max((one for one, _ in pairs), default=0)
        assert answer.vacuous == (not beside - {dimension})
        assert answer.vacuous == (length < answer.speaks_from)
        assert answer.vacuous == answer.reason.startswith("says nothing")


@quickly
@given(any_setting)
def test_json_holds_all_and_leads_back(setting):
    answer = found(setting)
    loaded = json.loads(answer.to_json())
    assert bounds(**loaded["setting"]) == answer
    for name in ("lower_as_stated", "lower", "enough_heads", "wide_head", "conjecture", "uniqueness"):
        result = getattr(answer, name)
        assert loaded[name] | vars(result) == loaded[name]
        assert loaded[name]["vacuous"] == result.vacuous
    assert loaded["lower"]["five_layers"] == answer.lower.five_layers


huge = st.builds(
    Setting,
    **{
        name: st.sampled_from([1, 2, 1000, LARGEST - 1, LARGEST])
        for name in ("dimension", "heads", "head_dim", "length", "token_dim", "layers")
    },
    gamma=st.sampled_from([1e-300, 2.0, 1e308]),
)


@quickly
@given(any_setting | huge)
def test_the_table_has_every_reason_within_80_columns(setting):
    answer = found(setting)
    lines = str(answer).splitlines()
    assert max(map(len, lines)) <= 80
    squeezed = "".join("".join(line[line.find("  ") :] for line in lines).split())
    for _, _, reason in answer.rows():
        assert "".join(reason.split()) in squeezed


@pytest.mark.parametrize(
    ("attempt", "words"),
    [
        (lambda: stated(heads=-1), "heads: expected an integer from 1 to"),
        (lambda: stated(length=10**400), "length: expected an integer from 1 to 1073741824, got 1000"),
        (lambda: stated(smallest_set=129), "smallest_set: expected an integer from 1 to 128, got 129"),
        (lambda: stated(gamma=float("nan")), "gamma: expected a finite number > 0, got nan"),
        (lambda: lower_bound(stated(), share=Fraction(5, 4)), "share: expected"),
        (lambda: uniqueness(dimension=0, length=128), "dimension: expected"),
        (lambda: uniqueness(dimension=4, length=0), "length: expected"),
    ],
)
def test_invalid_input_is_refused_in_one_line(attempt, words):
    with pytest.raises(InvalidInput, match=words) as refusal:
        attempt()
    assert "\n" not in str(refusal.value)


def test_the_examples_of_the_document_run():
    done = doctest.testfile(str(DOCUMENT), module_relative=False)
    assert done.attempted > 5 and done.failed == 0


def test_every_row_of_the_theorem_says_what_stands_behind_it():
    found = bounds(dimension=4, heads=3, head_dim=8, length=128)
    for name, _, reason in found.rows():
        stands = [evidence for evidence in EVIDENCE.values() if reason.endswith(evidence)]
        assert name.startswith("conjecture") or len(stands) == 1
        if "five-layer" in name:
            assert stands[0].startswith("Formula only")
    assert json.loads(found.to_json())["evidence"] == EVIDENCE

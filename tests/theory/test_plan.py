"""Shapes for a D: the smallest of all, and what they cost, counted over the arrays of real members."""

from dataclasses import asdict, replace

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from interpreted import steps

from headcount.errors import InvalidInput
from headcount.models.architecture import Architecture
from headcount.models.transformer import Transformer
from headcount.theory.capacity import capacity
from headcount.theory.mapped import behind
from headcount.theory.plan import (
    LAYERS,
    Family,
    SizedShape,
    costs,
    divisors,
    heads_by_layers,
    in_a_sentence,
    plan,
)
from headcount.theory.shape import Shape

sizes = st.integers(1, 12)
families = st.builds(
    Family,
    width=st.none() | st.integers(1, 48),
    head_dim=st.none() | st.integers(1, 24),
    decoder=st.booleans(),
    whole=st.booleans(),
)


@given(dimension=st.integers(1, 24), layers=st.integers(1, 5), family=families)
def test_a_planned_shape_is_the_smallest_that_reaches_d(dimension, layers, family):
    (depth,) = plan(dimension, layers=[layers], family=family)
    for name in ("trained", "constructed"):
        found, split = getattr(depth, name), family.width is not None and family.head_dim is None
        possible = [
            shape
            for heads in range(1, (family.width if split else dimension) + 1)
            if not split or family.width % heads == 0
            for shape in [family.shape(layers, heads, kv) for kv in divisors(heads)]
            if getattr(capacity(**asdict(shape)), name) >= dimension
        ]
        expected = min(possible, key=lambda shape: (shape.heads, shape.kv_heads), default=None)
        assert (found and found.shape) == expected
        if found is not None:
            assert found.reach == capacity(**asdict(found.shape))
            assert found.width == (family.width or found.shape.heads * found.shape.head_dim)


def test_more_layers_never_take_more_heads_and_one_layer_takes_d():
    for decoder in (False, True):
        for dimension in range(1, 20):
            heads = [d.constructed.shape.heads for d in plan(dimension, family=Family(decoder=decoder))]
            assert heads[0] == dimension and heads == sorted(heads, reverse=True)


SHAPES = [
    {"layers": 1, "heads": 3, "head_dim": 4},
    {"layers": 3, "heads": 4, "head_dim": 4, "kv_heads": 2, "feedforward": 24},
    {"layers": 4, "heads": 6, "head_dim": 2, "kv_heads": 1, "feedforward": 7, "residual_width": 20},
]


@pytest.mark.parametrize("sizes", SHAPES)
def test_costs_are_those_of_the_arrays_of_a_real_member(sizes):
    architecture = Architecture(token_dim=3, class_reads="every", residual=True, **sizes)
    model = Transformer.initialise(architecture, seed=0)
    shape = Shape(
        architecture.layers, architecture.heads, architecture.key_value_heads, architecture.head_dim
    )
    found = costs(shape, width=architecture.width, feedforward=architecture.feedforward)
    attention = [model.attention, *(layer.attention for layer in model.token_layers)]
    networks = [layer.feedforward for layer in model.token_layers]
    assert found.attention_parameters == numbers(attention)
    # The last layer of a member has its readout in place of a feed-forward network.
    layers = architecture.layers
    assert found.feedforward_parameters * (layers - 1) == numbers(networks) * layers
    assert numbers(networks) == model.counted_parameters() - numbers((model.encoder, model.readout))
    one = costs(replace(shape, layers=1), width=architecture.width, feedforward=architecture.feedforward)
    for layer in model.token_layers:
        matrices = [leaf for leaf in jax.tree.leaves(layer) if leaf.ndim > 1]
        assert one.multiply_adds == sum(leaf.size for leaf in matrices)
        assert one.cache == layer.attention.key[..., 0].size + layer.attention.value[..., 0].size


def test_multiply_adds_are_those_of_the_products_that_a_real_layer_computes():
    architecture = Architecture(token_dim=3, heads=4, head_dim=3, layers=2, feedforward=10, residual=True)
    layer, length = Transformer.initialise(architecture, seed=0).token_layers[0], 7
    tokens = np.zeros((architecture.width, length), np.float32)
    traced = jax.make_jaxpr(lambda x: layer(x, x[:, 0], None, None, None)[0])(tokens)
    found = costs(Shape(1, 4, 4, 3), width=architecture.width, feedforward=10)
    assert products(traced.jaxpr) == length * (found.multiply_adds + length * found.multiply_adds_in_view)


def products(jaxpr) -> int:
    """Multiply-adds of all matrix products of a traced function."""
    total = 0
    for equation in jaxpr.eqns:
        inner = [each for each in equation.params.values() if hasattr(each, "jaxpr")]
        total += sum(products(each.jaxpr) for each in inner)
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            summed = [equation.invars[0].aval.shape[axis] for axis in contracted]
            total += int(np.prod(equation.outvars[0].aval.shape) * np.prod(summed))
    return total


def numbers(tree) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(tree))


def test_a_gated_network_has_a_third_matrix():
    shape = Shape(2, 2, 2, 4)
    two, three = (costs(shape, width=8, feedforward=16, matrices=count) for count in (2, 3))
    assert three.multiply_adds - two.multiply_adds == 2 * 8 * 16
    assert costs(shape, width=8, feedforward=0).feedforward_parameters == 0


@pytest.mark.parametrize(
    ("dimension", "options", "fragment"),
    [
        (0, {}, "dimension: expected an integer from 1 to"),
        (10**9, {}, "dimension: expected an integer from 1 to"),
        (3, {"layers": [0]}, "layers: expected an integer from 1 to"),
    ],
)
def test_impossible_questions_are_refused(dimension, options, fragment):
    with pytest.raises(InvalidInput, match=fragment):
        plan(dimension, **options)
    with pytest.raises(InvalidInput, match="width: expected an integer from 1 to"):
        Family(width=0)


def sized(*sizes, dimension=None, **more):
    shape = Shape(*sizes)
    reach = replace(capacity(**vars(shape)), **(dimension or {}))
    return SizedShape(shape, 64, 0, reach, costs(shape, width=64, feedforward=0), **more)


def test_how_sure_a_shape_is_depends_on_the_d_that_is_asked_for():
    one_layer = sized(1, 4, 4, 8)
    assert (one_layer.weights(4), one_layer.training(4)) == ("proven", "trained")
    assert (one_layer.weights(3), one_layer.training(3)) == ("constructed", "trained")
    deep = sized(12, 1, 1, 64)
    assert [deep.training(dimension) for dimension in (1, 7, 8, 23)] == ["trained"] * 2 + ["guessed"] * 2
    assert deep.guessed
    assert sized(12, 1, 1, 64, windowed=True).training(1) == "guessed"
    assert sized(2, 1, 1, 8, dimension={"constructed": 9}).training(9) == "up to D = 3"
    assert sized(12, 12, 12, 8, dimension={"trained": 99}).training(300) == "up to D = 99, guessed"


def test_a_guess_with_few_key_value_heads_names_those_that_were_trained():
    assert sized(2, 3, 1, 64).training(8) == "guessed; trained with kv = 3"
    assert sized(2, 2, 1, 64).training(6) == "trained"
    assert sized(6, 2, 1, 64).training(18) == "guessed"


@given(layers=st.integers(1, 8), heads=st.integers(1, 13), dimension=st.integers(1, 12), causal=st.booleans())
def test_what_a_smaller_shape_learnt_is_no_guess(layers, heads, dimension, causal):
    read = ("last token", "causal") if causal else ("every", "full")
    smaller = [
        reach.trained >= dimension and reach.behind_trained == "mapped"
        for fewer in range(1, layers + 1)
        for count in range(1, heads + 1)
        for reading, mask in [read if fewer > 1 else ("every", "full")]
        for reach in [capacity(layers=fewer, heads=count, head_dim=64, reading=reading, mask=mask)]
    ]
    found = behind(Shape(layers, heads, heads, 64, *read), dimension)
    assert (found == "mapped") == any(smaller)


def test_one_layer_read_at_its_last_token_is_one_layer():
    decoder = Shape(1, 4, 4, 64, "last token", "causal")
    assert behind(decoder, 4) == behind(Shape(1, 4, 4, 64), 4) == "mapped"


def test_a_width_that_heads_must_divide_is_named_where_it_costs_heads():
    thirteen, twelve = Family(width=13), Family(width=12)
    said = in_a_sentence(4, plan(4, family=thirteen), family=thirteen)
    assert said == "D = 4 takes 13 heads in 1 layer or 1 head in 4 layers (heads must divide the width, 13)."
    assert "divide" not in in_a_sentence(4, plan(4, family=twelve), family=twelve)
    (depth,) = plan(4, layers=[6], family=thirteen)
    assert depth.trained.law(4) == "8 by E = 13"


def test_a_plan_is_little_work_whatever_is_asked():
    deepest = steps(lambda: plan(10_000, layers=[200]))
    assert deepest <= 3 * steps(lambda: plan(100, layers=[2]))


def test_the_heads_of_deeper_models_are_those_of_the_plan():
    shapes = heads_by_layers(7)
    assert shapes["dimension"] == 7 and shapes["measured_with_layers"] == 1
    for name in ("encoder", "decoder"):
        planned = plan(7, family=Family(decoder=name == "decoder"))
        assert [row["layers"] for row in shapes[name]] == list(LAYERS)
        assert [row["heads"] for row in shapes[name]] == [depth.trained.shape.heads for depth in planned]

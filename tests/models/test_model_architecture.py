"""The description of a model: what it counts, and what it refuses."""

import jax
import numpy as np
import pytest
from model_references import ARCHITECTURES, small

from headcount.errors import InvalidInput
from headcount.models.architecture import Architecture
from headcount.models.transformer import Transformer


@pytest.mark.parametrize(("heads", "counted"), list(enumerate([745, 1265, 1785, 2305, 2825], start=1)))
def test_the_papers_models_have_as_many_parameters_as_the_paper_says(heads: int, counted: int) -> None:
    shape = Architecture(token_dim=4, heads=heads, head_dim=8)
    assert shape.counted_parameters() == counted
    assert Transformer.initialise(shape, seed=0).counted_parameters() == counted


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_all_but_attention_and_the_class_token_is_counted(name: str) -> None:
    shape = ARCHITECTURES[name]
    model = Transformer.initialise(shape, seed=0)
    networks = [model.encoder, model.readout, *(layer.feedforward for layer in model.token_layers)]
    assert model.counted_parameters() == sum(leaf.size for leaf in jax.tree.leaves(networks))
    attention = shape.width * shape.head_dim * 2 * (shape.heads + (shape.kv_heads or shape.heads))
    everything = sum(np.size(leaf) for leaf in jax.tree.leaves(model))
    assert everything - model.counted_parameters() == shape.layers * attention + shape.width


INTEGER = "an integer >= 1"


@pytest.mark.parametrize(
    ("field", "value", "wanted", "got"),
    [
        *((field, 0, INTEGER, 0) for field in ("token_dim", "heads", "head_dim", "output_dim", "layers")),
        ("heads", True, INTEGER, True),
        ("head_dim", "4", INTEGER, "4"),
        ("encoder_hidden", (4, 2.0), INTEGER, 2.0),
        # A list cannot be hashed, and an architecture is part of the key of a compiled program.
        ("encoder_hidden", [4], "a tuple of integers >= 1", [4]),
        ("readout_hidden", (0, 3), INTEGER, 0),
        ("kv_heads", 3, "a divisor of heads = 2", 3),
        ("kv_heads", 0, INTEGER, 0),
        ("feedforward", -1, INTEGER, -1),
        ("beta", 0.0, "a finite number > 0", 0.0),
        ("beta", float("nan"), "a finite number > 0", float("nan")),
        ("encoder_activation", "elu", "one of relu, gelu, tanh, silu", "elu"),
        ("positions", "one_hot", "the length of the sequences for one_hot positions", None),
        ("length", 2.5, INTEGER, 2.5),
        # A token that sees itself alone attends to nothing; with a stride, None is just that.
        *((field, 0, INTEGER, 0) for field in ("window", "stride", "residual_width")),
        ("global_tokens", -1, "an integer >= 0", -1),
        ("reader", "x", "one of class token, last token", "x"),
    ],
)
def test_a_bad_value_is_refused_by_name(field: str, value: object, wanted: str, got: object) -> None:
    with pytest.raises(InvalidInput) as refusal:
        small(**{field: value})
    name = "length" if field == "positions" else field
    assert str(refusal.value) == f"{name}: expected {wanted}, got {got!r}"


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("layers", 2, "1"),
        ("layer_norm", True, "False"),
        ("reader", "last token", "class token"),
        ("readout_hidden", (), "a hidden layer or more"),
        ("readout_activation", "gelu", "relu, tanh or step"),
    ],
)
def test_a_model_that_the_assumption_is_not_about_is_not_bounded(
    field: str, value: object, wanted: str
) -> None:
    with pytest.raises(InvalidInput) as refusal:
        small(**{"bounded": True, "readout_activation": "relu", field: value})
    assert str(refusal.value) == f"{field}: expected {wanted} in a bounded model, got {value!r}"


def test_sizes_follow_from_the_fields() -> None:
    shape = small()
    assert (shape.width, shape.key_value_heads, shape.logit_scale, shape.position_features) == (8, 2, 0.5, 0)
    assert (shape.encoder_sizes, shape.readout_sizes) == ((3, 6, 8), (8, 5, 1))

"""The description of a model: what it counts, and what it refuses."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from model_references import ARCHITECTURES, small

from headcount.errors import InvalidInput
from headcount.models.architecture import Architecture
from headcount.models.transformer import Transformer

NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize(("heads", "counted"), list(enumerate([745, 1265, 1785, 2305, 2825], start=1)))
def test_the_papers_models_have_as_many_parameters_as_the_paper_says(heads: int, counted: int) -> None:
    shape = Architecture(token_dim=4, heads=heads, head_dim=8)
    assert shape.counted_parameters() == counted
    assert Transformer.initialise(shape, seed=0).counted_parameters() == counted


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_number_outside_attention_is_counted(name: str) -> None:
    model = Transformer.initialise(ARCHITECTURES[name], seed=0)
    networks = [model.encoder, model.readout, *(layer.feedforward for layer in model.token_layers)]
    arrays = [leaf for network in networks for leaf in jax.tree.leaves(network)]
    assert model.counted_parameters() == sum(array.size for array in arrays)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_what_is_not_counted_is_attention_and_the_class_token(name: str) -> None:
    shape = ARCHITECTURES[name]
    model = Transformer.initialise(shape, seed=0)
    key_value_heads = shape.kv_heads or shape.heads
    attention = shape.width * shape.head_dim * (2 * shape.heads + 2 * key_value_heads)
    everything = sum(np.size(leaf) for leaf in jax.tree.leaves(model))
    assert everything - model.counted_parameters() == shape.layers * attention + shape.width


# (field, value, what of the value the message shows)
REFUSED: list[tuple[str, Any, Any]] = [
    *((field, 0, 0) for field in ("token_dim", "heads", "head_dim", "output_dim", "layers")),
    ("token_dim", -1, -1),
    ("heads", 1.5, 1.5),
    ("heads", True, True),
    ("head_dim", "4", "4"),
    ("layers", None, None),
    ("encoder_hidden", (0,), 0),
    ("encoder_hidden", (4, -1), -1),
    ("encoder_hidden", (4, 2.0), 2.0),
    ("encoder_hidden", 4, 4),
    # A list cannot be hashed, and an architecture is part of the key of a compiled program.
    ("encoder_hidden", [4], [4]),
    ("readout_hidden", None, None),
    ("readout_hidden", (0, 3), 0),
    ("readout_hidden", (True,), True),
    ("kv_heads", 3, 3),
    ("kv_heads", 4, 4),
    ("kv_heads", 0, 0),
    ("kv_heads", -1, -1),
    ("kv_heads", 1.0, 1.0),
    ("feedforward", -1, -1),
    ("feedforward", 1.5, 1.5),
    ("beta", 0.0, 0.0),
    ("beta", -2.0, -2.0),
    ("beta", NAN, NAN),
    ("beta", INFINITY, INFINITY),
    ("encoder_activation", "elu", "elu"),
    ("readout_activation", None, None),
    ("positions", "onehot", "onehot"),
    ("precision", "float16", "float16"),
]


@pytest.mark.parametrize(("field", "value", "shown"), REFUSED)
def test_a_bad_value_is_refused_by_name(field: str, value: object, shown: object) -> None:
    with pytest.raises(InvalidInput) as refusal:
        small(**{field: value})
    assert f"{field} = {shown!r}" in str(refusal.value)


@pytest.mark.parametrize("length", [None, 0, -1, 2.5])
def test_one_hot_positions_need_a_length(length: object) -> None:
    with pytest.raises(InvalidInput) as refusal:
        small(positions="one_hot", length=length)
    assert f"length = {length!r}" in str(refusal.value)


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (lambda shape: shape.width, 8),
        (lambda shape: shape.key_value_heads, 2),
        (lambda shape: shape.encoder_sizes, (3, 6, 8)),
        (lambda shape: shape.readout_sizes, (8, 5, 1)),
        (lambda shape: shape.logit_scale, 0.5),
        (lambda shape: shape.position_features, 0),
    ],
)
def test_sizes_follow_from_the_fields(read: Callable[[Architecture], object], expected: object) -> None:
    assert read(small()) == expected

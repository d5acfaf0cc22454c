"""Models of different sizes in arrays of one size."""

from dataclasses import replace
from functools import lru_cache

import equinox as eqx
import jax
import numpy as np

from headcount.models.architecture import Architecture
from headcount.models.transformer import Transformer
from headcount.validation import expected


def pad(model: Transformer, architecture: Architecture) -> Transformer:
    """The same function in the arrays of a larger architecture, filled up with zeros.

    Padded entries are 0 and stay 0 under any optimizer that leaves parameters with zero gradients alone:
    the output of a padded unit is 0, and so are the weights that read it. Only the logit scale and layer
    norms depend on the real size, and a model without positions must still see none: pass
    `Padding.of(model.architecture)` to the padded model.
    """
    given = model.architecture
    blind = given.positions == "none" and given.positions_start == "zero"
    seen = (
        replace(given, positions=architecture.positions, length=architecture.length)
        if blind and architecture.positions == "both"
        else given
    )
    if _kind(architecture) != _kind(seen):
        raise expected("architecture", "one that differs from the model's in sizes alone", architecture)
    shapes, structure = _layout(architecture)
    model = _with_columns(model, given.token_dim, architecture.token_dim)
    leaves = [
        np.pad(leaf, [(0, full - real) for real, full in zip(leaf.shape, shape, strict=True)])
        for leaf, shape in zip(jax.tree.leaves(model), shapes, strict=True)
    ]
    padded: Transformer = jax.tree.unflatten(structure, leaves)
    return padded


def unpad(model: Transformer, architecture: Architecture) -> Transformer:
    """The model of the smaller architecture, from the first entries of every array."""
    shapes, structure = _layout(architecture)
    model = _with_columns(model, model.architecture.token_dim, architecture.token_dim)
    leaves = [
        np.asarray(leaf)[tuple(slice(size) for size in shape)]
        for leaf, shape in zip(jax.tree.leaves(model), shapes, strict=True)
    ]
    real: Transformer = jax.tree.unflatten(structure, leaves)
    return real


def _with_columns(model: Transformer, before: int, after: int) -> Transformer:
    """The model with room in its first layer for tokens of another size; columns of positions come last."""
    if before == after:
        return model
    weight = np.asarray(model.encoder.weights[0])
    token, position = weight[:, : min(before, after)], weight[:, before:]
    none = np.zeros((len(weight), max(0, after - before)), weight.dtype)
    wider: Transformer = eqx.tree_at(
        lambda tree: tree.encoder.weights[0], model, np.concatenate([token, none, position], axis=1)
    )
    return wider


def _kind(architecture: Architecture) -> tuple[Architecture, int]:
    """Everything but the sizes."""
    sizeless = replace(
        architecture,
        token_dim=1,
        output_dim=1,
        heads=1,
        head_dim=1,
        kv_heads=None,
        residual_width=None,
        encoder_hidden=(1,) * len(architecture.encoder_hidden),
        readout_hidden=(1,) * len(architecture.readout_hidden),
        feedforward=min(architecture.feedforward, 1),
        length=architecture.length and 1,
    )
    return sizeless, architecture.group_size


@lru_cache(maxsize=256)
def _layout(architecture: Architecture) -> tuple[list[tuple[int, ...]], jax.tree_util.PyTreeDef]:
    leaves, structure = jax.tree.flatten(Transformer.initialise(architecture, seed=0))
    return [leaf.shape for leaf in leaves], structure

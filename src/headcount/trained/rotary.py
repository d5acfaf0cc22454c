"""Keys with rotary embeddings, shared: a pair of columns that is turned together is one complex column.

A frequency θ adds Re(q k* e^{iθ(t − s)}) to a score, which depends on x through the complex product q k*
alone. So each frequency has an L of one column, and each head's query a complex gain beside it.
"""

import numpy as np
from jaxtyping import Complex, Shaped

from headcount.errors import InvalidInput
from headcount.trained.grouping import Heads, Matrix, Products, Root, Way, joint_svd, root

Grams = Complex[np.ndarray, "frequency head head"]


def grouped_rotary_keys(
    keys: Heads,
    queries: Heads,
    *,
    interleaved: bool = False,
    key_root: Root | None = None,
    query_root: Root | None = None,
    grams: Grams | None = None,
    way: Way = joint_svd,
) -> tuple[Matrix, Heads]:
    """One K for the heads of a group, and their Q'_i.

    - `interleaved`: a pair stands side by side (GPT-J), not half a head apart (Llama).
    - `grams`: in place of `key_root`, the overlaps Σ k_i k_j* of the heads' keys in the data.
    """
    products = rotary_products(
        keys, queries, interleaved=interleaved, key_root=key_root, query_root=query_root, grams=grams
    )
    parts = [way(each) for each in products]
    factors = [part.factor for part in parts]
    if grams is not None:  # what the heads' keys are multiplied with
        columns = as_complex(keys, interleaved=interleaved).conj()
        factors = [columns[:, :, place].T @ factor for place, factor in enumerate(factors)]
    key = np.hstack([factor.conj() for factor in factors])
    own = np.concatenate([part.own.transpose(0, 2, 1) for part in parts], axis=2)
    return as_real(key, interleaved=interleaved), as_real(own, interleaved=interleaved)


def rotary_products(
    keys: Heads,
    queries: Heads,
    *,
    interleaved: bool,
    key_root: Root | None = None,
    query_root: Root | None = None,
    grams: Grams | None = None,
) -> list[Products]:
    """What is to be shared, by frequency.

    With `grams` the left sides are unit vectors, one for each head's keys: a shared key is a sum of these.
    """
    keys, queries = (as_complex(each, interleaved=interleaved) for each in (keys, queries))
    rights = queries.transpose(2, 0, 1)[:, :, None]
    if grams is not None:
        units = np.eye(len(keys), dtype=complex)[:, :, None]
        return [
            Products(units, right, root(gram), query_root) for right, gram in zip(rights, grams, strict=True)
        ]
    lefts = keys.conj().transpose(2, 0, 1)[..., None]
    return [Products(left, right, key_root, query_root) for left, right in zip(lefts, rights, strict=True)]


def as_complex(
    weights: Shaped[np.ndarray, "... columns"], *, interleaved: bool
) -> Shaped[np.ndarray, "... pairs"]:
    """Each pair of columns that a rotary embedding turns as one complex column.

    >>> as_complex(np.array([1.0, 2.0, 3.0, 4.0]), interleaved=False)
    array([1.+3.j, 2.+4.j])
    """
    columns = weights.shape[-1]
    if columns % 2:
        raise InvalidInput(f"head_dim: expected an even integer for rotary embeddings, got {columns}")
    if interleaved:
        return weights[..., ::2] + 1j * weights[..., 1::2]
    return weights[..., : columns // 2] + 1j * weights[..., columns // 2 :]


def as_real(
    weights: Shaped[np.ndarray, "... pairs"], *, interleaved: bool
) -> Shaped[np.ndarray, "... columns"]:
    """Back to pairs of columns.

    >>> as_real(np.array([1.0 + 3.0j, 2.0 + 4.0j]), interleaved=True)
    array([1., 3., 2., 4.])
    """
    if interleaved:
        return np.stack([weights.real, weights.imag], axis=-1).reshape(*weights.shape[:-1], -1)
    return np.concatenate([weights.real, weights.imag], axis=-1)

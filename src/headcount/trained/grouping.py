"""Key-value heads to fewer ones: one factor that a group of heads shares, and each head's own beside it.

Attention sees keys and values through products alone:

    values            x V_i O_i,           a shared V,  an output projection O'_i for each head,
    keys              x_q Q_i K_iᵀ x_kᵀ,   a shared K,  queries Q'_i for each head,
    rotary keys       the same for every frequency, where a pair of columns is one complex column.

So all three ask for L and R'_i with L R'_i ≈ L_i R_i, in the metric of the data that meets them. A bias is
one more row of V_i, K_i or Q_i, with the moments of [x, 1].
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from jaxtyping import Inexact

from headcount.errors import InvalidInput
from headcount.validation import check_integer

Matrix = Inexact[np.ndarray, "rows columns"]
Heads = Inexact[np.ndarray, "head rows columns"]
Root = Inexact[np.ndarray, "rows rows"]

NOTHING = 1e-12  # of the largest singular value
ALIGNMENTS = 20


@dataclass(frozen=True, eq=False)
class Products:
    """L_i R_i of a group, and the metrics of both sides: |A^½ (L_i R_i − L R'_i) B^½|².

    For values A is the second moment of what enters the layer; for keys the same, about its mean where keys
    have no rotary embedding, since the softmax drops what all keys have in common, and B that of the queries'
    inputs. They are given by their roots (`root`); None: the identity.
    """

    left: Heads
    right: Heads
    left_root: Root | None = None
    right_root: Root | None = None

    def __post_init__(self) -> None:
        left, right = self.left.shape, self.right.shape
        if len(left) != 3 or len(right) != 3 or left[0] != right[0] or left[2] != right[1]:
            raise InvalidInput(
                "products: expected the shapes (heads, rows, head_dim) and (heads, head_dim, columns), "
                f"got {left} and {right}"
            )

    def error(self, shared: "Shared") -> float:
        """Σ_i |A^½ (L_i R_i − L R'_i) B^½|², without forming a product of two wide matrices.

        L_i R_i − L R'_i = [L_i, −L] [R_i; R'_i], and |X Y|² is the norm of two small triangles.
        """
        total = 0.0
        for left, right, own in zip(self.left, self.right, shared.own, strict=True):
            one = triangle_of(_in(self.left_root, np.hstack([left, -shared.factor])))
            other = triangle_of(_in(self.right_root, np.vstack([right, own]).conj().T))
            total += float((np.abs(one @ other.conj().T) ** 2).sum())
        return total


@dataclass(frozen=True, eq=False)
class Shared:
    """L of a group, and R'_i of its heads."""

    factor: Matrix
    own: Heads


def root(moment: Root) -> Root:
    """A^½ up to a rotation: rows whose products are the moment; what rounding left below zero is dropped.

    >>> half = root(np.array([[4.0, 0.0], [0.0, 1.0]]))
    >>> half.T @ half
    array([[4., 0.],
           [0., 1.]])
    """
    sizes, vectors = np.linalg.eigh(moment)
    half: Root = np.sqrt(np.maximum(sizes, 0.0))[:, None] * vectors.conj().T
    return half


def joint_svd(products: Products) -> Shared:
    """The best there is: with A^½ [L_1 R_1, …, L_g R_g] B^½ = U S Wᴴ, A^½ L holds the first columns of U.

    By Eckart and Young no other L and R'_i come closer. Each R_i enters through a triangle as small as a
    head, and L through the L_i themselves, so that a singular A need not be inverted.

    >>> random = np.random.default_rng(0)
    >>> shared, mixed = random.normal(size=(6, 2)), random.normal(size=(3, 2, 2))
    >>> products = Products(shared @ mixed, random.normal(size=(3, 2, 5)))
    >>> products.error(joint_svd(products)) < 1e-20
    True
    """
    triangles = [triangle_of(_in(products.right_root, right.conj().T)).conj().T for right in products.right]
    scaled = np.hstack([left @ triangle for left, triangle in zip(products.left, triangles, strict=True)])
    kept = products.left.shape[2]
    columns, sizes, rows = np.linalg.svd(_in(products.left_root, scaled), full_matrices=False)
    present = sizes[:kept] > NOTHING * (sizes[0] or 1.0)
    inverse = np.where(present, 1 / np.where(present, sizes[:kept], 1.0), 0.0)
    factor = _padded(scaled @ rows[:kept].conj().T * inverse, kept)
    orthonormal = _padded(columns[:, :kept] * present, kept)
    own = [
        (orthonormal.conj().T @ _in(products.left_root, left)) @ right
        for left, right in zip(products.left, products.right, strict=True)
    ]
    return Shared(factor, np.stack(own))


def mean(products: Products) -> Shared:
    """L = the mean of the L_i, as Ainslie et al. (2023) begin grouped queries; the R_i stay."""
    return Shared(products.left.mean(axis=0), products.right)


def procrustes_mean(products: Products) -> Shared:
    """The mean after each head was turned towards it: L = mean of L_i T_i, R'_i = T_iᴴ R_i.

    T_i is the unitary factor of L_iᴴ A L, which makes |A^½ (L_i T_i − L)| least.
    """
    rooted = np.stack([_in(products.left_root, left) for left in products.left])
    middle = rooted[0]
    turned = np.stack([np.eye(rooted.shape[2], dtype=rooted.dtype)] * len(rooted))
    for _ in range(ALIGNMENTS):
        first, _, second = np.linalg.svd(rooted.conj().transpose(0, 2, 1) @ middle, full_matrices=False)
        turned = first @ second
        middle = (rooted @ turned).mean(axis=0)
    return Shared((products.left @ turned).mean(axis=0), turned.conj().transpose(0, 2, 1) @ products.right)


Way = Callable[[Products], Shared]


def grouped_values(
    values: Heads, outputs: Heads, *, root_of_inputs: Root | None = None, way: Way = joint_svd
) -> tuple[Matrix, Heads]:
    """One V for the heads of a group, and their O'_i.

    - `values`: V_i, inputs × head_dim; `outputs`: O_i, head_dim × width; `root_of_inputs`: of
      the second moment of what enters the layer.

    A value bias b_i adds b_i O_i whatever the attention, since its weights sum to one: it goes to the bias of
    the output projection, or enters as a row of V_i.
    """
    shared = way(Products(values, outputs, left_root=root_of_inputs))
    return shared.factor, shared.own


def grouped_keys(
    keys: Heads,
    queries: Heads,
    *,
    key_root: Root | None = None,
    query_root: Root | None = None,
    way: Way = joint_svd,
) -> tuple[Matrix, Heads]:
    """One K for the heads of a group, and their Q'_i, where keys carry no rotary embedding.

    - `keys`, `queries`: K_i and Q_i, inputs × head_dim.
    """
    shared = way(Products(keys, queries.transpose(0, 2, 1), key_root, query_root))
    return shared.factor, shared.own.transpose(0, 2, 1)


def partition(
    heads: int, groups: int, cost: Callable[[tuple[int, ...]], float]
) -> tuple[tuple[int, ...], ...]:
    """Which heads to group: groups of one size, from neighbours on, by the best exchange of two heads.

    The order of heads means nothing, so any of them can share. `cost`: what a group loses, such as
    `products.error(joint_svd(products))`.

    >>> partition(4, 2, lambda group: float(sum(group) % 2))
    ((0, 2), (1, 3))
    """
    check_integer("groups", groups, at_least=1, at_most=heads)
    if heads % groups:
        raise InvalidInput(f"groups: expected a divisor of {heads}, the number of heads, got {groups}")
    size, lost = heads // groups, cache(cost)
    found = [tuple(range(start, start + size)) for start in range(0, heads, size)]
    while True:
        exchanges = [(_gain(found, lost, exchanged), exchanged) for exchanged in _exchanges(found)]
        gain, best = max(exchanges, default=(0.0, ((0, 0), (0, 0))))
        if gain <= NOTHING * sum(map(lost, found)):
            return tuple(sorted(found))
        found = _after(found, best)


Exchange = tuple[tuple[int, int], tuple[int, int]]  # a group and a head of it, twice


def _exchanges(found: Sequence[tuple[int, ...]]) -> list[Exchange]:
    return [
        ((one, head), (other, another))
        for one in range(len(found))
        for other in range(one)
        for head in found[one]
        for another in found[other]
    ]


def _after(found: Sequence[tuple[int, ...]], exchange: Exchange) -> list[tuple[int, ...]]:
    (one, head), (other, another) = exchange
    changed = list(found)
    changed[one] = tuple(sorted({*found[one], another} - {head}))
    changed[other] = tuple(sorted({*found[other], head} - {another}))
    return changed


def _gain(
    found: Sequence[tuple[int, ...]], lost: Callable[[tuple[int, ...]], float], exchange: Exchange
) -> float:
    changed = _after(found, exchange)
    places = exchange[0][0], exchange[1][0]
    return sum(lost(found[place]) - lost(changed[place]) for place in places)


def _in(root: Root | None, columns: Matrix) -> Matrix:
    """Columns whose plain norm is that of the given ones in the metric."""
    return columns if root is None else root @ columns


def triangle_of(columns: Matrix) -> Matrix:
    """A small matrix whose columns have the same products."""
    found: Matrix = np.linalg.qr(columns, mode="r")  # type: ignore[assignment]
    return found


def _padded(columns: Matrix, width: int) -> Matrix:
    """With columns of zeros up to the width of a head, where the rows are fewer."""
    return np.pad(columns, [(0, 0), (0, width - columns.shape[1])])

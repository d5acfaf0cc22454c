"""Which heads share key-value heads best."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
from jaxtyping import Inexact

from headcount.trained.grouping import Products, partition, triangle_of

Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class Alike:
    """What heads lose with one factor between them, from how their products overlap.

    - `grams`: XᴴX of the columns of A^½ L_i R_i B^½ of all heads side by side, `kept` columns for each head;
      one for each part that has a factor of its own, such as the frequencies of rotary keys.
    """

    grams: Inexact[np.ndarray, "part column column"]
    kept: int

    @classmethod
    def of(cls, parts: Sequence[Products]) -> "Alike":
        """Of products whose left sides are to be shared."""
        return cls(np.stack([_gram(each) for each in parts]), parts[0].left.shape[2])

    def lost(self, heads: Sequence[int]) -> float:
        """What the joint SVD leaves of a group, as a share of all heads' products.

        The first singular values of X are the roots of the first eigenvalues of XᴴX.

        >>> alike = Alike(np.ones((1, 2, 2)), kept=1)
        >>> alike.lost([0, 1])
        0.0
        """
        places = (np.asarray(heads)[:, None] * self.kept + np.arange(self.kept)).ravel()
        some = self.grams[:, places[:, None], places]
        left = np.linalg.eigvalsh(some)[:, : -self.kept].sum()
        total = np.trace(self.grams, axis1=1, axis2=2).real.sum()
        return max(float(left / total), 0.0) if total > 0 else 0.0


def alike_groups(kinds: Sequence[Alike], units: Sequence[Sequence[int]], groups: int) -> Groups:
    """Units of heads that already share, in groups; by what pairs of units lose in all of these kinds.

    Pairs take the place of whole groups, whose number grows too fast to try.
    """

    @cache
    def of_pair(one: int, other: int) -> float:
        heads = [*units[one], *units[other]]
        return sum(each.lost(heads) for each in kinds)

    def lost(group: tuple[int, ...]) -> float:
        return sum(of_pair(one, other) for one, other in combinations(sorted(group), 2))

    if groups in (1, len(units)):
        return neighbours(units, groups)
    return tuple(
        tuple(head for unit in group for head in units[unit]) for group in partition(len(units), groups, lost)
    )


def neighbours(units: Sequence[Sequence[int]], groups: int) -> Groups:
    """Units in groups as they stand.

    >>> neighbours([(0, 1), (2, 3), (4, 5), (6, 7)], 2)
    ((0, 1, 2, 3), (4, 5, 6, 7))
    """
    size = len(units) // groups
    return tuple(
        tuple(head for unit in units[start : start + size] for head in unit)
        for start in range(0, len(units), size)
    )


def _gram(products: Products) -> np.ndarray:
    columns = []
    for left, right in zip(products.left, products.right, strict=True):
        wide = right.conj().T if products.right_root is None else products.right_root @ right.conj().T
        triangle = triangle_of(wide).conj().T
        columns.append((left if products.left_root is None else products.left_root @ left) @ triangle)
    joined = np.hstack(columns)
    return joined.conj().T @ joined

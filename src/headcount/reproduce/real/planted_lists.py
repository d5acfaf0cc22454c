"""A positive control for the re-ranker: a retrieval of known D, planted in lists of real passages.

Passages keep their vectors; what is right in a list is made. With the first D + 1 principal components of the
training passages as features, each with mean 0 and deviation 1,

    asked = standardised( Σ_{i ≤ D} max_t feature_i(t) )
    right = argmin_t | feature_{D+1}(t) − asked |

so a candidate must know D maxima over the list to tell whether it is the right one: with one layer that takes
D heads. The query says nothing. Lists are drawn at random from the passages of their own split.
"""

from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int

from headcount.data.msmarco.rankings import Lists, Rankings
from headcount.reproduce.real.ranking import EmbeddedRankings
from headcount.reproduce.real.trial import RealData

D, NAME = 3, "planted_lists"
Features = Float[np.ndarray, "passage feature"]


def planted_lists(data: RealData, *, length: int, train: int, validation: int) -> RealData:
    """Lists of `length` passages of MS MARCO whose right answers are planted."""
    given: EmbeddedRankings = data.data
    rankings, random = given.rankings, np.random.default_rng(0)
    pools = [np.unique(lists.passages) for lists in (rankings.train, rankings.validation)]
    known = features(given.passages, pools[0])
    drawn = [
        np.stack([random.choice(pool, length, replace=False) for _ in range(count)])
        for pool, count in zip(pools, (train, validation), strict=True)
    ]
    sums = known[drawn[0], :D].max(axis=1).sum(axis=1)
    splits = [
        listed(candidates, right_places(known[candidates], sums.mean(), sums.std()), lists.query)
        for candidates, lists in zip(drawn, (rankings.train, rankings.validation), strict=True)
    ]
    made = Rankings(NAME, rankings.passages, rankings.queries, *splits)
    # Known by what it is made of: vectors are rounded differently on other machines.
    name = RealData.of(NAME, fingerprint=f"{data.fingerprint}-{length}-{train}-{validation}")
    return name.with_data(replace(given, rankings=made))


def features(vectors: Float[np.ndarray, "passage embedding"], pool: Int[np.ndarray, " passage"]) -> Features:
    """D + 1 principal components of the pool's vectors, for all passages, standardised over the pool."""
    centred = vectors.astype(np.float64) - vectors[pool].mean(axis=0, dtype=np.float64)
    _, directions = np.linalg.eigh(centred[pool].T @ centred[pool])
    directions = directions[:, : -D - 2 : -1]
    directions = directions * np.sign(directions[np.abs(directions).argmax(axis=0), np.arange(D + 1)])
    scores: Features = centred @ directions
    return scores / scores[pool].std(axis=0)


def right_places(
    known: Float[np.ndarray, "list candidate feature"], mean: float, deviation: float
) -> Int[np.ndarray, " list"]:
    """Where the candidate stands that the maxima ask for.

    >>> known = np.array([[[1.0, 0, 0, 5], [0, 2, 0, 7], [0, 0, 3, 6]]])
    >>> right_places(known, 0.0, 1.0), right_places(known, 1.0, 1.0)
    (array([2]), array([0]))
    """
    asked = (known[..., :D].max(axis=1).sum(axis=1) - mean) / deviation
    return np.abs(known[..., D] - asked[:, None]).argmin(axis=1)


def listed(
    candidates: Int[np.ndarray, "list candidate"], right: Int[np.ndarray, " list"], queries: np.ndarray
) -> Lists:
    """Lists with the right candidate as their positive, under queries of their split in turn."""
    here = np.arange(candidates.shape[1]) == right[:, None]
    others = candidates[~here].reshape(len(candidates), -1)
    return Lists(np.resize(queries, len(candidates)), candidates[here], others)

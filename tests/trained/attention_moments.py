"""Heads' outputs with a known structure, and plain references for what is computed from their moments."""

import numpy as np

from headcount.trained.refit import Moments, columns_of


def heads_outputs(seed, *, heads=5, head_dim=3, tokens=200, outputs=4):
    """Correlated heads of unlike sizes, what they write through a projection, and the projection."""
    random = np.random.default_rng(seed)
    columns = heads * head_dim
    turn, _ = np.linalg.qr(random.normal(size=(columns, columns)))
    z = random.normal(size=(tokens, columns)) * random.uniform(0.2, 3, columns) @ turn
    z += random.normal(size=columns)
    weight = random.normal(size=(columns, outputs))
    return z, z @ weight + random.normal(size=outputs), weight


def spread_heads(seed, *, real=4, heads=8, head_dim=3, tokens=400, noise=0.0, outputs=12):
    """`real` heads spread over `heads`: each one that is there is a mixture of those that are real.

    Their outputs are collinear, and any `real` of them hold everything.
    """
    random = np.random.default_rng(seed)
    true = random.normal(size=(tokens, real, head_dim))
    mixtures = random.normal(size=(heads, real))
    z = np.einsum("tri,hr->thi", true, mixtures).reshape(tokens, -1)
    z = z + noise * random.normal(size=z.shape)
    weight = random.normal(size=(heads * head_dim, outputs))
    return z, z @ weight, weight


def moments_by_folds(z, o, folds):
    """Each fold of whole stretches of tokens."""
    return [
        Moments.of(*pair) for pair in zip(np.array_split(z, folds), np.array_split(o, folds), strict=True)
    ]


def plain_error(z, o, heads, head_dim):
    """Of an ordinary least squares fit with a bias, by numpy on the tokens themselves."""
    z, o = z - z.mean(axis=0), o - o.mean(axis=0)
    columns = columns_of(sorted(heads), head_dim)
    if not len(columns):
        return (o**2).sum() / len(o)
    fitted, *_ = np.linalg.lstsq(z[:, columns], o, rcond=None)
    return ((o - z[:, columns] @ fitted) ** 2).sum() / len(o)


def plain_elimination(covariances, head_dim):
    """Backward elimination that fits every candidate anew."""
    left, gone = list(range(len(covariances.gram) // head_dim)), []
    while left:

        def error_without(head, left=left):
            return covariances.error_left(columns_of([each for each in left if each != head], head_dim))

        weakest = min(left, key=error_without)
        left.remove(weakest)
        gone.append(weakest)
    return tuple(gone[::-1])


def plain_exchanges(covariances, kept, head_dim):
    """The best exchange, over and over, every pair fitted anew."""
    heads, kept = set(range(len(covariances.gram) // head_dim)), set(kept)

    def error(heads):
        return covariances.error_left(columns_of(sorted(heads), head_dim))

    while True:
        tried = [kept - {out} | {into} for out in kept for into in heads - kept]
        best = min(tried, key=error, default=kept)
        if error(best) >= error(kept) - 1e-6 * covariances.variance:
            return tuple(sorted(kept))
        kept = best

"""What the other evidence says of a verdict: tokens that matter, and pairs that collide.

Each may widen the interval or say that nothing can be told. None overrides a large fall of the curves.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from headcount.estimate.verdict import WIDEST, Estimate, unsure

if TYPE_CHECKING:
    from headcount.estimate.collisions import CollisionGaps

POOLING = 0.8  # of the tokens: a target that depends on this share pools
LARGE_FALL = 5.0  # of error and distance over one head count: no effect of model size
NEAR = 2  # more tokens than D + this matter only to a target that pools
WIDER = 3  # times the gap of D heads: a gap of D − 1 heads that confirms D


def adjust_for_pooling(found: Estimate, share: float, *, count: float, recommended: int) -> Estimate:
    """What it means that this share of all tokens, `count` of them, matters: the target pools.

    Where its curves fall a little, more heads approximate the pooling better, and one head is enough. Where
    they fall far it retrieves beside: an average takes a head of its own in a model whose other heads are
    sharp, so it counts as one of D, and the interval holds D − 1. In a sequence hardly longer than D, nearly
    all tokens matter to retrieval too. `recommended`: how many heads to give it if one is enough.
    """
    if found.dimension is None or found.dimension == 1 or share < POOLING or count <= 2 * found.dimension:
        return found
    matter = f"{share:.0%} of the tokens matter at once"
    if _fall(found) >= LARGE_FALL:
        reason = (
            f"{matter}, so the target averages over its sequence; that takes a head of its own, or a share "
            f"of others, so D is {found.dimension} with the average and {found.dimension - 1} without it."
        )
        seen = with_dimension(found, found.dimension - 1, reason) if found.dimension > 2 else found
        return replace(seen, pools=True, reasons=(*found.reasons, reason))
    reason = (
        f"{matter}, so the target pools over its sequence and retrieves nothing; that the error still falls "
        f"at {found.dimension} heads is an effect of model size."
    )
    return replace(
        found,
        dimension=1,
        interval=(1, 1),
        verdict="one head is enough",
        recommended_heads=recommended,
        probabilities={heads: float(heads == 1) for heads in {1, *found.probabilities}},
        reasons=(reason, *found.reasons),
    )


def _fall(found: Estimate) -> float:
    """How many times error and distance fall, the lesser of the two, from the head count below D to D."""
    falls = []
    for points in (found.errors, found.distances):
        place = [point.heads for point in points].index(found.dimension or 0)
        falls.append(points[place - 1].value / points[place].value if place else 1.0)
    return min(falls)


def adjust_for_salience(found: Estimate, *, tokens: int | None) -> Estimate:
    """Widen the interval to the number of tokens that matter, where that is not D.

    A number far above D belongs to a target that pools, and says nothing about D. One far below D means that
    members with few heads have not learnt what few heads could retrieve: then the answer is "cannot tell".
    """
    if found.dimension is None or found.interval is None or tokens is None:
        return found
    if tokens == found.dimension or tokens > found.dimension + NEAR:
        return found
    both = f"{tokens} tokens of a sequence matter at once, but the sweep gives D = {found.dimension}"
    wider = with_dimension(found, tokens, f"{both}; the interval includes both.")
    low, high = wider.interval or found.interval
    if high - low < WIDEST:
        return wider
    reason = f"{both}. Longer training, more data or other features may reconcile the two."
    return unsure(wider, reason)


def adjust_for_collisions(found: Estimate, pairs: "Sequence[CollisionGaps]") -> Estimate:
    """Compare the pairs that D − 1 and D heads cannot distinguish.

    Far wider gaps below D confirm it; where they are not wider, the interval includes D − 1 too.
    """
    if found.dimension is None or len(pairs) != 2 or min(pair.agreed for pair in pairs) == 0:
        return found
    below, enough = pairs
    gaps = (
        f"the targets of two sequences that {below.heads} heads cannot distinguish are typically "
        f"{below.typical_gap:.2g} standard deviations apart, and {enough.typical_gap:.2g} with {enough.heads}"
    )
    if below.typical_gap >= WIDER * enough.typical_gap:
        return replace(found, reasons=(*found.reasons, f"{gaps}: that confirms D = {found.dimension}."))
    return with_dimension(found, below.heads, f"{gaps}: D = {below.heads} remains possible.")


def with_dimension(found: Estimate, dimension: int, reason: str) -> Estimate:
    """The estimate with one more dimension in its interval."""
    assert found.interval is not None
    low, high = found.interval
    return replace(
        found, interval=(min(low, dimension), max(high, dimension)), reasons=(*found.reasons, reason)
    )

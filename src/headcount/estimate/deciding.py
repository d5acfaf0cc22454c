"""Which of the two curves decides, and why, where a reader of both might believe the other."""

from collections.abc import Sequence

from headcount.estimate.curve import FURTHEST, Point
from headcount.estimate.verdict import HARDLY_AN_ERROR, ITS_ERROR, LARGE_FALL, Estimate, measure_of
from headcount.results.numbers import fold, scientific

INSTEAD = "The distance decides, not the"


def which_decides(found: Estimate) -> str:
    """A sentence where error and distance do not show the same D; empty where they do.

    The error may fall on beyond D, where the distance no longer does; or hardly fall at D, where the distance
    does.
    """
    heads = [point.heads for point in found.errors]
    if found.dimension not in heads:
        return ""
    place = heads.index(found.dimension)
    return _falls_on(found, place) or _hardly_falls(found, place)


def _falls_on(found: Estimate, place: int) -> str:
    """The lowest error of more heads than D, where it is far below that of D, and why that does not count."""
    measure = measure_of(found.labels)
    here, later = found.errors[place], found.errors[place + 1 :]
    best = min(later, key=lambda point: point.value, default=here)
    if here.value < ITS_ERROR * best.value:
        return ""
    most, fewer = (_at(found.typical_errors, point.heads) for point in (here, best))
    if here.value - best.value < HARDLY_AN_ERROR:
        why = f"by less than a thousandth of {'the loss of guessing' if found.labels else 'the variance'}"
    elif most < ITS_ERROR * fewer:
        why = (
            f"only at the {FURTHEST:.0%} of the test sequences that are furthest off; over all others it is "
            f"{scientific(most)} with {here.heads} and {scientific(fewer)} with {best.heads}"
        )
    elif here.low <= best.high:
        why = "within the 95% intervals, so it may be chance"
    else:
        far, near = (_at(found.distances, point.heads) for point in (here, best))
        little = f"falls only {fold(far, near)}" if far > near else "does not"
        why = f"the distance {little}: a larger model fits better and retrieves no more"
    falls = (
        f"the {measure} still falls {fold(here.value, best.value)} from {here.heads} to {best.heads} heads"
    )
    return f"{INSTEAD} {measure}: {falls}, but {why}."


def _hardly_falls(found: Estimate, place: int) -> str:
    """A floor under all errors, which hides the fall that the distance shows."""
    if place == 0:
        return ""
    before, here = found.errors[place - 1 : place + 1]
    far, near = found.distances[place - 1 : place + 1]
    if before.value >= ITS_ERROR * here.value or far.value < LARGE_FALL * near.value:
        return ""
    measure = measure_of(found.labels)
    floor = min(point.value for point in found.errors)
    return (
        f"{INSTEAD} {measure}: noise in y, or too few samples, keep every {measure} at {scientific(floor)} "
        f"or above, so from {before.heads} to {here.heads} heads it falls only "
        f"{fold(before.value, here.value)}; the distance, which has no such floor, falls "
        f"{fold(far.value, near.value)}."
    )


def _at(points: Sequence[Point], heads: int) -> float:
    return next(point.value for point in points if point.heads == heads)

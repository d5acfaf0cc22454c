"""An estimate in the terminal: the answer, which curve decides, both curves, and what to type."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headcount.commands.tables import show_lines, show_table
from headcount.results.numbers import scientific

if TYPE_CHECKING:
    from headcount.estimate.curve import Point
    from headcount.estimate.verdict import Estimate

NOT_IN_FULL = "–: only the first look, with fewer steps, which left no question about that number of heads."


def show_answer(found: "Estimate") -> None:
    """Print an estimate."""
    show_lines([found.sentence], style="bold")
    show_lines([found.deciding] if found.deciding else [])
    show_lines(reason[:1].upper() + reason[1:] for reason in found.reasons if reason not in found.sentence)
    _show_curves(found)
    _show_advice(found)


def _show_curves(found: "Estimate") -> None:
    heads = sorted({point.heads for point in (*found.errors, *found.early_errors)})
    if not heads:
        return
    errors, distances, accuracies = map(_by_heads, (found.errors, found.distances, found.accuracies))
    rows = [
        (
            str(h),
            scientific(errors[h].value) if h in errors else "–",
            *((f"{accuracies[h].value:.1%}" if h in accuracies else "–",) if accuracies else ()),
            scientific(distances[h].value) if h in distances else "–",
            f"{found.probabilities[h]:.0%}" if h in found.probabilities else "–",
        )
        for h in heads
    ]
    measured = ("log loss", "accuracy") if accuracies else ("test error",)
    bold = [place for place, h in enumerate(heads) if h == found.dimension]
    show_table(("h", *measured, "distance", "probability of D = h"), rows, bold=bold)
    show_lines([NOT_IN_FULL] if len(errors) < len(heads) else [])


def _show_advice(found: "Estimate") -> None:
    from headcount.estimate.advice import NOT_TOLD, advice_of

    advice = advice_of(found)
    if advice is None:
        return
    print()
    show_lines([advice.heading], style="bold")
    if advice.rows:
        show_table(("layers", "encoder", "decoder"), advice.rows, texts=("encoder", "decoder"))
    show_lines((*advice.notes, *NOT_TOLD))


def _by_heads(points: "Sequence[Point]") -> "dict[int, Point]":
    return {point.heads: point for point in points}

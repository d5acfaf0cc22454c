"""What the stages of a study are called, and why each comes."""

from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from headcount.estimate.members import Stage
from headcount.estimate.verdict import Estimate
from headcount.trials.trial import TaskTrial

Kind = Literal["positions", "first look", "first look again", "closer look", "more", "half length"]


def in_words(heads: Iterable[int]) -> str:
    """Head counts as text.

    >>> in_words([1]), in_words([2, 5]), in_words([1, 2, 7, 8])
    ('1 head', '2 and 5 heads', '1, 2, 7 and 8 heads')
    """
    *others, last = map(str, sorted(heads))
    counts = f"{', '.join(others)} and {last}" if others else last
    return f"{counts} head{'s' * (counts != '1')}"


def heads_of(trials: Iterable[TaskTrial]) -> list[int]:
    """Their head counts, in ascending order."""
    return sorted({trial.architecture.heads for trial in trials})


def closer_look(trials: tuple[TaskTrial, ...], early: Estimate | None, *, number: int) -> Stage:
    """The head counts that the first look leaves open, in full; all of them where it was not asked."""
    name = f"A closer look at {in_words(heads_of(trials))}"
    if early is None or early.interval is None:
        return Stage(name, trials, "all of them are open", number)
    low, high = early.interval
    says = f"says D = {low}" if low == high else f"leaves D open from {low} to {high}"
    return Stage(name, trials, f"the first look {says}", number)


def neighbours(trials: tuple[TaskTrial, ...], new: Iterable[int], *, number: int) -> Stage:
    """More head counts in full."""
    return Stage(f"A closer look at {in_words(new)} too", trials, "D may be there or next to it", number)


def other_starts(
    trials: tuple[TaskTrial, ...],
    heads: Sequence[int],
    *,
    challenged: Collection[int] = (),
    look: str = "Other",
    number: int,
) -> Stage:
    """Another try of some head counts: of those that got stuck, and of those that D rests on."""
    stuck = [count for count in heads if count not in challenged]
    reasons = [
        f"D = {count + 1} is only reported if {in_words([count])} fail{'s' * (count == 1)} from these too"
        for count in heads
        if count in challenged
    ]
    reasons += [f"{in_words(stuck)} did worse than fewer"] if stuck else []
    return Stage(f"{look} starts for {in_words(heads)}", trials, "; ".join(reasons), number)

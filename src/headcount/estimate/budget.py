"""What an estimate was made with where that was less than usual: fewer steps, or no time for every stage."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Budget:
    """The training behind an estimate for which somebody would not wait.

    - `quick`, `minutes`: what was asked for.
    - `steps`, `usual_steps`: of each model whose curves decide, and of one of a full estimate.
    - `not_begun`: the stage that there was no time for.
    - `complete`: whether the curves are those of a full estimate, by which the interval is calibrated.
    """

    quick: bool = False
    minutes: float | None = None
    steps: int = 0
    usual_steps: int = 0
    not_begun: str | None = None
    complete: bool = True

    @property
    def note(self) -> str:
        """What the sentence of the estimate adds; empty where the training was the usual one.

        >>> Budget(quick=True, steps=2_000, usual_steps=8_000, complete=False).note
        'Trained quickly: 2,000 of 8,000 steps.'
        """
        if self.complete or not self.steps:
            return ""
        how = "quickly" if self.quick else "briefly"
        share = f"Trained {how}: {self.steps:,} of {self.usual_steps:,} steps."
        up = f"The time was up before this stage: {self.not_begun}." if self.not_begun else ""
        return " ".join([share] * (self.quick or self.steps < self.usual_steps) + [up]).strip()

"""The members of a head sweep over a user's data."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import ceil

from headcount.data.arrays import DataSet
from headcount.models.architecture import Architecture, PositionInput
from headcount.trials.task_choice import TaskChoice
from headcount.trials.training import Training
from headcount.trials.trial import TaskTrial, Trial


@dataclass(frozen=True)
class MemberRecipe:
    """How each member is trained: enough for its number of heads to show, no more.

    - `starts`: a learning rate and a seed for each member of one number of heads; `more_starts` for another
      try where all of these got stuck.
    - `validation_share`, `test_share`: of the samples, the first to select by and the second to measure by.
    """

    steps: int = 8_000
    batch_size: int = 128
    starts: tuple[tuple[float, int], ...] = ((1e-2, 0), (3e-3, 1))
    more_starts: tuple[tuple[float, int], ...] = ((1e-2, 2), (3e-3, 3))
    width: int = 32
    hidden: int = 32
    max_heads: int = 8
    weight_decay: float = 3e-3
    label_decay: float = 3e-2
    validation_share: float = 0.15
    test_share: float = 0.15
    positions: PositionInput = "none"

    def trials(self, data: DataSet, heads: Iterable[int], *, seed: int = 0) -> tuple[TaskTrial, ...]:
        """Every start of every number of heads."""
        training, task = self.training(data, seed=seed), TaskChoice.of_data(data)
        return tuple(
            Trial(task, data.length, self.architecture(data, count), rate, seed + start, training)
            for count in heads
            for rate, start in self.starts
        )

    def again(self) -> "MemberRecipe":
        """The same with other starts and twice the steps."""
        return replace(self, starts=self.more_starts, steps=2 * self.steps)

    def quick(self) -> "MemberRecipe":
        """A tenth of the steps: for an early estimate, and to see where to look closer."""
        return replace(self, steps=max(200, self.steps // 1000 * 100))

    def training(self, data: DataSet, *, seed: int = 0) -> Training:
        """The training of all members: the same samples in the same splits."""
        samples = len(data.x)
        validation, test = round(samples * self.validation_share), round(samples * self.test_share)
        return Training(
            steps=self.steps,
            batch_size=self.batch_size,
            weight_decay=self.label_decay if data.classes else self.weight_decay,
            train_samples=samples - validation - test,
            validation_samples=validation,
            test_samples=test,
            data_seed=seed,
            loss="cross_entropy" if data.classes else "squared",
        )

    def architecture(self, data: DataSet, heads: int) -> Architecture:
        """The paper's class with one layer; position inputs start at zero.

        All members have the same width: with heads of one size, one head would also be too narrow.
        """
        return Architecture(
            token_dim=data.token_dim,
            output_dim=data.output_dim,
            heads=heads,
            head_dim=ceil(self.width / heads),
            encoder_hidden=(self.hidden,),
            readout_hidden=(self.hidden,),
            positions=self.positions,
            positions_start="zero",
            length=data.length if self.positions == "both" else None,
        )

"""How a trial is trained, and on how much data."""

from dataclasses import dataclass
from typing import Literal, get_args

from headcount.errors import InvalidInput
from headcount.validation import check_choice, check_integer, check_number, expected

Loss = Literal["squared", "cross_entropy"]
METRICS = {"squared": "nmse", "cross_entropy": "log loss"}
MAX_SEED = 2**31 - 1


@dataclass(frozen=True)
class Training:
    """How a member is trained, and on how much data.

    AdamW with linear warm-up (500 steps, or a tenth of the run if that is less) and a cosine to zero,
    gradients clipped per member. Every `evaluate_every` steps the member is evaluated on validation data and
    its best state is kept; its final error comes from test data that no choice has seen. With `polish_steps`
    that best state is then improved by this many steps of Levenberg–Marquardt (engine/polish.py). The `loss`
    is `squared` for numbers and `cross_entropy` for labels, of which y is the one-hot code.
    """

    steps: int = 10_000
    batch_size: int = 256
    warmup: int | None = None
    weight_decay: float = 0.0
    clip: float = 1.0
    train_samples: int = 8_000
    validation_samples: int = 2_000
    test_samples: int = 10_000
    evaluate_every: int = 100
    data_seed: int = 0
    polish_steps: int = 0
    loss: Loss = "squared"

    def __post_init__(self) -> None:
        check_integer("steps", self.steps, at_least=1)
        if self.warmup is None:
            object.__setattr__(self, "warmup", min(500, self.steps // 10))
        for name in ("batch_size", "train_samples", "evaluate_every"):
            check_integer(name, getattr(self, name), at_least=1)
        for name in ("validation_samples", "test_samples"):
            check_integer(name, getattr(self, name), at_least=2)
        check_integer("warmup", self.warmup, at_least=0, at_most=self.steps - 1)
        check_integer("polish_steps", self.polish_steps, at_least=0)
        check_integer("data_seed", self.data_seed, at_least=0, at_most=MAX_SEED)
        check_choice("loss", self.loss, get_args(Loss))
        if self.polish_steps and self.loss != "squared":
            raise InvalidInput(f"polish_steps: expected 0 with the loss {self.loss}, got {self.polish_steps}")
        check_number("weight_decay", self.weight_decay, at_least=0)
        check_number("clip", self.clip, above=0)
        if self.steps % self.evaluate_every:
            raise expected("steps", f"a multiple of evaluate_every = {self.evaluate_every}", self.steps)

"""One small cell of three tables, a few hundred steps at a gentle rate: its errors as they once were.

python tests/reproduce/cells.py     writes tests/reproduce/cells.json anew
"""

import json
from dataclasses import replace
from pathlib import Path

from headcount.engine.train import train
from headcount.reproduce.item import ITEMS
from headcount.reproduce.recipe import FULL
from headcount.trials.outcome import Outcome
from headcount.trials.training import Training
from headcount.trials.trial import Trial

COMMITTED = Path(__file__).with_name("cells.json")
NAMES = ("table2", "table4", "table5")
RECIPE = replace(
    FULL,
    training=Training(steps=200, weight_decay=3e-3, train_samples=2_000, test_samples=1_000),
    rates=(3e-3,),
    seeds=1,
    lengths=(8,),
)


def cell(name: str) -> Trial:
    """The member of the smallest length and of two heads."""
    grid = ITEMS[name].trials(RECIPE)
    trial = next(trial for trial in grid if trial.architecture.heads == 2)
    return replace(trial, training=replace(RECIPE.training, data_seed=trial.seed))


def outcome(name: str) -> Outcome:
    """That member, trained."""
    (made,) = train([cell(name)])
    return made


if __name__ == "__main__":
    errors = {name: outcome(name).test_error for name in NAMES}
    COMMITTED.write_text(json.dumps(errors, indent=2) + "\n")

"""A study small enough for a test."""

import numpy as np

from headcount.data.arrays import data_set
from headcount.estimate.members import MemberRecipe
from headcount.estimate.study import Study
from headcount.results.store import Store
from headcount.running.executor import run

X = np.random.default_rng(0).normal(size=(400, 4, 2))
Y = X.max(axis=1).sum(axis=1)
SIZES = {"steps": 400, "batch_size": 32, "width": 12, "hidden": 8, "max_heads": 3}
SMALL = MemberRecipe(**SIZES, starts=((1e-2, 0),), more_starts=((1e-2, 1),))


def small_study(folder, *, recipe=SMALL, **options):
    return Study(data_set(X, Y), Store(folder), recipe, **{"positions": False, **options})


def train(study, stage):
    for _ in run(stage.trials, study.store, keep_models=True):
        pass


def train_all(study):
    for stage in study.stages():
        train(study, stage)

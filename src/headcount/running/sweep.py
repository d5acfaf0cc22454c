"""A grid in, a results frame out."""

import warnings
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pandas as pd

from headcount.results.store import Store
from headcount.running.executor import FileProblem, run
from headcount.trials.trial import Trial


def sweep(trials: Iterable[Trial], folder: Path | str) -> pd.DataFrame:
    """Train what the folder does not hold yet, and return the rows of these trials.

    A file that cannot be used is named in a warning.
    """
    trials, store = tuple(trials), Store(folder)
    with closing(run(trials, store)) as events:
        for event in events:
            if isinstance(event, FileProblem):
                warnings.warn(event.line, stacklevel=2)
    frame = store.frame()
    return frame[frame["trial"].isin([trial.id for trial in trials])].reset_index(drop=True)

"""The finished members of a study, each read once."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from headcount.results.shards import read_shard
from headcount.results.store import Store
from headcount.trials.trial import Trial


class FinishedMembers:
    """What a store holds of them; what it does not hold yet is looked up again at the next request."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._shards: set[Path] = set()
        self._errors: dict[str, float] = {}
        self._outputs: dict[str, np.ndarray] = {}

    def errors(self, trials: Sequence[Trial]) -> dict[str, float] | None:
        """Their validation errors, if all of them are finished.

        Unusable files are reported by the run.
        """
        if any(trial.id not in self._errors for trial in trials):
            self._look()
        if any(trial.id not in self._errors for trial in trials):
            return None
        return {trial.id: self._errors[trial.id] for trial in trials}

    def outputs(self, trials: Sequence[Trial]) -> dict[str, np.ndarray] | None:
        """Their outputs for the test samples, if all of them are finished and kept."""
        if self.errors(trials) is None:
            return None
        for trial in trials:
            if trial.id not in self._outputs:
                outputs = self._store.test_outputs(trial)
                if outputs is None or self._store.model(trial) is None:
                    return None
                self._outputs[trial.id] = outputs
        return {trial.id: self._outputs[trial.id] for trial in trials}

    def _look(self) -> None:
        """Read the new shards; an unusable one may be rewritten under its name."""
        for path in sorted(set(self._store.shards.glob("*.parquet")) - self._shards):
            shard = read_shard(path)
            if isinstance(shard, pa.Table):
                columns = (shard[name].to_pylist() for name in ("trial", "validation_error"))
                self._errors |= zip(*columns, strict=True)
                self._shards.add(path)

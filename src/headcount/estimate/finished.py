"""The finished members of a study, each read once."""

from collections.abc import Sequence

import numpy as np

from headcount.engine import Store, Trial


class FinishedMembers:
    """What a store holds of them; what it does not hold yet is looked for again when it is asked for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._errors: dict[str, float] = {}
        self._outputs: dict[str, np.ndarray] = {}

    def errors(self, trials: Sequence[Trial]) -> dict[str, float] | None:
        """Their validation errors, if all of them are finished.

        Files that cannot be used are told of by the run.
        """
        if any(trial.id not in self._errors for trial in trials) and self._store.folder.exists():
            frame = Store(self._store.folder).frame()
            self._errors = dict(zip(frame["trial"], map(float, frame["validation_error"]), strict=True))
        if any(trial.id not in self._errors for trial in trials):
            return None
        return {trial.id: self._errors[trial.id] for trial in trials}

    def outputs(self, trials: Sequence[Trial]) -> dict[str, np.ndarray] | None:
        """What they put out for the test samples, if all of them are finished and kept."""
        if self.errors(trials) is None:
            return None
        for trial in trials:
            if trial.id not in self._outputs:
                outputs = self._store.test_outputs(trial)
                if outputs is None or self._store.model(trial) is None:
                    return None
                self._outputs[trial.id] = outputs
        return {trial.id: self._outputs[trial.id] for trial in trials}

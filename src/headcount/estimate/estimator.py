"""`HeadCount().fit(x, y)`: the estimate as a library."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from headcount.engine import run
from headcount.estimate.study import Study
from headcount.estimate.verdict import Estimate
from headcount.tasks.arrays import Target, data_set
from headcount.validation import whole_number


class HeadCount:
    """How many attention heads does a task need? Asked of samples of it.

    - `out`: a folder to keep what is trained, to go on from after a stop; None keeps nothing.
    - `positions`: whether members may be told where in its sequence a token stands.
    - `most_heads`: the largest number of heads that is tried.

    After `fit`, `estimate` holds the answer and `early` the one after a tenth of the training.
    """

    estimate: Estimate
    early: Estimate

    def __init__(
        self, *, out: Path | str | None = None, positions: bool = True, most_heads: int = 8, seed: int = 0
    ) -> None:
        self.most_heads = whole_number("most_heads", most_heads, at_least=3, at_most=32)
        self.out = None if out is None else Path(out)
        self.positions = positions
        self.seed = whole_number("seed", seed, at_least=0)

    def fit(self, x: Any, y: Any, mask: Any = None, *, target: Target = "auto") -> "HeadCount":
        """Train what is needed to tell, and tell."""
        began = time.perf_counter()
        data = data_set(x, y, mask, target=target)
        with self._folder() as folder:
            study = Study.of(
                data, folder, most_heads=self.most_heads, positions=self.positions, seed=self.seed
            )
            while (stage := study.next_stage()) is not None:
                for _ in run(stage.trials, study.store, keep_models=True):
                    pass
            self.early = study.early_estimate()
            self.estimate = replace(study.estimate(), seconds=time.perf_counter() - began)
        return self

    @contextmanager
    def _folder(self) -> Iterator[Path]:
        if self.out is not None:
            yield self.out
            return
        with tempfile.TemporaryDirectory(prefix="headcount-") as folder:
            yield Path(folder)

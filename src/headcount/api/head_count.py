"""`HeadCount().fit(x, y)`: the estimate as a library."""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax

from headcount.data.arrays import MIN_SAMPLES, DataSet, TargetType, data_set
from headcount.errors import InvalidInput
from headcount.estimate.study import Study
from headcount.estimate.verdict import Estimate
from headcount.running.executor import run
from headcount.tasks.retrieval import RetrievalTask
from headcount.validation import check_integer

Sampler = Callable[[int, int, int], Any]


class HeadCount:
    """How many attention heads does a task need? Asked of samples of it.

    - `out`: a folder to keep what is trained, to go on from after a stop; None keeps nothing.
    - `positions`: whether members may be told where in its sequence a token stands.
    - `max_heads`: the largest number of heads that is tried.

    After `fit`, `estimate` holds the answer and `early` the one after a tenth of the training.
    """

    estimate: Estimate
    early: Estimate

    def __init__(
        self, *, out: Path | str | None = None, positions: bool = True, max_heads: int = 8, seed: int = 0
    ) -> None:
        self.max_heads = check_integer("max_heads", max_heads, at_least=3, at_most=32)
        self.out = None if out is None else Path(out)
        self.positions = positions
        self.seed = check_integer("seed", seed, at_least=0)

    def fit(self, x: Any, y: Any, mask: Any = None, *, target: TargetType = "auto") -> "HeadCount":
        """Train what is needed to tell, and tell, from samples as arrays."""
        return self._fit(data_set(x, y, mask, target=target))

    def fit_task(self, task: RetrievalTask, *, length: int = 32, samples: int = 10_000) -> "HeadCount":
        """The same for a task of the library or of one's own."""
        return self.fit_target(
            task.target,
            lambda seed, samples, length: task.inputs(jax.random.key(seed), samples, length),
            length=length,
            samples=samples,
        )

    def fit_target(
        self,
        target: Callable[[Any], Any],
        sampler: Sampler,
        *,
        length: int = 32,
        samples: int = 10_000,
        kind: TargetType = "auto",
    ) -> "HeadCount":
        """The same for a function of sequences; it is asked at half the length too.

        - `target`: takes x [samples, length, token_dim] and returns y [samples] or [samples, k].
        - `sampler`: takes a seed, a number of samples and a length, and returns x.
        - `kind`: whether y are `numbers` or `labels`, as in `fit`.
        """
        length = check_integer("length", length, at_least=4)
        samples = check_integer("samples", samples, at_least=MIN_SAMPLES)
        whole, half = (self._drawn(sampler, samples, size) for size in (length, length // 2))
        data = data_set(whole, target(whole), target=kind)
        same_kind: TargetType = "labels" if data.classes else "numbers"
        return self._fit(data, data_set(half, target(half), target=same_kind))

    def _drawn(self, sampler: Sampler, samples: int, length: int) -> Any:
        x = sampler(self.seed, samples, length)
        if tuple(getattr(x, "shape", ())[:2]) != (samples, length):
            raise InvalidInput(
                f"sampler: gave the shape {getattr(x, 'shape', None)} when asked for {samples} samples "
                f"of length {length}"
            )
        return x

    def _fit(self, data: DataSet, half: DataSet | None = None) -> "HeadCount":
        began = time.perf_counter()
        with self._folder() as folder:
            study = Study.of(data, folder, max_heads=self.max_heads, positions=self.positions, seed=self.seed)
            study = replace(study, half=half)
            study.check()
            for stage in study.stages():
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

"""`HeadCount().fit(x, y)`: the estimate as a library, by the conventions of scikit-learn."""

import importlib
import inspect
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import jax
import pandas as pd

from headcount.api.answer import Answer, check_same_data
from headcount.api.parameters import RandomState, Sampler, folder_of, sampled, seed_of, with_old_names
from headcount.api.progress import FitProgress, is_interactive
from headcount.data.arrays import MIN_SAMPLES, DataSet, TargetType, TokenType, data_set
from headcount.data.long_form import Columns
from headcount.data.sources import gathered
from headcount.engine.lanes import compile_seconds
from headcount.errors import DataWarning, HeadcountError
from headcount.estimate.countdown import Countdown, check_minutes
from headcount.estimate.evidence import estimate_of
from headcount.estimate.num_heads import check_d_model
from headcount.estimate.study import Study
from headcount.estimate.verdict import MAX_HEADS, Estimate
from headcount.results.files import check_writable
from headcount.running.executor import FileProblem, run
from headcount.tasks.retrieval import RetrievalTask
from headcount.validation import check_choice, check_integer

LEARNT = ("dimension_", "interval_", "recommended_heads_", "estimate_", "early_estimate_", "read_as_")
RENAMED_ATTRIBUTES = {"estimate": "estimate_", "early": "early_estimate_"}
CHART_WIDTH = 480


class NotFittedError(HeadcountError, ValueError, AttributeError):
    """Raised when a result is asked for before `fit`."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return not_fitted_error, (str(self),)


def not_fitted_error(message: str) -> NotFittedError:
    """The error to raise; where scikit-learn is loaded, it is also a NotFittedError of scikit-learn's.

    >>> str(not_fitted_error("call fit first"))
    'call fit first'
    """
    exceptions = sys.modules.get("sklearn.exceptions")
    if exceptions is None:
        return NotFittedError(message)
    both: type[NotFittedError] = type("NotFittedError", (NotFittedError, exceptions.NotFittedError), {})
    return both(message)


class HeadCount:
    """How many attention heads does a task need? An estimate from samples of it.

    Its parameters, which `fit` checks:

    - `out`: folder for the trained members, to resume from after an interruption; None keeps nothing.
    - `positions`: whether members may see the position of a token, where that helps.
    - `max_heads`: the largest number of heads to try, 3 to 32.
    - `d_model`: width of your own model; `estimate_` then has the next `num_heads` that divides it.
    - `steps`: training steps of each member in the final sweep, a multiple of 100; None means 8,000 (12,000
      on a GPU). Fewer are faster and less reliable.
    - `quick`: whether a quarter of those steps, from one start, will do; the answer says so.
    - `minutes`: answer within so many, from what fits into them; None takes the time that it takes.
    - `random_state`: seed of the splits and of the members. An int makes `fit` reproducible; None draws a new
      seed each time, a NumPy RandomState or Generator provides one.
    - `verbose`: whether to say how the data was read, and show progress; "auto" shows progress only in a
      terminal or a notebook.

    What `fit` learns:

    - `dimension_`: D, the number of things that the task retrieves at once; None if `fit` cannot tell.
    - `interval_`: 95% interval of D, as (low, high), or None.
    - `recommended_heads_`: how many heads to use, or None.
    - `estimate_`: the whole `Estimate`, with curves, evidence and reasons.
    - `read_as_`: what the data was taken for, in words.
    - `early_estimate_`: a first guess, from the first look; nothing calibrates it.
    """

    dimension_: int | None
    interval_: tuple[int, int] | None
    recommended_heads_: int | None
    estimate_: Estimate
    early_estimate_: Estimate
    read_as_: str
    _answer: Answer

    @with_old_names(most_heads="max_heads", seed="random_state")
    def __init__(
        self,
        *,
        out: Path | str | None = None,
        positions: bool = True,
        max_heads: int = 8,
        d_model: int | None = None,
        steps: int | None = None,
        quick: bool = False,
        minutes: float | None = None,
        random_state: RandomState = 0,
        verbose: bool | Literal["auto"] = "auto",
    ) -> None:
        self.out = out
        self.positions = positions
        self.max_heads = max_heads
        self.d_model = d_model
        self.steps = steps
        self.quick = quick
        self.minutes = minutes
        self.random_state = random_state
        self.verbose = verbose

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; there are no nested ones."""
        return {name: getattr(self, name) for name in _DEFAULTS}

    def set_params(self, **params: Any) -> "HeadCount":
        """Set parameters by name; `fit` checks them."""
        for name in params:
            check_choice("parameter", name, _DEFAULTS)
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def fit(
        self,
        x: Any,
        y: Any = None,
        mask: Any = None,
        *,
        target: TargetType = "auto",
        tokens: TokenType = "auto",
        padding: float | str | None = None,
        id: str | None = None,
        time: str | None = None,
        features: str | Sequence[str] | None = None,
    ) -> "HeadCount":
        """Train members with 1 to `max_heads` heads on samples, and estimate D from them.

        - `x`: [samples, length, token_dim], or integer tokens [samples, length]. Or what holds y and a mask
          too: a Dataset or a DataLoader of PyTorch, a Dataset of Hugging Face, a dict of arrays.
        - `y`: numbers [samples] or [samples, k], or labels [samples]; or the name of its column.
        - `mask`: [samples, length], true where there is a token, if lengths differ.
        - `target`: whether y are `numbers` or `labels`; `auto` finds out.
        - `tokens`: whether x are `numbers` or `ids` of tokens; `auto` finds out.
        - `padding`: the number, or "nan", of tokens that only fill up shorter sequences.
        - `id`, `time`, `features`: columns of a data frame with one row per token: what tells sequences
          apart, what orders their tokens, and the numbers of a token.

        Data that was probably not meant as it was read raises a `DataWarning` before anything is trained.
        """

        def read(_: int) -> tuple[DataSet, None]:
            parts = gathered(x, y, mask, Columns(id, time, features), nan_allowed=padding is not None)
            return data_set(*parts, target=target, tokens=tokens, padding=padding), None

        return self._fit(read, "fit(x, y)")

    def fit_task(self, task: RetrievalTask, *, length: int = 32, samples: int = 10_000) -> "HeadCount":
        """The same for a task: one from the library or your own."""
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
        """The same for a function of sequences, which is sampled at half the length too.

        - `target`: takes x [samples, length, token_dim] and returns y [samples] or [samples, k].
        - `sampler`: takes a seed, a number of samples and a length, and returns x.
        - `kind`: whether y are `numbers` or `labels`, as in `fit`.
        """
        length = check_integer("length", length, at_least=4)
        samples = check_integer("samples", samples, at_least=MIN_SAMPLES)

        def drawn(seed: int) -> tuple[DataSet, DataSet]:
            whole, half = (sampled(sampler, seed, samples, size) for size in (length, length // 2))
            data = data_set(whole, target(whole), target=kind)
            same_kind: TargetType = "labels" if data.classes else "numbers"
            return data, data_set(half, target(half), target=same_kind)

        return self._fit(drawn, f"fit_target(target, sampler, length={length}, samples={samples})")

    def report(self, path: Path | str) -> Path:
        """Write the page of the estimate, which opens in any browser, to this file."""
        self._answer_for("report").write_page(Path(path))
        return Path(path)

    def to_frame(self) -> pd.DataFrame:
        """A row for each member that was trained: its heads, start, errors and time."""
        return self._answer_for("to_frame").frame.copy()

    def _answer_for(self, method: str) -> Answer:
        if "_answer" not in vars(self):
            raise not_fitted_error(f"This HeadCount is not fitted yet: call fit before {method}.")
        return self._answer

    def _fit(self, drawn: Callable[[int], tuple[DataSet, DataSet | None]], call: str) -> "HeadCount":
        began, compiled = time.perf_counter(), compile_seconds()
        max_heads = check_integer("max_heads", self.max_heads, at_least=3, at_most=MAX_HEADS)
        steps = None if self.steps is None else check_integer("steps", self.steps, at_least=200)
        d_model = check_d_model(self.d_model)
        check_choice("positions", self.positions, (True, False))
        check_choice("quick", self.quick, (True, False))
        minutes = check_minutes("minutes", self.minutes)
        check_choice("verbose", self.verbose, ("auto", True, False))
        seed = seed_of(self.random_state)
        data, half = drawn(seed)
        with folder_of(self.out) as folder:
            options = {"positions": bool(self.positions), "quick": bool(self.quick)}
            study = Study.of(data, folder, max_heads=max_heads, seed=seed, steps=steps, half=half, **options)
            study.check()
            check_writable("out", folder)
            check_same_data("out", study)
            self._say_how_read(data)
            self._train(study, minutes)
            found = estimate_of(study, d_model=d_model, minutes=minutes)
            early = study.early_estimate() if study.has_quick_sweep else found
            found = replace(
                found,
                seconds=time.perf_counter() - began,
                compile_seconds=compile_seconds() - compiled,
            )
            answer = Answer.of(study, found, command=f"{self._unfitted}.{call}")
            if self.out is not None:
                answer.write(study)
        self.early_estimate_, self.estimate_, self._answer = early, found, answer
        self.read_as_ = data.summary
        self.dimension_, self.interval_ = found.dimension, found.interval
        self.recommended_heads_ = found.recommended_heads
        return self

    @property
    def _shown(self) -> bool:
        return is_interactive() if self.verbose == "auto" else bool(self.verbose)

    def _say_how_read(self, data: DataSet) -> None:
        if self.verbose is not False:  # a line, also where nobody watches progress
            print(data.summary, file=sys.stderr)
        for doubt in data.doubts:
            warnings.warn(doubt, DataWarning, stacklevel=4)

    def _train(self, study: Study, minutes: float | None) -> None:
        countdown = Countdown(study, minutes=minutes)
        with FitProgress(countdown, shown=self._shown) as progress:
            for stage in countdown.stages():
                progress.begin()
                # Closed even where a traceback keeps it alive: after Ctrl-C in a notebook the folder is free.
                with closing(run(stage.trials, study.store, keep_models=True)) as events:
                    for event in events:
                        progress.note(event)
                        if isinstance(event, FileProblem):
                            warnings.warn(event.line, stacklevel=4)
                        if countdown.is_up:
                            break

    if not TYPE_CHECKING:  # a type checker refuses unknown names by itself

        def __getattr__(self, name: str) -> Any:
            """Only for what is not there: learnt values before `fit`, and old names."""
            if name in RENAMED_ATTRIBUTES:
                new = RENAMED_ATTRIBUTES[name]
                warnings.warn(f"HeadCount.{name} is now HeadCount.{new}", FutureWarning, stacklevel=2)
                return getattr(self, new)
            if name in LEARNT:
                raise not_fitted_error(f"This HeadCount is not fitted yet: call fit before {name}.")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks of an estimator; only scikit-learn calls it, so it is there."""
        utils = importlib.import_module("sklearn.utils")
        return utils.Tags(
            estimator_type=None,
            target_tags=utils.TargetTags(required=True),
            input_tags=utils.InputTags(two_d_array=False, three_d_array=True),
            non_deterministic=self.random_state is None,
        )

    @property
    def _unfitted(self) -> str:
        given = {name: repr(value) for name, value in self.get_params().items()}
        changed = (f"{name}={text}" for name, text in given.items() if text != repr(_DEFAULTS[name]))
        return f"{type(self).__name__}({', '.join(changed)})"

    def __repr__(self) -> str:
        """What was set before `fit`, and what was found after it."""
        fitted = "estimate_" in vars(self)
        return f"<{type(self).__name__}: {self.estimate_.sentence}>" if fitted else self._unfitted

    def _repr_html_(self) -> str:
        """For notebooks: the answer, and the curves that decide it as a picture."""
        if "estimate_" not in vars(self):
            return f"<p>{escape(repr(self))}</p>"
        said = (self.estimate_.sentence, self.estimate_.deciding)
        text = "".join(f"<p>{escape(line)}</p>" for line in said if line)
        if not self.estimate_.errors:
            return text
        from headcount.report.deciding_chart import deciding_chart
        from headcount.report.rendering import WRITERS

        chart = deciding_chart(self.estimate_)
        return f"{text}{WRITERS['.svg'](chart.properties(width=CHART_WIDTH)).decode()}"


_DEFAULTS = {name: parameter.default for name, parameter in inspect.signature(HeadCount).parameters.items()}

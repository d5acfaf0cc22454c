"""How many attention heads does this task need? An answer, with evidence.

These are the public names. They are loaded when first used, so that `import headcount` takes no time; every
other module may change without notice.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headcount.version import __version__

if TYPE_CHECKING:
    from headcount.api.head_count import HeadCount, NotFittedError
    from headcount.engine.train import train
    from headcount.errors import DataWarning, HeadcountError, InvalidInput, StorageError
    from headcount.estimate.verdict import Estimate
    from headcount.models.architecture import Architecture
    from headcount.models.transformer import Transformer
    from headcount.results.store import Store, read_results
    from headcount.results.transitions import Transition, transitions
    from headcount.running.sweep import sweep
    from headcount.tasks.registry import register_task
    from headcount.tasks.retrieval import RetrievalTask
    from headcount.theory.assumptions.checks import check_assumptions
    from headcount.theory.bounds import bounds
    from headcount.theory.capacity import capacity
    from headcount.theory.collisions.collide import collide
    from headcount.theory.constructions.memorise import memorise
    from headcount.theory.constructions.specialise import specialise
    from headcount.theory.density.approximate import approximate_target
    from headcount.trained.inspecting import inspect
    from headcount.trained.inspection import Inspection
    from headcount.trained.layout import Layout, register_attention
    from headcount.trials.grid import Grid
    from headcount.trials.row import Outcome
    from headcount.trials.task_choice import TaskChoice
    from headcount.trials.training import Training
    from headcount.trials.trial import Trial

_HOMES = {
    "HeadCount": "api.head_count",
    "Estimate": "estimate.verdict",
    "Grid": "trials.grid",
    "TaskChoice": "trials.task_choice",
    "Training": "trials.training",
    "Trial": "trials.trial",
    "Outcome": "trials.row",
    "train": "engine.train",
    "sweep": "running.sweep",
    "Store": "results.store",
    "read_results": "results.store",
    "Transition": "results.transitions",
    "transitions": "results.transitions",
    "Architecture": "models.architecture",
    "Transformer": "models.transformer",
    "RetrievalTask": "tasks.retrieval",
    "register_task": "tasks.registry",
    "check_assumptions": "theory.assumptions.checks",
    "bounds": "theory.bounds",
    "capacity": "theory.capacity",
    "specialise": "theory.constructions.specialise",
    "memorise": "theory.constructions.memorise",
    "collide": "theory.collisions.collide",
    "inspect": "trained.inspecting",
    "Inspection": "trained.inspection",
    "Layout": "trained.layout",
    "register_attention": "trained.layout",
    "approximate_target": "theory.density.approximate",
    "DataWarning": "errors",
    "HeadcountError": "errors",
    "StorageError": "errors",
    "NotFittedError": "api.head_count",
    "InvalidInput": "errors",
}
_RENAMED = {"check": "check_assumptions", "dense": "approximate_target"}

__all__ = [
    "Architecture",
    "DataWarning",
    "Estimate",
    "Grid",
    "HeadCount",
    "HeadcountError",
    "Inspection",
    "InvalidInput",
    "Layout",
    "NotFittedError",
    "Outcome",
    "RetrievalTask",
    "StorageError",
    "Store",
    "TaskChoice",
    "Training",
    "Transformer",
    "Transition",
    "Trial",
    "__version__",
    "approximate_target",
    "bounds",
    "capacity",
    "check_assumptions",
    "collide",
    "inspect",
    "memorise",
    "read_results",
    "register_attention",
    "register_task",
    "specialise",
    "sweep",
    "train",
    "transitions",
]


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        import warnings

        new = _RENAMED[name]
        warnings.warn(f"headcount.{name} is now headcount.{new}", DeprecationWarning, stacklevel=2)
        name = new
    if name not in _HOMES:
        raise AttributeError(f"module 'headcount' has no attribute {name!r}")
    return getattr(import_module(f"headcount.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__

"""What is written: a shrunk model, with what it takes to write it in any kind of folder."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from headcount.errors import InvalidInput
from headcount.trained.attention import AttentionBlock
from headcount.trained.discovery import attention_blocks, same_blocks
from headcount.trained.export.check import difference, outputs_of, tolerance_of
from headcount.trained.export.inputs import Inputs
from headcount.trained.plan import Made

MAX_REASON = 200  # characters of a message that is not ours


class CannotHold(InvalidInput):
    """A model that a kind of folder cannot hold; another kind may."""


@dataclass(frozen=True, eq=False)
class Smaller:
    """A shrunk model to be written.

    - `whole`: the model that it was made of.
    - `inputs`: some to check it with.
    """

    whole: nn.Module
    model: nn.Module
    inputs: Inputs
    solution: Made

    @cached_property
    def blocks(self) -> tuple[AttentionBlock, ...]:
        """Its attention."""
        return same_blocks(attention_blocks(self.whole), self.model)

    @property
    def grouped(self) -> bool:
        """Whether heads share key-value heads, before or after."""
        return any(block.group_size > 1 for block in (*attention_blocks(self.whole), *self.blocks))

    @cached_property
    def outputs(self) -> dict[str, Tensor]:
        """What it makes of the inputs."""
        return outputs_of(self.model, self.inputs)

    @property
    def values_only(self) -> bool:
        """Whether values are fewer than keys."""
        return any(block.value_repeats > 1 for block in self.blocks)

    def check(self, kind: str, load: Callable[[], nn.Module]) -> None:
        """Refuse a kind whose model, read back, fails or does something else."""
        try:
            apart = difference(self.outputs, outputs_of(load(), self.inputs))
        except (RuntimeError, ValueError, TypeError, AttributeError) as problem:
            reason = " ".join(str(problem).split())[:MAX_REASON]
            raise CannotHold(f"{kind}: what was written cannot be read back: {reason}") from problem
        if not apart <= tolerance_of(self.outputs):
            raise CannotHold(
                f"{kind}: expected the outputs of the shrunk model from what was written, got others, "
                f"{apart:.2g} apart"
            )


@dataclass(frozen=True)
class Loading:
    """How a folder is loaded.

    - `lines`: of Python, with {folder} for its path.
    - `needs`: the packages that these lines take.
    - `says`: more about it, in whole sentences.
    """

    lines: tuple[str, ...]
    needs: str
    says: tuple[str, ...] = ()


Write = Callable[[Smaller, Path], Loading]


def transformers_class(kind: str, model: nn.Module) -> Any:
    """The class of a model of transformers, which others have too; refused for all other models."""
    name, module = type(model).__name__, type(model).__module__
    if module.partition(".")[0] == "transformers":
        import transformers

        if getattr(transformers, name, None) is type(model):
            return type(model)
    raise CannotHold(f"{kind}: expected a model of transformers, got {module}.{name}")


def auto_classes(model: Any) -> list[str]:
    """The `AutoModel...` names that stand for a model's class, the most specific of its use first."""
    from transformers.models.auto import modeling_auto

    found = []
    for name, each in vars(modeling_auto).items():
        mapping = getattr(each, "_model_mapping", None)
        if name.startswith("AutoModel") and mapping is not None:
            classes = mapping.get(type(model.config), None)
            if type(model) in (classes if isinstance(classes, tuple) else (classes,)):
                found.append(name)
    return sorted(found, key=_how_general)


# Names by use stand for the same class as these, which are known best.
FIRST = ("AutoModel", "AutoModelForCausalLM", "AutoModelForSeq2SeqLM")
LAST = ("AutoModelForPreTraining",)


def _how_general(name: str) -> tuple[int, str]:
    return (FIRST.index(name) if name in FIRST else len(FIRST) + (name in LAST), name)


@contextmanager
def no_bars() -> Iterator[None]:
    """Have transformers read and write without bars of progress."""
    from transformers.utils import logging

    was_on = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_on:
            logging.enable_progress_bar()

"""A shrunk model into a folder of the kind that was asked for, or of the first that can hold it."""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from torch import nn

from headcount.trained.discovery import attention_blocks
from headcount.trained.export import code, program, stock
from headcount.trained.export.check import CHECK
from headcount.trained.export.folder import MARK, check_free, write_whole_folder
from headcount.trained.export.readme import KINDS, lines_of, readme
from headcount.trained.export.smaller import CannotHold, Loading, Smaller, Write
from headcount.trained.plan import MAKES, Made, Plan
from headcount.validation import check_choice
from headcount.version import __version__

Kind = Literal["stock", "code", "export"]
NAMES: tuple[Kind, ...] = get_args(Kind)
WRITE: dict[Kind, Write] = {"stock": stock.write, "code": code.write, "export": program.write}
SOLUTION_OF: dict[Kind, Made] = {"stock": "uniform", "code": "free", "export": "free"}
README = "README.md"
# What stands beside the weights of a model and is not changed by shrinking it.
BESIDE = (
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.*",
    "vocab.*",
    "merges.txt",
    "*.spm",
    "spiece.model",
    "sentencepiece.bpe.model",
    "preprocessor_config.json",
    "processor_config.json",
)


@dataclass(frozen=True)
class Exported:
    """A folder with a shrunk model.

    - `heads`, `parameters`: of the whole model and of this one.
    - `notes`: why it is none of the kinds that come first, and what else could be had.
    """

    kind: Kind
    solution: Made
    folder: Path
    heads: tuple[int, int]
    parameters: tuple[int, int]
    loading: Loading
    notes: tuple[str, ...]

    @property
    def title(self) -> str:
        """What it is."""
        return f"{KINDS[self.kind]}."

    @property
    def lines(self) -> str:
        """The Python that loads it."""
        return lines_of(self.loading, str(self.folder))

    def about(self) -> dict[str, Any]:
        """What is in the folder, wherever it lies."""
        whole, left = (
            {"heads": h, "parameters": p} for h, p in zip(self.heads, self.parameters, strict=True)
        )
        return {
            "kind": self.kind,
            "solution": self.solution,
            "needs": self.loading.needs,
            "says": list(self.loading.says),
            "whole": whole,
            "shrunk": left,
            "version": __version__,
        }

    def to_json(self) -> dict[str, Any]:
        """What was written, where, and how it is loaded."""
        place = {"folder": str(self.folder), "load": self.lines, "notes": list(self.notes)}
        return {**self.about(), **place}


def written(
    plan: Plan,
    build: Callable[[Made], Smaller],
    folder: Path,
    *,
    kind: str | None = None,
    solution: str | None = None,
    name: str = "folder",
) -> Exported:
    """Write the first of stock, code and export that can hold the model, or the one that is named.

    - `build`: makes the model of one solution.
    - `solution`: by default uniform for stock and free for the others.
    """
    if kind is not None:
        check_choice("kind", kind, NAMES)
    if solution is not None:
        check_choice("solution", solution, MAKES)
    check_free(name, folder)
    notes: list[str] = []
    for each, chosen in _choices(kind, solution):
        if kind is None and solution is None and chosen == "uniform" and _keeps_all_needlessly(plan):
            notes.append(f"Not {each}: the uniform solution keeps all heads.")
            continue
        try:
            return _written(each, build(chosen), folder, [*notes, *_smaller_one(plan, chosen, solution)])
        except CannotHold as problem:
            if kind is not None:
                raise
            notes.append(f"Not {problem}.")
            refused = problem
    raise refused


def _choices(kind: str | None, solution: str | None) -> list[tuple[Kind, Made]]:
    """What to try, in this order."""
    kinds = [each for each in NAMES if kind in (None, each)]
    named = [name for name in MAKES if name == solution]
    return [(each, named[0] if named else SOLUTION_OF[each]) for each in kinds]


def _keeps_all_needlessly(plan: Plan) -> bool:
    return plan.uniform.heads == plan.heads > plan.free.heads


def _smaller_one(plan: Plan, chosen: Made, solution: str | None) -> list[str]:
    """A word on the other solution, where it keeps fewer heads and nobody chose between them."""
    if solution is not None or chosen != "uniform" or plan.free.heads >= plan.uniform.heads:
        return []
    return [f"The free solution keeps {plan.free.heads} heads: --as code or --as export holds it."]


def _written(kind: Kind, smaller: Smaller, folder: Path, notes: Sequence[str]) -> Exported:
    whole = attention_blocks(smaller.whole)

    def fill(place: Path) -> Exported:
        loading = WRITE[kind](smaller, place)
        counts = [
            (each.name, each.heads, left.heads) for each, left in zip(whole, smaller.blocks, strict=True)
        ]
        found = Exported(
            kind,
            smaller.solution,
            folder,
            (sum(before for _, before, _ in counts), sum(after for _, _, after in counts)),
            (_parameters(smaller.whole), _parameters(smaller.model)),
            loading,
            tuple(notes),
        )
        _write_check(place / CHECK, smaller)
        _copy_beside(smaller.whole, place)
        text = readme(
            kind,
            loading,
            folder=folder.absolute().name,
            counts=counts,
            inputs=smaller.inputs,
            outputs=smaller.outputs,
        )
        (place / README).write_text(text, encoding="utf-8")
        (place / MARK).write_text(json.dumps(found.about(), indent=2) + "\n", encoding="utf-8")
        return found

    return write_whole_folder(folder, fill)


def _write_check(path: Path, smaller: Smaller) -> None:
    from safetensors.torch import save_file

    tensors = {**smaller.inputs.to_tensors(), **smaller.outputs}
    save_file({name: each.clone() for name, each in tensors.items()}, path)


def _copy_beside(whole: nn.Module, folder: Path) -> None:
    """The tokenizer and whatever prepares images, of a model that was loaded from a folder."""
    source = Path(getattr(whole, "name_or_path", "") or folder)
    if source.is_dir():
        for path in (found for pattern in BESIDE for found in source.glob(pattern) if found.is_file()):
            if not (folder / path.name).exists():
                shutil.copyfile(path, folder / path.name)


def _parameters(model: nn.Module) -> int:
    """Numbers in weights; one that stands for several counts once."""
    return sum(each.numel() for each in model.parameters())

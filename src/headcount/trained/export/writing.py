"""A shrunk model into a folder of the kind that was asked for, or of the first that can hold it."""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from torch import nn

from headcount.errors import InvalidInput
from headcount.trained.discovery import attention_blocks
from headcount.trained.export import code, program, stock
from headcount.trained.export.check import CHECK
from headcount.trained.export.folder import MARK, check_free, write_whole_folder
from headcount.trained.export.readme import KINDS, lines_of, readme
from headcount.trained.export.smaller import CannotHold, Loading, Smaller, Write
from headcount.trained.plan import SOLUTIONS, Name
from headcount.validation import check_choice
from headcount.version import __version__

Kind = Literal["stock", "code", "export"]
NAMES: tuple[Kind, ...] = get_args(Kind)
WRITE: dict[Kind, Write] = {"stock": stock.write, "code": code.write, "export": program.write}
SOLUTION_OF: dict[Kind, Name] = {"stock": "uniform", "code": "free", "export": "free"}
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

    - `passed_over`: why it is none of the kinds that come first.
    """

    kind: Kind
    solution: Name
    folder: Path
    heads: tuple[int, int]
    parameters: tuple[int, int]
    loading: Loading
    passed_over: tuple[str, ...]

    @property
    def title(self) -> str:
        """What it is."""
        return f"{KINDS[self.kind]}."

    @property
    def lines(self) -> str:
        """The Python that loads it."""
        return lines_of(self.loading, str(self.folder))

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        whole, left = (
            {"heads": h, "parameters": p} for h, p in zip(self.heads, self.parameters, strict=True)
        )
        return {
            "kind": self.kind,
            "solution": self.solution,
            "folder": str(self.folder),
            "load": self.lines,
            "needs": self.loading.needs,
            "says": list(self.loading.says),
            "whole": whole,
            "shrunk": left,
            "passed_over": list(self.passed_over),
            "version": __version__,
        }


def written(
    build: Callable[[Name], Smaller],
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
        check_choice("solution", solution, SOLUTIONS)
    check_free(name, folder)
    tried: list[str] = []
    for each in NAMES:
        if kind not in (None, each):
            continue
        chosen = next((known for known in SOLUTIONS if known == solution), SOLUTION_OF[each])
        try:
            return _written(each, build(chosen), folder, tried)
        except CannotHold as problem:
            if kind is not None:
                raise
            tried.append(str(problem))
    raise InvalidInput(tried[-1])


def _written(kind: Kind, smaller: Smaller, folder: Path, tried: Sequence[str]) -> Exported:
    counts = [
        (block.name, block.heads, left.heads)
        for block, left in zip(attention_blocks(smaller.whole), smaller.blocks, strict=True)
    ]

    def fill(place: Path) -> Exported:
        loading = WRITE[kind](smaller, place)
        found = Exported(
            kind,
            smaller.solution,
            folder,
            (sum(each[1] for each in counts), sum(each[2] for each in counts)),
            (_parameters(smaller.whole), _parameters(smaller.model)),
            loading,
            tuple(tried),
        )
        _write_check(place / CHECK, smaller)
        _copy_beside(smaller.whole, place)
        text = readme(
            kind, loading, folder=folder.name, counts=counts, inputs=smaller.inputs, outputs=smaller.outputs
        )
        (place / README).write_text(text, encoding="utf-8")
        (place / MARK).write_text(json.dumps(found.to_json(), indent=2) + "\n", encoding="utf-8")
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

"""Where results live: a folder of Parquet shards and the packs under way.

    DIR/shards/<pack>.parquet       finished trials, a row each
    DIR/checkpoints/<pack>.npz      a pack under way, as of its last chunk
    DIR/models/<trial>.npz          the best state of a member, where a run was asked to keep it
    DIR/writer.lock                 who is writing, while somebody does (results/lock.py)

Commands keep files of their own beside them. In `shards` everything is expected to be a shard: what is not is
named. Rows are keyed by the hash of the trial, so `headcount merge` can join folders of several machines. A
file that cannot be used is named in `problems`, and the rest is used all the same.
"""

import stat
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import jax
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float

from headcount.engine.train import trainer_of
from headcount.errors import StorageError
from headcount.results.files import TEMPORARY, remove_leftovers, write_whole
from headcount.results.lock import writing
from headcount.results.shards import (
    SCHEMA,
    Unusable,
    is_current,
    read_parquet,
    read_shard,
    renamed_trials,
    table,
)
from headcount.trials.pack import Pack
from headcount.trials.row import ORDER, Outcome, Row
from headcount.trials.trial import Trial
from headcount.version import ALGORITHM

DAMAGED, OLD = ".damaged", ".old"


def read_results(folder: Path | str) -> pd.DataFrame:
    """The results frame of a folder: every finished trial once. Damaged and foreign files are left out."""
    return Store(folder).frame()


class Store:
    """A results folder."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = folder = Path(folder)
        self.shards = folder / "shards"
        self.checkpoints = folder / "checkpoints"
        self.models = folder / "models"
        self.page = folder / "report.html"
        self.problems: list[str] = []

    def writing(self) -> AbstractContextManager[None]:
        """Be the only writer of the folder; `Locked` where somebody else is."""
        return writing(self.folder)

    def prepare(self, *, models: bool = False) -> dict[str, float]:
        """Make the folder ready to be written to; returns the finished trials and their validation errors.

        A damaged shard is set aside, so that its trials are trained anew. Rows of an earlier version of the
        training algorithm stay, but finish nothing.
        """
        if self.folder.exists() and not self.folder.is_dir():
            raise StorageError(f"{self.folder}: is a file; expected a folder")
        for folder in (self.shards, self.checkpoints, *((self.models,) if models else ())):
            probe = folder / f"probe{TEMPORARY}"
            write_whole(probe, lambda file: file.write(b"headcount"))
            probe.unlink(missing_ok=True)
        for folder in (self.folder, self.shards, self.checkpoints, self.models):
            remove_leftovers(folder)
        tables, unusable = self._scan()
        for file in unusable:
            if file.damaged:
                _set_aside(file.path, DAMAGED)
        self.problems += [file.line(set_aside=True) for file in unusable]
        for shard in self.shards.glob("*.parquet"):
            # Its pack was finished, and the run killed before it could tidy up.
            (self.checkpoints / f"{shard.stem}.npz").unlink(missing_ok=True)
        for path in sorted(self.checkpoints.glob("*.npz")):
            self._set_aside_if_old(path)
        columns = ("trial", "validation_error")
        return {
            trial: error
            for shard in self._current(tables)
            for trial, error in zip(*(shard[column].to_pylist() for column in columns), strict=True)
        }

    def frame(self) -> pd.DataFrame:
        """Every finished trial once, in an order that does not depend on when it was finished."""
        try:
            is_folder = stat.S_ISDIR(self.folder.stat().st_mode)
        except FileNotFoundError as error:
            raise StorageError(f"{self.folder}: no such folder; `headcount sweep` makes one") from error
        except OSError as error:
            raise StorageError(f"{self.folder}: cannot be read: {error.strerror}") from error
        if not is_folder:
            raise StorageError(f"{self.folder}: is a file; expected a results folder")
        tables, unusable = self._scan()
        self.problems += [file.line(set_aside=False) for file in unusable]
        current = self._current(tables)
        rows: pd.DataFrame = pa.concat_tables([SCHEMA.empty_table(), *current]).to_pandas()
        return rows.drop_duplicates("trial").sort_values(ORDER, ignore_index=True)

    def write(self, pack: Pack, rows: list[Row]) -> None:
        """Keep the rows of a finished pack, and forget that it was under way."""
        free = self.shards / f"{pack.id}.parquet"
        while free.exists():  # another version's, or foreign: never written over
            free = free.with_name(f"{free.stem}-more.parquet")
        write_whole(free, lambda file: pq.write_table(table(rows), file, write_page_checksum=True))
        self._checkpoint(pack).unlink(missing_ok=True)

    def save(self, pack: Pack, state: Any, *, seconds: float) -> None:
        """Keep a pack under way as of now."""
        arrays: dict[str, Any] = {f"leaf_{place}": leaf for place, leaf in enumerate(jax.tree.leaves(state))}
        write_whole(
            self._checkpoint(pack),
            lambda file: np.savez(file, algorithm=ALGORITHM, seconds=seconds, **arrays),
        )

    def load(self, pack: Pack) -> tuple[Any, float] | None:
        """The pack as of its last chunk, with the seconds spent on it; None when it never began."""
        path = self._checkpoint(pack)
        if not path.exists() or self._set_aside_if_old(path):
            return None
        template, structure = jax.tree.flatten(trainer_of(pack.trials[0]).start(pack))
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as saved:
                leaves = [saved[f"leaf_{place}"] for place in range(len(template))]
                seconds = float(saved["seconds"])
        except Exception:  # damaged archives raise many exception types: all of them count as damaged
            leaves, seconds = [], 0.0
        if [(leaf.shape, leaf.dtype) for leaf in leaves] != [(leaf.shape, leaf.dtype) for leaf in template]:
            _set_aside(path, DAMAGED)
            self.problems.append(f"{path}: damaged, set aside; its pack starts again")
            return None
        return jax.tree.unflatten(structure, leaves), seconds

    def keep(self, trial: Trial, outcome: Outcome) -> None:
        """Keep the weights of a member, and its outputs for the test samples."""
        write_whole(self.models / f"{trial.id}.npz", lambda file: write_model(outcome, file))

    def keep_file(self, trial: Trial, content: bytes) -> None:
        """Keep what `write_model` wrote elsewhere."""
        write_whole(self.models / f"{trial.id}.npz", lambda file: file.write(content))

    def model(self, trial: Trial) -> Any | None:
        """The member with its weights, where they were kept and can be read."""
        template, structure = jax.tree.flatten(trainer_of(trial).blank(trial))
        try:
            with self.model_path(trial.id).open("rb") as file, np.load(file, allow_pickle=False) as saved:
                leaves = [saved[f"leaf_{place}"] for place in range(len(template))]
        except Exception:  # as in `load`
            return None
        if [leaf.shape for leaf in leaves] != [leaf.shape for leaf in template]:
            return None
        return jax.tree.unflatten(structure, leaves)

    def test_outputs(self, trial: Trial) -> Float[np.ndarray, "sample output"] | None:
        """A member's outputs for the test samples, where they were kept and can be read."""
        return self._outputs(trial, "test_outputs")

    def train_outputs(self, trial: Trial) -> Float[np.ndarray, "sample output"] | None:
        """Outputs for training samples, of a member without a test split; 0.1.0 kept them as the test's."""
        return self._outputs(trial, "train_outputs", "test_outputs")

    def _outputs(self, trial: Trial, *names: str) -> Float[np.ndarray, "sample output"] | None:
        try:
            with self.model_path(trial.id).open("rb") as file, np.load(file, allow_pickle=False) as saved:
                return np.asarray(saved[next(name for name in names if name in saved)])
        except Exception:  # as in `load`
            return None

    def has_kept(self, trial: Trial) -> bool:
        """Whether a member's weights and outputs can be read; a polished one keeps no outputs."""
        polished = bool(trial.training.polish_steps)
        return self.model(trial) is not None and (polished or self.train_outputs(trial) is not None)

    def _checkpoint(self, pack: Pack) -> Path:
        return self.checkpoints / f"{pack.id}.npz"

    def _scan(self) -> tuple[list[pa.Table], list[Unusable]]:
        """Every shard that can be read, and every file among them that is none or cannot be read."""
        foreign = [
            Unusable(path, "not a file of headcount's", damaged=False)
            for path in sorted(self.shards.glob("*"))
            if path.suffix not in (".parquet", TEMPORARY, DAMAGED)
        ]
        read = [read_shard(path) for path in sorted(self.shards.glob("*.parquet"))]
        tables = [shard for shard in read if isinstance(shard, pa.Table)]
        return tables, foreign + [shard for shard in read if isinstance(shard, Unusable)]

    def _current(self, tables: list[pa.Table]) -> list[pa.Table]:
        """The rows of this version of the training algorithm; others are kept, not used, and counted."""
        masks = [[is_current(spec) for spec in shard["spec"].to_pylist()] for shard in tables]
        if old := sum(mask.count(False) for mask in masks):
            trials = "1 trial" if old == 1 else f"{old:,} trials"
            self.problems.append(
                f"{self.folder}: {trials} of an earlier version, kept but not used (docs/sweeps.md)"
            )
        return [shard.filter(pa.array(mask, pa.bool_())) for shard, mask in zip(tables, masks, strict=True)]

    def model_path(self, trial: str) -> Path:
        """The file of a member's weights; an earlier version may have known the trial by another id."""
        path = self.models / f"{trial}.npz"
        if not path.exists() and (old := self._old_ids.get(trial)):
            return self.models / f"{old}.npz"
        return path

    @cached_property
    def _old_ids(self) -> dict[str, str]:
        shards = [read_parquet(path) for path in self.shards.glob("*.parquet")]
        tables = (shard for shard in shards if isinstance(shard, pa.Table))
        return {new: old for shard in tables for old, new in renamed_trials(shard).items()}

    def _set_aside_if_old(self, path: Path) -> bool:
        """Whether a checkpoint is of an earlier version of the training algorithm, which cannot go on."""
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as saved:
                version = int(saved["algorithm"]) if "algorithm" in saved else 0
        except Exception:  # as in `load`, which names what is damaged
            return False
        if version == ALGORITHM:
            return False
        _set_aside(path, OLD)
        self.problems.append(f"{path}: of an earlier version, set aside; its pack starts again")
        return True


def _set_aside(path: Path, suffix: str) -> None:
    path.rename(path.with_name(path.name + suffix))


def write_model(outcome: Outcome, file: BinaryIO) -> None:
    """The weights of a member, and its outputs for the test samples, as one archive."""
    leaves = jax.tree.leaves(outcome.model)
    arrays: dict[str, Any] = {f"leaf_{place}": leaf for place, leaf in enumerate(leaves)}
    if outcome.outputs is not None:
        arrays[f"{outcome.outputs_of}_outputs"] = outcome.outputs
    np.savez(file, **arrays)

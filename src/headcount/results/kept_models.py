"""Kept models, copied from several results folders into one.

A model is copied where its folder has a row for the trial: one without belongs to no result. Where several
folders keep a model of the same trial, one with outputs is preferred, then the one of the row that is kept,
then the one whose bytes have the smallest hash: it is the same one in whatever order the folders are named.
"""

import hashlib
import io
import zipfile
from pathlib import Path

from headcount.results.files import write_whole
from headcount.results.store import Store
from headcount.results.survey import Report, Survey


def copy_models(survey: Survey, store: Store, report: Report) -> tuple[int, list[str]]:
    """Copy what folders keep of their trials; returns how many, and a line for each that is damaged."""
    stores = {folder: Store(folder) for folder in survey.members}
    copied = 0
    problems: list[str] = []
    for trial, found in survey.trials.items():
        ranked = []
        for folder in found.folders:
            path = stores[folder].model_path(trial)
            if not path.exists():
                continue
            if (model := _read(path)) is None:
                problems.append(f"{path}: damaged, left out")
            else:
                content, has_outputs = model
                digest = hashlib.sha256(content).digest()
                ranked.append((not has_outputs, folder not in found.homes, digest, content))
        if ranked:
            _put(min(ranked)[-1], store.models / f"{trial}.npz")
            copied += 1
            if copied % 100 == 0:
                report(f"{copied:,} models copied")
    return copied, problems


def _put(content: bytes, target: Path) -> None:
    """Write what is not there yet: the same merge run again reads, but does not write."""
    if not (target.is_file() and target.read_bytes() == content):
        write_whole(target, lambda file: file.write(content))


def _read(path: Path) -> tuple[bytes, bool] | None:
    """The bytes of a model that is whole, and whether outputs are among them."""
    try:
        content = path.read_bytes()
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = archive.namelist()
            whole = archive.testzip() is None and "leaf_0.npy" in names
    except Exception:  # damaged archives raise many exception types
        return None
    return (content, not {"test_outputs.npy", "train_outputs.npy"}.isdisjoint(names)) if whole else None

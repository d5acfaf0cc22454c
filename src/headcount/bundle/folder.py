"""The folder of a bundle.

    DIR/*.whl           headcount and all that it needs
    DIR/INSTALL.txt     the one command
    DIR/bundle.json     the target, and name, version and SHA-256 of every wheel; written last

Everything is fetched into DIR/under-way and moved once it is complete. Killed at any moment, the same command
begins again; what pip has fetched before is in its cache.
"""

import hashlib
import json
import os
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from headcount.bundle.pip import Run, Tell, download_command, install_command, mistake, run_pip
from headcount.bundle.source import Source
from headcount.bundle.target import Target
from headcount.bundle.wheels import Wheel, metadata, missing
from headcount.engine.files import TEMPORARY, remove_leftovers, write_whole
from headcount.errors import InvalidInput, StorageError
from headcount.validation import shown

MANIFEST, INSTALL, UNDER_WAY = "bundle.json", "INSTALL.txt", "under-way"
MOST_ROUNDS = 5


@dataclass(frozen=True)
class Bundle:
    """What lies in the folder; `already` says that it did before."""

    folder: Path
    target: Target
    wheels: tuple[Wheel, ...]
    already: bool

    @property
    def bytes(self) -> int:
        """The size of all wheels together."""
        return sum(wheel.bytes for wheel in self.wheels)

    @property
    def command(self) -> str:
        """The one command, for where the folder lies now."""
        return install_command(shlex.quote(str(self.folder)), self.target)


def make(
    folder: Path, target: Target, source: Source, run: Run = run_pip, tell: Tell = lambda _: None
) -> Bundle:
    """Put all that the target needs into a folder, which is new, empty, or holds a bundle for this target."""
    made_from = {"source": source.digest(), "constraints": _hash_of(source.constraints)}
    held = _held(folder, target)
    if held is not None and held["made_from"] == made_from:
        wheels = tuple(Wheel(**wheel) for wheel in held["wheels"])
        if all(wheel.lies_in(folder) for wheel in wheels) and (folder / INSTALL).is_file():
            return Bundle(folder, target, wheels, already=True)
    remove_leftovers(folder)
    # Of this process alone: a pip that outlived a killed run must not write into it.
    staging = folder / UNDER_WAY / str(os.getpid())
    with _nothing_left_on_failure(folder, staging):
        _fetch(staging, target, source, run, tell)
        wheels = tuple(map(Wheel.of, sorted(staging.glob("*.whl"))))
    _move(staging, folder, target, wheels)
    _write_manifest(folder, target, wheels, made_from)
    shutil.rmtree(folder / UNDER_WAY, ignore_errors=True)
    return Bundle(folder, target, wheels, already=False)


def _fetch(staging: Path, target: Target, source: Source, run: Run, tell: Tell) -> None:
    """Fill the folder with headcount's own wheel and with all that it needs."""
    tell("making headcount's own wheel")
    own = source.wheel(staging, target, run, tell)
    _check(own, target)
    more: list[str] = []
    for _ in range(MOST_ROUNDS):
        command = download_command(own, staging, target, more=more, constraints=source.constraints)
        said = run(command, tell)
        if said.code:
            raise mistake(said, target, pinned=source.constraints is not None)
        lacking = missing(staging, target)
        if not lacking:
            return
        more += lacking
    raise InvalidInput(f"{', '.join(lacking)}: needed for {target}, and not to be had together with the rest")


def _check(own: Path, target: Target) -> None:
    """Refuse what headcount's own wheel does not offer, before anything large is fetched."""
    about = metadata(own)
    if not SpecifierSet(about["Requires-Python"] or "").contains(f"{target.python}.0"):
        raise InvalidInput(f"python = {shown(target.python)}: allowed is {about['Requires-Python']}")
    offered = sorted(about.get_all("Provides-Extra", []))
    for extra in target.extras:
        if canonicalize_name(extra) not in map(canonicalize_name, offered):
            raise InvalidInput(f"extra = {shown(extra)}: allowed are {', '.join(offered)}")


@contextmanager
def _nothing_left_on_failure(folder: Path, staging: Path) -> Iterator[None]:
    """A fresh folder to fetch into, which is gone again where that comes to nothing."""
    existed = folder.exists()
    try:
        if staging.parent.exists():
            shutil.rmtree(staging.parent)
        staging.mkdir(parents=True)
    except OSError as error:
        raise StorageError(f"{folder}: cannot be written: {error.strerror}") from error
    try:
        yield
    except BaseException:
        shutil.rmtree(staging.parent, ignore_errors=True)
        if not existed:
            with suppress(OSError):
                folder.rmdir()
        raise


def _move(staging: Path, folder: Path, target: Target, wheels: tuple[Wheel, ...]) -> None:
    """Into place; a wheel of an earlier bundle would be installed instead, were it newer."""
    here = install_command(".", target)
    text = f"For {target}. In this folder, on that machine:\n\n    {here}\n"
    try:
        (folder / MANIFEST).unlink(missing_ok=True)
        for path in folder.glob("*.whl"):
            path.unlink()
        for wheel in wheels:
            (staging / wheel.file).replace(folder / wheel.file)
    except OSError as error:
        raise StorageError(f"{folder}: cannot be written: {error.strerror}") from error
    write_whole(folder / INSTALL, lambda file: file.write(text.encode()))


def _write_manifest(
    folder: Path, target: Target, wheels: tuple[Wheel, ...], made_from: dict[str, str | None]
) -> None:
    manifest = {
        "target": asdict(target),
        "command": install_command(".", target),
        "wheels": [asdict(wheel) for wheel in wheels],
        "made_from": made_from,
    }
    text = json.dumps(manifest, indent=2) + "\n"
    write_whole(folder / MANIFEST, lambda file: file.write(text.encode()))


def _held(folder: Path, target: Target) -> dict[str, Any] | None:
    """The manifest of a bundle for this target; None where there is none, or not a whole one."""
    try:
        names = {path.name for path in folder.iterdir()} if folder.exists() else set()
    except OSError as error:
        raise StorageError(f"{folder}: cannot be used as a folder: {error.strerror}") from error
    manifest = _manifest(folder / MANIFEST)
    # While files are moved there is no manifest, and the wheels are ours all the same.
    wheels = {wheel["file"] for wheel in manifest["wheels"]} if manifest else set()
    ours = wheels if UNDER_WAY not in names else {name for name in names if name.endswith(".whl")}
    foreign = names - ours - {MANIFEST, INSTALL, UNDER_WAY}
    foreign = {name for name in foreign if not name.endswith(TEMPORARY)}
    if foreign:
        raise InvalidInput(
            f"{folder}: holds other files ({shown(min(foreign))}); allowed is a new or empty folder"
        )
    if manifest is None:
        return None
    held = Target(**{**manifest["target"], "extras": tuple(manifest["target"]["extras"])})
    if held != target:
        raise InvalidInput(f"{folder}: holds a bundle for {held}; allowed is a new or empty folder")
    return manifest


def _manifest(path: Path) -> dict[str, Any] | None:
    """What was written last, where it can be read and is all there."""
    try:
        manifest: dict[str, Any] = json.loads(path.read_bytes())
        Target(**manifest["target"])
        for wheel in manifest["wheels"]:
            Wheel(**wheel)
        return manifest if "made_from" in manifest else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _hash_of(path: Path | None) -> str | None:
    return None if path is None else hashlib.sha256(path.read_bytes()).hexdigest()

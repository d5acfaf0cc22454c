"""Wheels in a folder: what they are, what they need, and what is missing for a target.

pip judges conditions such as `python_version < "3.12"` by the Python that it runs in, whatever target it
downloads for. So a bundle is only believed to be complete when this walk through the wheels' own metadata,
with the conditions judged for the target, finds nothing missing.
"""

import hashlib
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from email import message_from_bytes
from email.message import Message
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from headcount.bundle.target import Target
from headcount.errors import StorageError


@dataclass(frozen=True)
class Wheel:
    """A line of the manifest."""

    file: str
    name: str
    version: str
    sha256: str
    bytes: int

    @classmethod
    def of(cls, path: Path) -> "Wheel":
        """The wheel as it lies on the disk."""
        name, version, _, _ = parse_wheel_filename(path.name)
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return cls(path.name, name, str(version), digest, path.stat().st_size)

    def lies_in(self, folder: Path) -> bool:
        """Whether the folder holds it, to the last bit."""
        path = folder / self.file
        return path.is_file() and path.stat().st_size == self.bytes and Wheel.of(path) == self


def metadata(wheel: Path) -> Message:
    """What a wheel says of itself."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
            return message_from_bytes(archive.read(name))
    except (OSError, StopIteration, zipfile.BadZipFile) as error:
        raise StorageError(f"{wheel}: damaged; run the same command again") from error


def missing(folder: Path, target: Target) -> list[str]:
    """What the target needs and the folder does not hold, as requirements without conditions."""
    held = {parse_wheel_filename(path.name)[0]: path for path in sorted(folder.glob("*.whl"))}
    wanted: dict[str, None] = {}
    todo = [("headcount", frozenset(target.extras))]
    seen = set(todo)
    while todo:
        name, extras = todo.pop()
        for needed in needs(metadata(held[canonicalize_name(name)]), extras, target):
            other = canonicalize_name(needed.name)
            path = held.get(other)
            if path is None or not needed.specifier.contains(str(parse_wheel_filename(path.name)[1]), True):
                wanted[str(needed)] = None
            elif (step := (str(other), frozenset(needed.extras))) not in seen:
                seen.add(step)
                todo.append(step)
    return list(wanted)


def needs(about: Message, extras: Iterable[str], target: Target) -> Iterator[Requirement]:
    """The requirements whose conditions hold on the target."""
    for text in about.get_all("Requires-Dist", []):
        requirement = Requirement(text)
        marker, requirement.marker = requirement.marker, None
        environments = [{**target.environment, "extra": extra} for extra in ("", *extras)]
        if marker is None or any(marker.evaluate(environment) for environment in environments):
            yield requirement

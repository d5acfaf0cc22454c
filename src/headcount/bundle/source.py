"""Where headcount's own wheel comes from: a checkout builds one, an installation is packed up again."""

import base64
import hashlib
import io
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import BinaryIO

from headcount.bundle.pip import Run, Tell, mistake, wheel_command
from headcount.bundle.target import Target
from headcount.engine.files import write_whole
from headcount.errors import InvalidInput, StorageError

PACKAGE = Path(__file__).parents[1]
# What an installer notes down about its own work; the next one makes its own notes.
NOTES = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the same files give the same bytes


@dataclass(frozen=True)
class Checkout:
    """The sources, with pins for everything beside them."""

    root: Path

    @property
    def constraints(self) -> Path | None:
        """The versions that results in the repository were made with."""
        path = self.root / "constraints.txt"
        return path if path.is_file() else None

    def digest(self) -> str:
        """A hash of all that goes into the wheel."""
        files = [self.root / "pyproject.toml", *_sources(self.root / "src" / "headcount")]
        return _digest((str(path.relative_to(self.root)), path.read_bytes()) for path in files)

    def wheel(self, into: Path, target: Target, run: Run, tell: Tell) -> Path:
        """Build the wheel; pip fetches what building needs."""
        said = run(wheel_command(self.root, into), tell)
        found = sorted(into.glob("headcount-*.whl"))
        if said.code or not found:
            raise mistake(said, target, pinned=False)
        return found[0]


@dataclass(frozen=True)
class Installed:
    """An installed headcount. Its files are the wheel's, so the wheel can be had again from them."""

    distribution: Distribution
    constraints: None = None

    def digest(self) -> str:
        """A hash of all that goes into the wheel."""
        return _digest(self._files())

    def wheel(self, into: Path, target: Target, run: Run, tell: Tell) -> Path:
        """Pack the files up, with a new list of contents."""
        version = self.distribution.version
        path = into / f"headcount-{version}-py3-none-any.whl"
        write_whole(path, partial(_pack, dict(self._files()), f"headcount-{version}.dist-info/RECORD"))
        return path

    def _files(self) -> Iterator[tuple[str, bytes]]:
        listed = [file for file in self.distribution.files or () if _belongs(file.parts)]
        if not any(file.parts[0] == "headcount" for file in listed):
            raise InvalidInput(
                "headcount is installed as a link to sources that are not there in full; "
                "allowed is a checkout, or headcount installed from a wheel"
            )
        for file in sorted(listed, key=str):
            try:
                yield file.as_posix(), Path(str(file.locate())).read_bytes()
            except OSError as error:
                raise StorageError(
                    f"{file}: missing from the installed headcount; install it again"
                ) from error


Source = Checkout | Installed


def find_source(package: Path = PACKAGE) -> Source:
    """The checkout that this code runs from, or else the installation."""
    root = package.parents[1]
    try:
        project = tomllib.loads((root / "pyproject.toml").read_text()).get("project", {})
    except (OSError, tomllib.TOMLDecodeError):
        project = {}
    if package == root / "src" / "headcount" and project.get("name") == "headcount":
        return Checkout(root)
    try:
        return Installed(distribution("headcount"))
    except PackageNotFoundError:
        raise InvalidInput(
            "headcount is not installed here, so nobody knows what it needs; "
            "allowed is a checkout, or headcount installed from a wheel"
        ) from None


def _belongs(parts: tuple[str, ...]) -> bool:
    ours = parts[0] == "headcount" or parts[0].endswith(".dist-info")
    return ours and "__pycache__" not in parts and parts[-1] not in NOTES


def _sources(package: Path) -> list[Path]:
    return sorted(path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def _digest(files: Iterator[tuple[str, bytes]]) -> str:
    whole = hashlib.sha256()
    for name, content in files:
        whole.update(f"{name} {len(content)}\n".encode() + content)
    return whole.hexdigest()


def _pack(files: dict[str, bytes], record: str, file: BinaryIO) -> None:
    lines = [f"{name},sha256={_short(content)},{len(content)}" for name, content in files.items()]
    files = {**files, record: "\n".join([*lines, f"{record},,", ""]).encode()}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, LONG_AGO)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    file.write(buffer.getvalue())


def _short(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()

"""A pip that fetches nothing: it makes small wheels, notes how it was called, and fails as it is told."""

import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from headcount.bundle.pip import Said

OWN = "headcount-0.1.0-py3-none-any.whl"


def write_wheel(path: Path, *lines: str) -> Path:
    """A wheel that holds nothing but what it says of itself."""
    name, version = path.name.split("-")[:2]
    text = "\n".join([f"Name: {name}", f"Version: {version}", *lines, "", ""])
    with zipfile.ZipFile(path, "w") as archive:
        entry = zipfile.ZipInfo(f"{name}-{version}.dist-info/METADATA", (1980, 1, 1, 0, 0, 0))
        archive.writestr(entry, text)
    return path


class FakePip:
    """`index` has, for every wheel, the lines of its metadata; a download gives those it is told to."""

    def __init__(
        self, index: Mapping[str, Sequence[str]], *, own: Sequence[str] = (), first: Sequence[str] = ()
    ) -> None:
        self.index, self.own, self.first = index, own, first
        self.calls: list[list[str]] = []
        self.before: Callable[[list[str]], None] = lambda call: None

    def __call__(self, arguments: Sequence[str], tell: Callable[[str], object]) -> Said:
        call = list(arguments)
        self.calls.append(call)
        self.before(call)
        if call[0] == "wheel":
            write_wheel(Path(call[call.index("--wheel-dir") + 1]) / OWN, "Requires-Python: >=3.11", *self.own)
            return Said(0, "")
        into = Path(call[call.index("--dest") + 1])
        named = [word.split("=")[0].split("<")[0].split(">")[0] for word in call]
        for file, lines in self.index.items():
            if file in self.first or file.split("-")[0] in named:
                write_wheel(into / file, *lines)
        return Said(0, "")

    @property
    def downloads(self) -> int:
        return sum(call[0] == "download" for call in self.calls)

"""pip in a process of its own: the command lines, and what its failures mean to a person."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headcount.bundle.target import Target
from headcount.errors import HeadcountError, InvalidInput, StorageError

Tell = Callable[[str], object]

# pip complains of the network only where it tries again: without that, it seems to lack wheels.
QUIETLY = ("--no-input", "--disable-pip-version-check", "--progress-bar", "off", "--retries", "2")
NO_NETWORK = (
    "NewConnectionError",
    "NameResolutionError",
    "connection broken by",
    "Failed to establish a new connection",
    "ConnectTimeoutError",
    "ReadTimeoutError",
    "ProxyError",
    "SSLError",
    "Max retries exceeded",
    "Temporary failure in name resolution",
    "Network is unreachable",
)


@dataclass(frozen=True)
class Said:
    """How pip ended, and all it said."""

    code: int
    output: str


Run = Callable[[Sequence[str], Tell], Said]


def run_pip(arguments: Sequence[str], tell: Tell) -> Said:
    """Run pip, and tell what it fetches while it does."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "NO_COLOR": "1"}
    said: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-m", "pip", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            if line.strip().startswith(("Collecting", "Downloading", "Building", "Processing")):
                tell(line.split("(")[0].strip())
        code = process.wait()
    return Said(code, "".join(said))


def download_command(
    wheel: Path, into: Path, target: Target, *, more: Sequence[str] = (), constraints: Path | None = None
) -> list[str]:
    """Fetch what a wheel of headcount needs on the target, as wheels alone: nothing can be built there."""
    extras = f"[{','.join(target.extras)}]" if target.extras else ""
    return [
        "download",
        *QUIETLY,
        "--only-binary=:all:",
        *("--dest", str(into)),
        *("--python-version", target.python),
        *("--implementation", "cp"),
        *(word for tag in target.tags for word in ("--platform", tag)),
        *(("--constraint", str(constraints)) if constraints else ()),
        f"{wheel}{extras}",
        *more,
    ]


def wheel_command(checkout: Path, into: Path) -> list[str]:
    """Build headcount's own wheel from its sources."""
    return ["wheel", *QUIETLY, "--no-deps", "--wheel-dir", str(into), str(checkout)]


def install_command(folder: str, target: Target) -> str:
    """The one command that installs the bundle, for a shell on the target."""
    python = "python" if target.platform.startswith("win") else f"python{target.python}"
    wanted = f"'{target.requirement}'" if target.extras else target.requirement
    return f"{python} -m pip install --no-index --find-links {folder} {wanted}"


def mistake(said: Said, target: Target, *, pinned: bool) -> HeadcountError:
    """One line for what pip needed many for."""
    output = said.output
    if "No module named pip" in output:
        return InvalidInput(
            "this Python has no pip: get it by `python -m ensurepip`, then run the command again"
        )
    if "No space left on device" in output:
        return StorageError("pip could not finish: no space left on the disk")
    if any(sign in output for sign in NO_NETWORK):
        return InvalidInput(
            "no package index could be reached: a bundle is made where there is a network, "
            "and installed where there is none"
        )
    where = f"no wheel for Python {target.python} on {target.platform}"
    allowed = "allowed are a Python and a platform that all wheels are published for, such as "
    allowed += _likely(target)
    if found := re.search(r"The user requested \(constraint\) (\S+)", output):
        return InvalidInput(f"{found[1]}, as constraints.txt asks for: {where} fits; {allowed}")
    if found := re.search(r"No matching distribution found for (\S+)", output):
        asked = ", with constraints.txt" if pinned else ""
        return InvalidInput(f"{found[1]}{asked}: there is {where}; {allowed}")
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR")]
    last = (errors or lines or ["it said nothing"])[-1]
    return InvalidInput(f"pip ended with exit code {said.code}: {last}")


def _likely(target: Target) -> str:
    """What there are wheels for, more likely: for a Python that is not out yet there can be none."""
    here = sys.version_info[:2]
    asked = tuple(int(part) for part in target.python.split("."))
    return f"Python {here[0]}.{here[1]}" if asked > here else "a newer manylinux"

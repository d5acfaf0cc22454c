"""Do the lowest versions that pyproject.toml allows work? `python benchmarks/lower_bounds.py`

Makes a fresh environment with exactly these versions, installs headcount into it without its dependencies,
and runs a few commands: help, bounds, a tiny sweep and a tiny estimate. Needs a package index.
"""

import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

from loaded_modules import SPEC

ROOT = Path(__file__).parent.parent
DATA = """
import numpy as np
x = np.random.default_rng(0).normal(size=(400, 4, 2))
np.savez("mine.npz", x=x, y=x.max(axis=1).sum(axis=1))
"""
BOUNDS = ("--dimension", "4", "--heads", "3", "--head-dim", "8", "--length", "128")
COMMANDS = (
    ("--help",),
    ("bounds", *BOUNDS, "--chart", "bounds.svg"),
    ("sweep", "spec.toml", "--out", "runs"),
    ("estimate", "mine.npz", "--max-heads", "3", "--out", "estimate"),
)


def lowest() -> list[str]:
    """Every dependency at its lower bound, such as `typer==0.15`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [dependency.replace(">=", "==") for dependency in project["dependencies"]]


def main() -> None:
    pins = lowest()
    print(*pins)
    with tempfile.TemporaryDirectory() as folder:
        environment = Path(folder, "environment")
        venv.create(environment, with_pip=True)
        python = str(environment / "bin" / "python")
        install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        run([*install, *pins], folder)
        run([*install, "--no-deps", str(ROOT)], folder)
        Path(folder, "spec.toml").write_text(SPEC)
        run([python, "-c", DATA], folder)
        for command in COMMANDS:
            run([str(environment / "bin" / "headcount"), *command], folder)
            print(f"headcount {command[0]}: works")


def run(command: list[str], folder: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        output = f"{done.stdout[-1500:]}{done.stderr[-3000:]}"
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{output}")


if __name__ == "__main__":
    main()

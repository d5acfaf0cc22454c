"""Whether a program runs with every annotation of the package checked as it goes."""

import os
import subprocess
import sys
from pathlib import Path


def are_true_in(program: str) -> bool:
    """The program must say so itself, and nothing else."""
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.stderr == ""
    return finished.stdout == "all annotations are true, and a false one is noticed\n"

"""Modules of headcount that a command loads in a fresh process: `python benchmarks/loaded_modules.py`.

Each command really runs, to its page, with members small enough to be trained in seconds. The data of the
small demo retrieves one thing, not three, for which its members are too small: an answer in doubt would load
the search for collisions, which the demo never does.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

RUN = """
import json, sys
from headcount.commands import cli
{prepare}
sys.argv = ["headcount", *{arguments}]
try:
    cli.main()
except SystemExit as ended:
    assert not ended.code, ended.code
names = sorted(name for name in sys.modules if name.partition(".")[0] == "headcount")
print("\\n" + json.dumps(names))
"""
SMALL_MEMBERS = """
from headcount.commands import demo
from headcount.estimate import members, study
small = members.MemberRecipe(
    steps=100, batch_size=32, starts=((1e-2, 0),), more_starts=((1e-2, 1),), width=12, hidden=8, max_heads=3
)
study.MemberRecipe, demo.SAMPLES, demo.LENGTH, demo.DIMENSION = (lambda: small), 400, 4, 1
"""
SMALL_RECIPE = """
from dataclasses import replace
from headcount.reproduce import recipe
small = replace(recipe.QUICK.training, steps=100, evaluate_every=50, batch_size=16, warmup=10)
recipe.QUICK = replace(recipe.QUICK, training=small, lengths=(6,))
"""
SPEC = """
[task]
name = "max_sum"
dimension = [2]
[model]
heads = [1, 2]
[training]
length = [4, 8]
steps = 100
train_samples = 200
"""


@dataclass(frozen=True)
class Command:
    """A command, what makes it small, and how many modules it may load."""

    arguments: tuple[str, ...]
    limit: int
    prepare: str = ""
    without: tuple[str, ...] = ()

    def loaded(self) -> list[str]:
        """The modules in a process that ran it."""
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "spec.toml").write_text(SPEC)
            code = RUN.format(prepare=self.prepare, arguments=[*self.arguments, "--out", "out"])
            done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        return json.loads(done.stdout.splitlines()[-1])


REAL = ("headcount.reproduce.real", "headcount.data.cifar10", "headcount.data.msmarco")
COMMANDS = {
    "demo": Command(("demo",), 80, SMALL_MEMBERS, without=("headcount.reproduce", *REAL)),
    "sweep": Command(("sweep", "spec.toml"), 54, without=("headcount.reproduce", *REAL)),
    "reproduce table2": Command(("reproduce", "table2", "--quick"), 60, SMALL_RECIPE, without=REAL),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", action="store_true", help="print the modules too")
    names = parser.parse_args().names
    for name, command in COMMANDS.items():
        loaded = command.loaded()
        print(f"{name}: {len(loaded)} modules (at most {command.limit})")
        if names:
            print(*(f"  {module}" for module in loaded), sep="\n")


if __name__ == "__main__":
    main()

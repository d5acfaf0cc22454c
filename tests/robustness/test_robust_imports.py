import subprocess
import sys
from pathlib import Path

SCRIPT = """\
import sys

sys.modules.update(dict.fromkeys(["pydantic", "altair", "vl_convert", "jinja2", "typer", "rich"]))
import headcount
from tiny import tiny_grid

trials = tiny_grid().trials()
(outcome,) = headcount.train(trials)
assert headcount.sweep(trials, sys.argv[1])["test_error"].tolist() == [outcome.test_error]
above = tuple(f"headcount.{part}" for part in ("api", "cluster", "commands", "report", "reproduce"))
print(outcome.test_error > 0, [name for name in sys.modules if name.startswith(above)])
"""


ITEMS = """\
import sys

sys.modules.update(dict.fromkeys(["pydantic", "altair", "vl_convert", "jinja2", "typer", "rich"]))
sys.path.insert(0, sys.argv[1])
import open_questions

print(len(open_questions.missing(("layer_norm",), "1/1", quick=True)) >= 0)
"""


def test_open_questions_are_trained_without_charts_and_the_command_line():
    command = [sys.executable, "-W", "error", "-c", ITEMS, Path(__file__).parents[2] / "benchmarks"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "True\n", "")


def test_the_engine_trains_without_the_report_and_the_command_line(tmp_path):
    """Nor what they import: a module that is None cannot be loaded."""
    command = [sys.executable, "-W", "error", "-c", SCRIPT, tmp_path]
    ran = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "True []\n", "")

import os
import re
import shlex
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from robust_support import (
    TINY,
    Command,
    Process,
    Undisturbed,
    checkpoints,
    heavy,
    marks,
    numbers,
    same,
    shards,
    start,
    wait_until,
    write,
)
from robust_terminal import AtTerminal, drawn, widest

pytestmark = pytest.mark.usefixtures("quick_page")

PATIENCE = 10.0


@dataclass(frozen=True)
class Interrupted:
    """A run that got Ctrl-C, and what it left."""

    spec: Path
    out: Path
    code: int
    text: str
    files: dict[Path, tuple[int, int, str]]

    @property
    def advice(self) -> list[str]:
        """The command that it says goes on."""
        found = re.search(r"To go on: headcount (.*)", self.text)
        assert found is not None, f"how to go on is not said: {self.text[-500:]}"
        return shlex.split(found[1])


def interrupt(process: int) -> None:
    """What a terminal does at Ctrl-C: the whole group is told."""
    os.killpg(process, signal.SIGINT)


@pytest.fixture(scope="module")
def while_compiling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """Begun before it is needed. Its cache cannot be used, so that there is much to compile."""
    folder = tmp_path_factory.mktemp("compiling")
    cache = write(folder / "cache", "a file where a folder is needed")
    spec = write(folder / "tiny.toml", TINY)
    process = start("sweep", spec, "--out", folder / "runs", cache=cache, log=folder / "log")
    yield process
    process.stop()


@pytest.fixture(scope="module")
def compiling(while_compiling: Process) -> Interrupted:
    process, folder = while_compiling, while_compiling.output.parent
    out = folder / "runs"
    assert wait_until((out / "checkpoints").is_dir, process.popen), process.err
    time.sleep(1.5)
    assert process.popen.poll() is None, process.err
    interrupt(process.popen.pid)
    code = process.wait(PATIENCE)
    assert not checkpoints(out), "too late: it was training already"
    return Interrupted(folder / "tiny.toml", out, code, process.err, marks(out))


@pytest.fixture(scope="module")
def training(while_compiling: Process, tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Interrupted:
    """At a terminal, with one pack finished and the next one under way."""
    folder = tmp_path_factory.mktemp("training")
    spec, out = write(folder / "heavy.toml", heavy(seeds=16)), folder / "runs"
    terminal = AtTerminal("sweep", spec, "--out", out, cache=cache)
    try:
        under_way = wait_until(lambda: bool(shards(out) and checkpoints(out)), terminal.popen)
        assert under_way, "done before it was interrupted: the specification is too light"
        time.sleep(0.3)
        interrupt(terminal.popen.pid)
        code = terminal.popen.wait(PATIENCE)
    finally:
        text = terminal.close()
    return Interrupted(spec, out, code, text, marks(out))


def test_interrupted_while_compiling(compiling: Interrupted, command: Command) -> None:
    assert compiling.code == 130
    assert "Traceback" not in compiling.text
    assert not shards(compiling.out)
    result = command(*compiling.advice)
    assert (result.code, result.err) == (0, "")
    assert len(numbers(compiling.out)) == 10


def test_a_cache_that_cannot_be_used_is_not_mentioned(compiling: Interrupted) -> None:
    (line,) = compiling.text.splitlines()
    assert line.startswith("headcount: interrupted; what is finished is kept.")


def test_interrupted_while_training(
    training: Interrupted, undisturbed: Undisturbed, command: Command
) -> None:
    assert training.code == 130
    assert "Traceback" not in training.text
    finished = shards(training.out)
    assert len(finished) == 1
    assert len(numbers(training.out)) == 8
    result = command(*training.advice)
    assert (result.code, result.err) == (0, "")
    after = marks(training.out)
    assert [after[path] for path in finished] == [training.files[path] for path in finished]
    whole = undisturbed.frame()
    same(numbers(training.out), whole[whole["seed"] < 16].reset_index(drop=True))


def test_a_narrow_terminal_shows_the_grid_fill_in(training: Interrupted) -> None:
    # The last line names files, however long their names are.
    assert widest(training.text.partition("headcount: interrupted")[0]) <= 80
    seen = "\n".join(drawn(training.text))
    assert "max_sum, D = 2" in seen
    assert "heads" in seen
    assert "T = 16" in seen
    assert re.search(r"\b\d\.\de[+-]\d\d\b", seen), "no error is shown"
    assert "0 of 16 members, 0% of the steps" in seen
    assert "8 of 16 members" in seen

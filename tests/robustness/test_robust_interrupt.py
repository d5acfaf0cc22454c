import os
import re
import shlex
import signal
import time

import pytest
from robust_support import (
    TINY,
    AtTerminal,
    Process,
    checkpoints,
    drawn,
    heavy,
    marks,
    numbers,
    same,
    shards,
    widest,
    write,
)

pytestmark = pytest.mark.usefixtures("quick_page")


def interrupt(process: Process) -> None:
    """As a terminal does at Ctrl-C, which signals the whole group."""
    os.killpg(process.popen.pid, signal.SIGINT)
    assert process.popen.wait(10) == 130


def go_on(text: str, command) -> None:
    """What an interrupted sweep printed is one line at its end; the command that it names goes on."""
    assert "Traceback" not in text
    found = re.search(r"headcount: interrupted; what is finished is kept. To go on: headcount (.*)\s*$", text)
    assert found is not None, f"how to go on is not said: {text[-500:]}"
    result = command(*shlex.split(found[1]))
    assert (result.code, result.err) == (0, "")


@pytest.fixture(scope="module")
def compiling(tmp_path_factory):
    """Begun before it is needed. Its cache cannot be used, so that there is much to compile."""
    folder = tmp_path_factory.mktemp("compiling")
    cache = write(folder / "cache", "a file where a folder is needed")
    spec = write(folder / "tiny.toml", TINY)
    process = Process("sweep", spec, "--out", folder / "runs", cache=cache, log=folder / "log")
    yield process
    process.stop()


@pytest.fixture(scope="module")
def training(compiling, tmp_path_factory, cache):
    """At a terminal, interrupted with one pack finished and the next one under way."""
    folder = tmp_path_factory.mktemp("training")
    spec, out = write(folder / "heavy.toml", heavy(seeds=16)), folder / "runs"
    terminal = AtTerminal("sweep", spec, "--out", out, cache=cache, log=folder / "log")
    try:
        under_way = terminal.wait_until(lambda: bool(shards(out) and checkpoints(out)))
        assert under_way, "done before it was interrupted: the specification is too light"
        time.sleep(0.3)
        interrupt(terminal)
    finally:
        terminal.stop()
    return terminal


def test_interrupted_while_compiling(compiling, command):
    out = compiling.output.with_name("runs")
    assert compiling.wait_until((out / "checkpoints").is_dir), compiling.err
    time.sleep(0.5)
    interrupt(compiling)
    assert not checkpoints(out), "too late: it was training already"
    assert not shards(out)
    assert len(compiling.err.splitlines()) == 1, "a cache that cannot be used is not mentioned"
    go_on(compiling.err, command)
    assert len(numbers(out)) == 10


def test_interrupted_while_training(training, undisturbed, command):
    out = training.output.with_name("runs")
    finished = marks(out / "shards")
    assert (len(finished), len(numbers(out))) == (1, 8)
    go_on(training.err, command)
    assert finished.items() <= marks(out).items()
    assert undisturbed.wait() == 0, undisturbed.err
    expected = numbers(undisturbed.output.with_name("runs"))
    same(out, expected[expected["seed"] < 16].reset_index(drop=True))


def test_a_narrow_terminal_shows_the_grid_fill_in(training):
    # The last line names files, however long their names are.
    assert widest(training.err.partition("headcount: interrupted")[0]) <= 80
    seen = "\n".join(drawn(training.err))
    for text in ("max_sum, D = 2", "heads", "T = 16", "0 of 16 members, 0% of the steps", "8 of 16 members"):
        assert text in seen
    assert re.search(r"\b\d\.\de-?\d\b", seen), "no error is shown"

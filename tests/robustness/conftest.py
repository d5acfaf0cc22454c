import shutil
import sys
from pathlib import Path

import pytest
from robust_support import TINY, Process, Result, heavy, write

from headcount.results.files import write_whole


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """One folder of compiled programs for all tests and their processes."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADCOUNT_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session", autouse=True)
def early_start(request):
    """The long process begins before the first test, where any test will ask for it."""
    if any("undisturbed" in getattr(item, "fixturenames", ()) for item in request.session.items):
        request.getfixturevalue("undisturbed")


@pytest.fixture
def command(monkeypatch, capsys):
    """`headcount ...`, in this process."""

    def call(*arguments: str | Path) -> Result:
        from headcount.commands.cli import main

        monkeypatch.setattr(sys, "argv", ["headcount", *map(str, arguments)])
        capsys.readouterr()
        code: object = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        except Exception as error:
            pytest.fail(f"the user would see a traceback: {type(error).__name__}: {error}")
        assert isinstance(code, int), code
        return Result(code, *capsys.readouterr())

    return call


@pytest.fixture
def quick_page(monkeypatch):
    """A page that takes no time, where the page is not what is tested."""

    def write_page(frame: object, path: Path, **_: object) -> None:
        write_whole(path, lambda file: file.write(b"a page"))

    monkeypatch.setattr("headcount.report.page.write_page", write_page)


@pytest.fixture(scope="session")
def spec(tmp_path_factory):
    """The tiny specification."""
    return write(tmp_path_factory.mktemp("spec") / "tiny.toml", TINY)


@pytest.fixture(scope="session")
def whole(spec):
    """A folder that holds all results of the tiny specification; it is only looked at."""
    from headcount.commands.specfile import load
    from headcount.running.sweep import sweep

    folder = spec.parent / "results"
    sweep(load(spec), folder)
    write(folder / "report.html", "a page")
    return folder


@pytest.fixture
def folder(whole, tmp_path):
    """A copy of all results. Its path is long, as real ones are: a line about it must stay one line."""
    copy = tmp_path / "results of a long and careful measurement on the machine upstairs" / "runs"
    return shutil.copytree(whole, copy)


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory, cache):
    """A sweep in a process of its own that nobody disturbs; other tests go on meanwhile."""
    folder = tmp_path_factory.mktemp("undisturbed")
    spec = write(folder / "heavy.toml", heavy(seeds=17))
    process = Process("sweep", spec, "--out", folder / "runs", "--json", cache=cache, log=folder / "log")
    yield process
    process.stop()

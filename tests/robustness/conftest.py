import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from robust_support import TINY, Command, Disk, Process, Result, Undisturbed, start, write

from headcount.results.files import write_whole


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One folder of compiled programs for all tests and their processes."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADCOUNT_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session", autouse=True)
def early_start(request: pytest.FixtureRequest) -> None:
    """Long processes begin before the first test, where any test will ask for them."""
    for item in request.session.items:
        for name in {"undisturbed", "engine_alone"} & set(getattr(item, "fixturenames", ())):
            request.getfixturevalue(name)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """`headcount ...`, in this process."""

    def call(*arguments: str | Path) -> Result:
        from headcount.commands.cli import main

        monkeypatch.setattr(sys, "argv", ["headcount", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
        except SystemExit as end:
            code = end.code
        except Exception as error:
            pytest.fail(f"the user would see a traceback: {type(error).__name__}: {error}")
        else:
            code = 0
        code = 0 if code is None else code
        assert isinstance(code, int), code
        return Result(code, *capsys.readouterr())

    return call


@pytest.fixture
def quick_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that takes no time, where the page is not what is tested."""

    def write_page(frame: pd.DataFrame, path: Path, **_: object) -> None:
        write_whole(path, lambda file: file.write(f"{len(frame)} members".encode()))

    monkeypatch.setattr("headcount.report.page.write_page", write_page)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The tiny specification and a folder that holds all its results; both are only looked at."""
    from headcount.commands.specfile import load
    from headcount.running.sweep import sweep

    folder = tmp_path_factory.mktemp("finished")
    spec = write(folder / "tiny.toml", TINY)
    sweep(load(spec), folder / "results")
    write(folder / "results" / "report.html", "10 members")
    return spec, folder / "results"


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[Undisturbed]:
    run = Undisturbed(tmp_path_factory.mktemp("undisturbed"), cache)
    yield run
    run.process.stop()


@pytest.fixture(scope="session")
def engine_alone(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[Process]:
    folder = tmp_path_factory.mktemp("engine")
    script = Path(__file__).with_name("engine_alone.py")
    arguments = ["-W", "error", script, folder / "runs"]
    process = start(*arguments, cache=cache, log=folder / "log", program=sys.executable)
    yield process
    process.stop()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(folder)]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("this user may not mount a disk: see the tests that pretend")
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)

import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import PathDistribution, distribution
from pathlib import Path

import pytest

from headcount.bundle.pip import Said
from headcount.bundle.source import PACKAGE, Checkout, Installed, find_source
from headcount.bundle.target import Target
from headcount.bundle.wheels import metadata
from headcount.errors import HeadcountError, InvalidInput, StorageError
from headcount.version import __version__

TARGET = Target.of(python="3.12")
INFO = f"headcount-{__version__}.dist-info"


def no_pip(arguments, tell):
    raise AssertionError("an installation is packed up without pip")


def pack(source: Installed, into: Path) -> Path:
    into.mkdir(exist_ok=True)
    return source.wheel(into, TARGET, no_pip, lambda _: None)


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder as an installer leaves it, with the files of this package."""
    site = tmp_path_factory.mktemp("site")
    shutil.copytree(PACKAGE, site / "headcount", ignore=shutil.ignore_patterns("__pycache__"))
    (site / "headcount" / "__pycache__").mkdir()
    (site / "headcount" / "__pycache__" / "cli.cpython-311.pyc").write_bytes(b"compiled")
    (site / INFO).mkdir()
    for name in ("METADATA", "WHEEL", "entry_points.txt"):
        (site / INFO / name).write_text(distribution("headcount").read_text(name) or "")
    (site / INFO / "INSTALLER").write_text("pip\n")
    (site / "bin").mkdir()
    (site / "bin" / "headcount").write_text("#!python\n")
    files = [str(path.relative_to(site)) for path in site.rglob("*") if path.is_file()]
    (site / INFO / "RECORD").write_text("".join(f"{name},,\n" for name in [*files, f"{INFO}/RECORD"]))
    return site


def test_an_installation_is_packed_up_into_its_wheel(installed, tmp_path):
    wheel = pack(Installed(PathDistribution(installed / INFO)), tmp_path / "wheels")
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        names = set(archive.namelist())
        assert archive.read("headcount/cli.py") == (PACKAGE / "cli.py").read_bytes()
    assert names == {
        *(
            str(path.relative_to(PACKAGE.parent))
            for path in PACKAGE.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        ),
        *(f"{INFO}/{name}" for name in ("METADATA", "WHEEL", "entry_points.txt", "RECORD")),
    }
    assert metadata(wheel)["Version"] == __version__


def test_an_installer_accepts_the_wheel_and_packing_it_up_again_gives_the_same(installed, tmp_path):
    wheel = pack(Installed(PathDistribution(installed / INFO)), tmp_path / "wheels")
    place = tmp_path / "place"
    options = ["--quiet", "--no-index", "--no-deps", "--no-compile", "--disable-pip-version-check"]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, "--target", place, wheel],
        check=True,
        capture_output=True,
    )
    assert (place / "bin" / "headcount").is_file(), "the command comes with it"
    again = pack(Installed(PathDistribution(place / INFO)), tmp_path / "again")
    assert again.read_bytes() == wheel.read_bytes()


def test_an_installation_that_lost_a_file_is_refused(installed, tmp_path):
    shutil.copytree(installed, tmp_path / "site")
    (tmp_path / "site" / "headcount" / "cli.py").unlink()
    with pytest.raises(StorageError, match=r"headcount/cli\.py: missing"):
        Installed(PathDistribution(tmp_path / "site" / INFO)).digest()


def test_a_link_to_sources_is_no_installation(installed, tmp_path):
    shutil.copytree(installed / INFO, tmp_path / INFO)
    (tmp_path / INFO / "RECORD").write_text(f"{INFO}/METADATA,,\nheadcount.pth,,\n")
    with pytest.raises(InvalidInput, match="allowed is a checkout"):
        Installed(PathDistribution(tmp_path / INFO)).digest()


@pytest.fixture
def checkout(tmp_path) -> Path:
    package = tmp_path / "checkout" / "src" / "headcount"
    package.mkdir(parents=True)
    (package / "cli.py").write_text("print('hello')\n")
    (tmp_path / "checkout" / "pyproject.toml").write_text('[project]\nname = "headcount"\n')
    return package


def test_a_checkout_is_known_by_its_project_file(checkout):
    assert find_source(checkout) == Checkout(checkout.parents[1])


@pytest.mark.parametrize("text", ['[project]\nname = "other"\n', "not TOML", None])
def test_anything_else_is_an_installation(text, checkout):
    project = checkout.parents[1] / "pyproject.toml"
    project.unlink() if text is None else project.write_text(text)
    assert isinstance(find_source(checkout), Installed)


def test_pins_are_taken_where_there_are_some(checkout):
    source = Checkout(checkout.parents[1])
    assert source.constraints is None
    (source.root / "constraints.txt").write_text("numpy==2.0\n")
    assert source.constraints == source.root / "constraints.txt"


def test_the_hash_of_a_checkout_changes_with_its_code_alone(checkout):
    source = Checkout(checkout.parents[1])
    before = source.digest()
    (source.root / "notes.txt").write_text("remember the milk")
    (checkout / "__pycache__").mkdir()
    (checkout / "__pycache__" / "cli.pyc").write_bytes(b"compiled")
    assert source.digest() == before
    (checkout / "cli.py").write_text("print('good-bye')\n")
    assert source.digest() != before


def test_a_checkout_that_cannot_be_built_is_one_line(checkout, tmp_path):
    with pytest.raises(HeadcountError, match="the sky fell"):
        Checkout(checkout.parents[1]).wheel(
            tmp_path, TARGET, lambda arguments, tell: Said(1, "ERROR: the sky fell"), lambda _: None
        )

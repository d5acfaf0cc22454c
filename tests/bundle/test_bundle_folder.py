import hashlib
import json
from pathlib import Path

import pytest
from fake_pip import OWN, FakePip, write_wheel

from headcount.bundle import Target, make
from headcount.bundle.folder import INSTALL, MANIFEST, UNDER_WAY
from headcount.bundle.pip import Said
from headcount.bundle.source import Checkout
from headcount.bundle.wheels import missing
from headcount.errors import HeadcountError, StorageError

TARGET = Target.of(python="3.12", extras=["real"])
INDEX = {
    "jax-0.10.2-py3-none-any.whl": ["Requires-Dist: numpy>=2", 'Requires-Dist: old; python_version < "3.12"'],
    "numpy-2.4.6-cp312-cp312-manylinux_2_28_x86_64.whl": ['Requires-Dist: fast; extra == "speed"'],
    "bm25s-0.3.0-py3-none-any.whl": ["Requires-Dist: numpy[speed]"],
    "fast-1.0-py3-none-any.whl": [],
    "unneeded-1.0-py3-none-any.whl": [],
}
OWN_LINES = ["Provides-Extra: real", "Requires-Dist: jax>=0.10", 'Requires-Dist: bm25s; extra == "real"']
DIRECT = ["jax-0.10.2-py3-none-any.whl", "bm25s-0.3.0-py3-none-any.whl"]
NUMPY = "numpy-2.4.6-cp312-cp312-manylinux_2_28_x86_64.whl"
WHOLE = {OWN, *DIRECT, NUMPY, "fast-1.0-py3-none-any.whl"}


@pytest.fixture
def source(tmp_path) -> Checkout:
    package = tmp_path / "checkout" / "src" / "headcount"
    package.mkdir(parents=True)
    (package / "cli.py").write_text("print('hello')\n")
    (tmp_path / "checkout" / "pyproject.toml").write_text('[project]\nname = "headcount"\n')
    (tmp_path / "checkout" / "constraints.txt").write_text("numpy==2.4.6\n")
    return Checkout(tmp_path / "checkout")


@pytest.fixture
def pip() -> FakePip:
    """It gives what is named alone, so that the walk through the wheels has all to find."""
    return FakePip(INDEX, own=OWN_LINES, first=DIRECT)


def wheels(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*.whl")}


def test_all_that_the_target_needs_comes_together(source, pip, tmp_path):
    made = make(tmp_path / "out", TARGET, source, pip)
    assert wheels(tmp_path / "out") == WHOLE
    assert not made.already
    assert {path.name for path in (tmp_path / "out").iterdir()} == WHOLE | {MANIFEST, INSTALL}
    assert all("--constraint" in call for call in pip.calls if call[0] == "download")


def test_the_manifest_has_every_wheel_with_its_hash(source, pip, tmp_path):
    made = make(tmp_path / "out", TARGET, source, pip)
    manifest = json.loads((tmp_path / "out" / MANIFEST).read_text())
    assert {wheel["file"] for wheel in manifest["wheels"]} == WHOLE
    for wheel in manifest["wheels"]:
        content = (tmp_path / "out" / wheel["file"]).read_bytes()
        assert (wheel["sha256"], wheel["bytes"]) == (hashlib.sha256(content).hexdigest(), len(content))
    numpy = next(wheel for wheel in manifest["wheels"] if wheel["name"] == "numpy")
    assert numpy["version"] == "2.4.6"
    assert manifest["target"] == {"python": "3.12", "platform": TARGET.platform, "extras": ["real"]}
    assert made.bytes == sum(wheel["bytes"] for wheel in manifest["wheels"])


def test_the_one_command_is_in_the_folder_and_in_the_answer(source, pip, tmp_path):
    made = make(tmp_path / "my wheels", TARGET, source, pip)
    assert "--no-index --find-links . 'headcount[real]'" in (tmp_path / "my wheels" / INSTALL).read_text()
    assert made.command.endswith(f"--no-index --find-links '{tmp_path / 'my wheels'}' 'headcount[real]'")


def test_nothing_in_the_folder_says_where_it_was_made(source, pip, tmp_path):
    make(tmp_path / "out", TARGET, source, pip)
    for name in (MANIFEST, INSTALL):
        assert str(tmp_path) not in (tmp_path / "out" / name).read_text()


def test_a_whole_bundle_is_left_as_it_is_without_pip(source, pip, tmp_path):
    one = make(tmp_path / "out", TARGET, source, pip)
    pip.calls.clear()
    again = make(tmp_path / "out", TARGET, source, pip)
    assert again.already
    assert again.wheels == one.wheels
    assert pip.calls == []


@pytest.mark.parametrize("harm", ["damage", "loss", "new code", "new pins", "no manifest", "half a manifest"])
def test_what_is_not_whole_or_not_of_today_is_made_again(harm, source, pip, tmp_path):
    out = tmp_path / "out"
    make(out, TARGET, source, pip)
    match harm:
        case "damage":
            (out / NUMPY).write_bytes(bytes((out / NUMPY).stat().st_size))
        case "loss":
            (out / NUMPY).unlink()
        case "new code":
            (source.root / "src" / "headcount" / "cli.py").write_text("print('good-bye')\n")
        case "new pins":
            (source.root / "constraints.txt").write_text("numpy==2.4.7\n")
        case "no manifest":
            (out / MANIFEST).unlink()
            (out / UNDER_WAY).mkdir()
        case "half a manifest":
            (out / MANIFEST).write_text('{"target": ')
            (out / UNDER_WAY).mkdir()
    assert not make(out, TARGET, source, pip).already
    assert wheels(out) == WHOLE
    assert make(out, TARGET, source, pip).already


def test_a_wheel_of_an_earlier_bundle_does_not_stay(source, pip, tmp_path):
    make(tmp_path / "out", TARGET, source, pip)
    pip.index = {name.replace("2.4.6", "2.4.5"): lines for name, lines in INDEX.items()}
    (source.root / "constraints.txt").write_text("numpy==2.4.5\n")
    make(tmp_path / "out", TARGET, source, pip)
    assert wheels(tmp_path / "out") == {name.replace("2.4.6", "2.4.5") for name in WHOLE}


class Killed(BaseException):
    """As if the process had been killed here."""


@pytest.mark.parametrize("moves", range(7))
def test_killed_while_files_are_moved_the_next_run_completes_it(moves, source, pip, tmp_path, monkeypatch):
    replace, left = Path.replace, [moves]

    def until_killed(self: Path, target: Path) -> Path:
        if left[0] == 0:
            raise Killed
        left[0] -= 1
        return replace(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", until_killed)
        with pytest.raises(Killed):
            make(tmp_path / "out", TARGET, source, pip)
    assert not (tmp_path / "out" / MANIFEST).exists()
    make(tmp_path / "out", TARGET, source, pip)
    assert wheels(tmp_path / "out") == WHOLE
    assert not (tmp_path / "out" / UNDER_WAY).exists()


def test_what_a_killed_download_left_is_not_believed(source, pip, tmp_path):
    (tmp_path / "out" / UNDER_WAY).mkdir(parents=True)
    (tmp_path / "out" / UNDER_WAY / "unneeded-1.0-py3-none-any.whl").write_bytes(b"half")
    make(tmp_path / "out", TARGET, source, pip)
    assert wheels(tmp_path / "out") == WHOLE


def check_refused(folder: Path, target: Target, source: Checkout, pip: FakePip, *fragments: str) -> None:
    with pytest.raises(HeadcountError) as refusal:
        make(folder, target, source, pip)
    line = str(refusal.value)
    assert "\n" not in line
    for fragment in fragments:
        assert fragment in line, line


@pytest.mark.parametrize("name", ["notes.txt", "mine-1.0-py3-none-any.whl"])
def test_a_folder_with_other_files_is_left_alone(name, source, pip, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("remember the milk")
    check_refused(tmp_path / "out", TARGET, source, pip, name, "allowed is a new or empty folder")
    assert [path.name for path in (tmp_path / "out").iterdir()] == [name]
    assert pip.calls == []


def test_a_wheel_that_someone_added_to_a_bundle_is_left_alone(source, pip, tmp_path):
    make(tmp_path / "out", TARGET, source, pip)
    (tmp_path / "out" / "mine-1.0-py3-none-any.whl").write_text("mine")
    check_refused(tmp_path / "out", TARGET, source, pip, "mine-1.0-py3-none-any.whl")


def test_a_bundle_for_another_target_is_left_alone(source, pip, tmp_path):
    make(tmp_path / "out", TARGET, source, pip)
    other = Target.of(python="3.13")
    check_refused(tmp_path / "out", other, source, pip, "holds a bundle for Python 3.12", "with real")
    assert wheels(tmp_path / "out") == WHOLE


def test_a_file_is_no_folder(source, pip, tmp_path):
    (tmp_path / "out").write_text("text")
    with pytest.raises(StorageError, match="out: cannot be used as a folder"):
        make(tmp_path / "out", TARGET, source, pip)


def test_an_unknown_extra_is_refused_before_anything_is_fetched(source, pip, tmp_path):
    target = Target.of(python="3.12", extras=["lunch"])
    check_refused(tmp_path / "out", target, source, pip, "extra = 'lunch': allowed are real")
    assert pip.downloads == 0
    assert not (tmp_path / "out").exists()


def test_a_python_that_headcount_does_not_run_in_is_refused(source, pip, tmp_path):
    check_refused(tmp_path / "out", Target.of(python="3.9"), source, pip, "python = '3.9': allowed is >=3.11")
    assert not (tmp_path / "out").exists()


def test_a_failed_download_leaves_nothing_and_an_earlier_bundle_as_it_was(source, pip, tmp_path):
    make(tmp_path / "out", TARGET, source, pip)
    (source.root / "constraints.txt").write_text("numpy==9\n")

    def fail(arguments, tell):
        said = pip(arguments, tell)
        return (
            Said(1, "ERROR: No matching distribution found for numpy==9")
            if arguments[0] == "download"
            else said
        )

    for out in (tmp_path / "out", tmp_path / "new"):
        check_refused(out, TARGET, source, fail, "numpy==9", "no wheel for Python 3.12")
    assert wheels(tmp_path / "out") == WHOLE
    assert not (tmp_path / "new").exists()


def test_what_cannot_be_had_is_named(source, pip, tmp_path):
    pip.index = {name: lines for name, lines in INDEX.items() if not name.startswith("fast")}
    check_refused(tmp_path / "out", TARGET, source, pip, "fast: needed for Python 3.12")


def test_conditions_are_judged_for_the_target_and_not_for_this_machine(tmp_path):
    lines = [
        'Requires-Dist: old; python_version < "3.12"',
        'Requires-Dist: new; python_version >= "3.14"',
        'Requires-Dist: window; sys_platform == "win32"',
        'Requires-Dist: arm; platform_machine == "aarch64"',
    ]
    write_wheel(tmp_path / OWN, *lines)
    assert missing(tmp_path, Target.of(python="3.11")) == ["old"]
    assert missing(tmp_path, Target.of(python="3.14", platform="win_amd64")) == ["new", "window"]
    assert missing(tmp_path, Target.of(python="3.12", platform="manylinux_2_28_aarch64")) == ["arm"]


def test_a_version_that_does_not_do_is_missing(tmp_path):
    write_wheel(tmp_path / OWN, "Requires-Dist: numpy>=3")
    write_wheel(tmp_path / "numpy-2.4.6-py3-none-any.whl")
    assert missing(tmp_path, Target.of(python="3.12")) == ["numpy>=3"]


def test_wheels_that_need_each_other_are_walked_through_once(tmp_path):
    write_wheel(tmp_path / OWN, "Requires-Dist: one")
    write_wheel(tmp_path / "one-1.0-py3-none-any.whl", "Requires-Dist: two")
    write_wheel(tmp_path / "two-1.0-py3-none-any.whl", "Requires-Dist: One")
    assert missing(tmp_path, Target.of(python="3.12")) == []


def test_a_damaged_wheel_is_named(tmp_path):
    (tmp_path / OWN).write_bytes(b"half")
    with pytest.raises(StorageError, match="damaged"):
        missing(tmp_path, Target.of(python="3.12"))

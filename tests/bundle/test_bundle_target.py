import platform
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.markers import default_environment
from packaging.tags import cpython_tags, platform_tags

from headcount.bundle.target import Target
from headcount.errors import InvalidInput


@pytest.mark.parametrize("python", ["3", "4", "3.12.1", "python3.12", "", "3.x", "2.7", "3.123"])
def test_a_python_that_is_none_is_refused(python):
    with pytest.raises(InvalidInput, match=r"python = .*: allowed is a version such as 3\.12"):
        Target.of(python=python)


@pytest.mark.parametrize(
    "name", ["amiga", "linux", "manylinux_2_28", "manylinux_2_28_vax", "win32_x", "macosx_14_arm64", ""]
)
def test_a_platform_that_is_none_is_refused(name):
    with pytest.raises(InvalidInput, match=r"platform = .*: allowed are manylinux_2_28_x86_64"):
        Target.of(python="3.12", platform=name)


@given(st.integers(5, 40), st.sampled_from(["x86_64", "i686"]))
def test_a_newer_glibc_takes_all_wheels_of_an_older_one(minor, machine):
    older, newer = (
        Target.of(python="3.12", platform=f"manylinux_2_{version}_{machine}").tags
        for version in (minor, minor + 1)
    )
    assert newer[0] == f"manylinux_2_{minor + 1}_{machine}", "the best is first"
    assert set(older) < set(newer)
    assert len(set(newer)) == len(newer)


def test_an_old_name_stands_for_its_glibc():
    old, new = (
        Target.of(python="3.12", platform=f"{name}_x86_64").tags
        for name in ("manylinux2014", "manylinux_2_17")
    )
    assert old == new
    assert "manylinux2010_x86_64" in old


def test_other_machines_have_no_wheels_from_before_2014():
    tags = Target.of(python="3.12", platform="manylinux_2_18_aarch64").tags
    assert tags == ("manylinux_2_18_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64")


@pytest.mark.skipif(sys.platform != "linux" or not platform.libc_ver()[1], reason="of a Linux with glibc")
def test_the_platforms_of_this_machine_are_those_that_an_installer_tries():
    tried = [tag for tag in platform_tags() if tag.startswith("manylinux")]
    assert sorted(Target.of(python="3.12", platform=tried[0]).tags) == sorted(tried)


@pytest.mark.skipif(sys.platform != "linux", reason="of a Linux")
def test_the_conditions_of_this_machine_are_known():
    here = Target.of(python="3.12", platform=f"manylinux_2_28_{platform.machine()}").environment
    real = default_environment()
    assert here.keys() == real.keys() - {"extra"}
    for name in ("sys_platform", "os_name", "platform_machine", "platform_system", "implementation_name"):
        assert here[name] == real[name]


@pytest.mark.parametrize(
    ("name", "system"),
    [("macosx_14_0_arm64", "darwin"), ("win_amd64", "win32"), ("musllinux_1_2_x86_64", "linux")],
)
def test_every_kind_of_platform_has_its_conditions(name, system):
    assert Target.of(python="3.13", platform=name).environment["sys_platform"] == system


def test_extras_are_named_once_and_in_order():
    target = Target.of(python="3.12", extras=["real", "hub", "real"])
    assert target.requirement == "headcount[hub,real]"
    assert str(target) == "Python 3.12 on manylinux_2_28_x86_64 with hub, real"


def test_a_wheel_for_this_python_would_be_accepted():
    target = Target.of(python="3.12", platform="manylinux_2_28_x86_64")
    tags = {str(tag) for tag in cpython_tags((3, 12), platforms=target.tags)}
    assert "cp312-cp312-manylinux_2_27_x86_64" in tags

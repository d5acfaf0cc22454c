"""The machine that a bundle is for: its Python, its platform, and the extras that are wanted there."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from headcount.errors import InvalidInput
from headcount.validation import shown

USUAL_PLATFORM = "manylinux_2_28_x86_64"
ALLOWED_PLATFORMS = (
    f"{USUAL_PLATFORM} (glibc 2.28 or later), manylinux_2_34_aarch64, musllinux_1_2_x86_64, "
    "macosx_14_0_arm64, win_amd64 and their like"
)

# Names from before the version of glibc was said, and the minor version that each stands for.
LEGACY = {"manylinux2014": 17, "manylinux2010": 12, "manylinux1": 5}
OLDEST = {"x86_64": 5, "i686": 5}  # on other machines the first is 17
PLATFORM = re.compile(
    r"(?P<legacy>manylinux2014|manylinux2010|manylinux1)_(?P<a>\w+)"
    r"|manylinux_2_(?P<glibc>\d{1,2})_(?P<b>\w+)"
    r"|musllinux_1_(?P<musl>\d{1,2})_(?P<c>\w+)"
    r"|macosx_\d+_\d+_(?P<mac>x86_64|arm64)"
    r"|win_(?P<windows>amd64|arm64)"
)
MACHINES = ("x86_64", "i686", "aarch64", "ppc64le", "s390x", "riscv64", "armv7l", "loongarch64")


@dataclass(frozen=True)
class Target:
    """A Python version such as 3.12, a platform as wheels name it, and extras of headcount.

    >>> Target.of(python="3.12", platform="musllinux_1_1_x86_64").tags
    ('musllinux_1_1_x86_64', 'musllinux_1_0_x86_64')
    """

    python: str
    platform: str
    extras: tuple[str, ...] = ()

    @classmethod
    def of(cls, *, python: str, platform: str = USUAL_PLATFORM, extras: Iterable[str] = ()) -> Self:
        """The target, where there can be such a machine."""
        if not re.fullmatch(r"3\.\d{1,2}", python):
            raise InvalidInput(f"python = {shown(python)}: allowed is a version such as 3.12")
        matched = PLATFORM.fullmatch(platform)
        if matched is None or (_machine(matched) not in MACHINES and not platform.startswith(("mac", "win"))):
            raise InvalidInput(f"platform = {shown(platform)}: allowed are {ALLOWED_PLATFORMS}")
        return cls(python, platform, tuple(sorted(set(extras))))

    @property
    def tags(self) -> tuple[str, ...]:
        """The platforms whose wheels run on this one, the best first.

        glibc keeps its promises to older programs: what was built for 2.17 runs with 2.28.
        """
        matched = PLATFORM.fullmatch(self.platform)
        assert matched is not None, self.platform
        machine = _machine(matched)
        if matched["musl"] is not None:
            return tuple(f"musllinux_1_{minor}_{machine}" for minor in range(int(matched["musl"]), -1, -1))
        if matched["legacy"] is None and matched["glibc"] is None:
            return (self.platform,)  # pip itself knows the older ones of macOS, and Windows has none
        newest = int(matched["glibc"] or LEGACY[matched["legacy"]])
        names = [f"manylinux_2_{minor}" for minor in range(newest, OLDEST.get(machine, 17) - 1, -1)]
        names += [name for name, minor in LEGACY.items() if OLDEST.get(machine, 17) <= minor <= newest]
        return tuple(f"{name}_{machine}" for name in names)

    @property
    def environment(self) -> dict[str, str]:
        """What a requirement with a condition, such as `sys_platform == "win32"`, is judged by."""
        matched = PLATFORM.fullmatch(self.platform)
        assert matched is not None, self.platform
        system, platform, family = "Linux", "linux", "posix"
        machine = _machine(matched)
        if matched["mac"] is not None:
            system, platform = "Darwin", "darwin"
        if matched["windows"] is not None:
            system, platform, family, machine = "Windows", "win32", "nt", machine.upper()
        return {
            "implementation_name": "cpython",
            "implementation_version": f"{self.python}.0",
            "os_name": family,
            "platform_machine": machine,
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_system": system,
            "platform_version": "",
            "python_full_version": f"{self.python}.0",
            "python_version": self.python,
            "sys_platform": platform,
        }

    @property
    def requirement(self) -> str:
        """What is to be installed there."""
        return f"headcount[{','.join(self.extras)}]" if self.extras else "headcount"

    def __str__(self) -> str:
        extras = f" with {', '.join(self.extras)}" if self.extras else ""
        return f"Python {self.python} on {self.platform}{extras}"


def _machine(matched: re.Match[str]) -> str:
    return next(filter(None, (matched[name] for name in ("a", "b", "c", "mac", "windows"))))

"""How a node describes itself before it gets any packs, and how that differs from this process."""

from collections.abc import Callable
from typing import Any

Description = dict[str, Any]


def describing() -> Callable[..., Description]:
    """The function with which a process describes itself.

    It is nested so that Ray pickles it by value: a worker may have no headcount to import it from.
    """

    def describe(
        kind: str | None = None, expected: object = None, payload: tuple[Any, ...] = ()
    ) -> Description:
        import platform
        from importlib.metadata import PackageNotFoundError, version

        found = {"Python": ".".join(platform.python_version_tuple()[:2])}
        for package in ("headcount", "jax", "jaxlib", "optax", "equinox"):
            try:
                found[package] = version(package)
            except PackageNotFoundError:
                found[package] = "missing"
        try:
            from headcount.version import __version__

            found["headcount"] = __version__
        except ImportError:
            pass
        description: Description = {"versions": found, "machine": None}
        if kind is not None and found == expected:
            from headcount.cluster.worker import machine_of_worker, open_payload

            description["machine"] = machine_of_worker(kind)
            open_payload(payload)
        return description

    return describe


def here() -> dict[str, str]:
    """The versions of this process, which every worker must have."""
    versions: dict[str, str] = describing()()["versions"]
    return versions


def difference(there: dict[str, str], ours: dict[str, str]) -> str:
    """How versions differ from ours, in words; empty where they agree.

    >>> difference({"jax": "0.9", "optax": "1"}, {"jax": "0.10", "optax": "1"})
    'expected jax 0.10 as on the driver, got jax 0.9'
    """
    different = [name for name in ours if there[name] != ours[name]]
    theirs, wanted = (", ".join(f"{name} {of[name]}" for name in different) for of in (there, ours))
    return f"expected {wanted} as on the driver, got {theirs}" if different else ""

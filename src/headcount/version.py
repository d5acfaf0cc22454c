"""The version of the package, and the versions that a result depends on."""

from functools import cache

__version__ = "0.2.0"

# The version of the training algorithm, a part of every trial's identity. It rises only when results change
# beyond what is promised for another pack or device; a faster kernel is no such change.
ALGORITHM = 1


@cache
def versions() -> str:
    """The versions that a result depends on."""
    from importlib.metadata import version  # here, since every command loads this module

    parts = ("jax", "jaxlib", "optax", "equinox")
    return ", ".join([f"headcount {__version__}", *(f"{name} {version(name)}" for name in parts)])

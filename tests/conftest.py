import os
from collections.abc import Callable, Iterator

import jax
import pytest
from hypothesis import settings

from headcount.commands import cli

# No assertion is about time: a deadline would be one.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# Tests compile for longer than they compute: with its older way to emit kernels the compiler for processors
# is done a quarter sooner, here and in all processes that tests begin.
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_use_fusion_emitters=false".strip()


@pytest.fixture(scope="module")
def compiled_quickly() -> Iterator[None]:
    """Programs that run once for a moment need no more than to be right."""
    before = jax.config.values["jax_disable_most_optimizations"]
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Calls the command line in this process and returns its exit code."""

    def call(*arguments: object, program: str = "headcount") -> int:
        monkeypatch.setattr("sys.argv", [program, *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return int(ended.value.code or 0)

    return call

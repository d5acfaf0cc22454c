from collections.abc import Iterator

import jax
import pytest
from theory.collisions.references import landscape_of

from headcount.theory.collisions import pigeonhole as pigeonhole_module


@pytest.fixture(autouse=True)
def _one_search_per_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pigeonhole_module, "survey", landscape_of)


@pytest.fixture(autouse=True)
def _compiled_quickly() -> Iterator[None]:
    """Programs that run once for a moment need no more than to be right."""
    before = jax.config.values["jax_disable_most_optimizations"]
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)

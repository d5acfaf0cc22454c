import pytest
from theory.collisions.references import landscape_of

from headcount.theory.collisions import pigeonhole as pigeonhole_module


@pytest.fixture(autouse=True)
def _one_search_per_task(monkeypatch, compiled_quickly):
    monkeypatch.setattr(pigeonhole_module, "survey", landscape_of)

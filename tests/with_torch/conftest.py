"""Tests with the real packages, where they are installed: `make test-torch` installs them."""

import os
from importlib.util import find_spec

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # for models as small as these, more threads only wait


@pytest.fixture(autouse=True)
def nothing_is_timed(monkeypatch):
    """Inspections in tests do not wait for a clock, but where one asks for it."""
    monkeypatch.setattr("headcount.trained.inspecting.TIMING", 0.0)


collect_ignore_glob = [] if find_spec("torch") and find_spec("datasets") else ["test_*.py"]

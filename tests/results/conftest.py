from pathlib import Path

import pytest
from merge_folders import keep_model, row, write_folder


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """Two machines with one trial in common, and a kept model each."""
    one = write_folder(tmp_path / "one", [row(0), row(1), row(2)])
    other = write_folder(tmp_path / "other", [row(2, device="card", seconds=0.5), row(3)])
    keep_model(one, 1)
    keep_model(other, 3, outputs=False)
    return [one, other]

"""A model written to a file and read back, and one turned into a PyTorch module."""

import json
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from model_references import ARCHITECTURES, double, small

from headcount.errors import InvalidInput, StorageError
from headcount.models.saving import FORMAT, HEADER
from headcount.models.transformer import Transformer

RESULT = Path(__file__).parents[2] / "benchmarks" / "results" / "torch_module.json"


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    Transformer.initialise(small(), seed=0).save(tmp_path / "model.npz")
    return tmp_path / "model.npz"


def rewritten(path: Path, **changed: object) -> None:
    """The same file with other entries; None takes one out."""
    with np.load(path) as file:
        entries = {**file, **changed}
    np.savez(path, **{name: np.asarray(value) for name, value in entries.items() if value is not None})


def header(**changed: object) -> str:
    return json.dumps({"format": FORMAT, "architecture": vars(small()), **changed})


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_model_comes_back_exactly(name: str, tmp_path: Path) -> None:
    single = Transformer.initialise(ARCHITECTURES[name], seed=1)
    for model in (single, double(single), jax.tree.map(jax.numpy.asarray, single)):
        model.save(tmp_path / "model.npz")
        loaded = Transformer.load(tmp_path / "model.npz")
        assert loaded.architecture == model.architecture
        assert jax.tree.structure(loaded) == jax.tree.structure(model)
        for leaf, wanted in zip(jax.tree.leaves(loaded), jax.tree.leaves(model), strict=True):
            np.testing.assert_array_equal(leaf, wanted, strict=True)
    assert list(tmp_path.iterdir()) == [tmp_path / "model.npz"]


def test_sizes_may_be_numpy_numbers(tmp_path: Path) -> None:
    model = Transformer.initialise(small(heads=np.int64(2), beta=np.float32(0.5)), seed=0)
    model.save(str(tmp_path / "model.npz"))
    assert Transformer.load(str(tmp_path / "model.npz")).architecture == model.architecture


def test_a_cut_or_foreign_file_is_called_damaged(saved: Path) -> None:
    whole = saved.read_bytes()
    flipped = whole[:400] + bytes([whole[400] ^ 1]) + whole[401:]
    for content in (whole[:300], b"", b"a foreign file", flipped):
        saved.write_bytes(content)
        with pytest.raises(InvalidInput, match=r"^\S+: damaged[^\n]+$"):
            Transformer.load(saved)


@pytest.mark.parametrize(
    "changed",
    [
        {HEADER: None},
        {HEADER: "{}"},
        {HEADER: "[1]"},
        {HEADER: header(architecture={"heads": 2})},
        {HEADER: header(architecture={**vars(small()), "heads": 0})},
        {HEADER: header(architecture={**vars(small()), "heads": 4})},
        {HEADER: header(architecture={**vars(small()), "wings": 2})},
        {"class_token": None},
        {"another": 1.0},
    ],
)
def test_contents_that_do_not_fit_are_called_damaged(saved: Path, changed: dict[str, object]) -> None:
    rewritten(saved, **changed)
    with pytest.raises(InvalidInput, match=r"^\S+: damaged[^\n]+$"):
        Transformer.load(saved)


def test_a_later_format_is_named(saved: Path) -> None:
    rewritten(saved, **{HEADER: header(format=FORMAT + 1, architecture=3)})
    with pytest.raises(InvalidInput, match=f"format {FORMAT + 1} of a later headcount"):
        Transformer.load(saved)


def test_a_path_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="none: cannot be read: No such file"):
        Transformer.load(tmp_path / "none")
    with pytest.raises(StorageError, match="model: cannot be written: No such file"):
        Transformer.initialise(small(), seed=0).save(tmp_path / "none" / "model")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = saved.read_bytes()

    def broken(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", broken)
    with pytest.raises(KeyboardInterrupt):
        Transformer.initialise(small(heads=4), seed=1).save(saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


def test_a_type_that_a_file_cannot_keep_is_refused(tmp_path: Path) -> None:
    model = jax.tree.map(
        lambda leaf: jax.numpy.asarray(leaf, "bfloat16"), Transformer.initialise(small(), seed=0)
    )
    with pytest.raises(InvalidInput, match=r"encoder\.weights\.0: expected float16, .* got 'bfloat16'"):
        model.save(tmp_path / "model.npz")


def test_every_architecture_was_seen_to_agree_with_its_pytorch_module() -> None:
    result = json.loads(RESULT.read_text())
    assert result["tolerance"] <= 1e-10
    assert result["largest_relative_difference"].keys() == ARCHITECTURES.keys()
    assert max(result["largest_relative_difference"].values()) <= result["tolerance"]


def test_without_pytorch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InvalidInput, match=r"^to_torch needs .* torch: pip install 'headcount\[torch\]'$"):
        Transformer.initialise(small(), seed=0).to_torch()


def test_a_lower_precision_has_no_pytorch_module() -> None:
    with pytest.raises(InvalidInput, match=r"precision: expected float32 .* got 'bfloat16'"):
        Transformer.initialise(small(precision="bfloat16"), seed=0).to_torch()

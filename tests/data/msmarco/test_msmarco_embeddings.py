import numpy as np
import pytest
from tiny_msmarco import write_tables

from headcount.data.msmarco.embeddings import SOURCE, FrozenEmbeddings, frozen_embeddings
from headcount.data.msmarco.texts import texts_of
from headcount.errors import InvalidInput

RANDOM = np.random.default_rng(3)
TEXTS = texts_of([RANDOM.integers(32, size=size) for size in (5, 0, 1, 16, 30, 0)])


@pytest.fixture
def tables(tmp_path) -> FrozenEmbeddings:
    write_tables(tmp_path)
    return frozen_embeddings(tmp_path)


def plain(tables: FrozenEmbeddings, tokens: np.ndarray, segment: int) -> np.ndarray:
    if not len(tokens):
        return np.zeros(tables.width)
    x = tables.word[tokens].astype(float) + tables.position[: len(tokens)] + tables.segment[segment]
    normed = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-12)
    return (normed * tables.ln_weight + tables.ln_bias).mean(axis=0)


@pytest.mark.parametrize("segment", [0, 1])
@pytest.mark.parametrize("max_tokens", [1, 4, 16])
def test_pooled_is_the_mean_of_layer_norms(tables, segment, max_tokens):
    pooled = tables.pooled(TEXTS.tokens, TEXTS.offsets, segment, max_tokens=max_tokens)
    assert pooled.dtype == np.float32
    expected = [plain(tables, TEXTS[number][:max_tokens], segment) for number in range(len(TEXTS))]
    np.testing.assert_allclose(pooled, expected, rtol=1e-4, atol=1e-5)


def test_word_means_are_means_of_word_vectors(tables):
    for number, mean in enumerate(tables.word_means(TEXTS.tokens, TEXTS.offsets)):
        tokens = TEXTS[number]
        expected = tables.word[tokens].astype(float).mean(axis=0) if len(tokens) else np.zeros(tables.width)
        np.testing.assert_allclose(mean, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("tokens", "segment", "max_tokens", "problem"),
    [
        ([32], 0, 4, "token 32 has no word vector; the table has 32"),
        ([-3], 0, 4, "token -3 has no word vector; the table has 32"),
        ([1], 2, 4, "segment: expected an integer from 0 to 1, got 2"),
        ([1], 0, 17, "max_tokens: expected an integer from 1 to 16, got 17"),
    ],
)
def test_what_the_tables_do_not_have_is_refused(tables, tokens, segment, max_tokens, problem):
    with pytest.raises(InvalidInput, match=rf"bert_embeddings.npz: {problem}.*{SOURCE}$"):
        tables.pooled(np.array(tokens), np.array([0, 1]), segment, max_tokens=max_tokens)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"ln_bias": None}, "has no 'ln_bias'"),
        ({"position": np.ones((4, 5))}, "position has the shape"),
        ({"position": np.ones((0, 6))}, r"position has the shape \(0, 6\)"),
        ({"word": np.full((32, 6), np.nan)}, "word has values"),
    ],
)
def test_spoilt_tables_are_refused(tmp_path, changes, problem):
    write_tables(tmp_path)
    with np.load(tmp_path / "bert_embeddings.npz") as archive:
        parts = {**archive, **changes}
    np.savez(
        tmp_path / "bert_embeddings.npz", **{name: parts[name] for name in parts if parts[name] is not None}
    )
    with pytest.raises(InvalidInput, match=rf"bert_embeddings.npz: {problem}.*expected the arrays"):
        frozen_embeddings(tmp_path)


def test_missing_and_damaged_files_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match=f"no such file.*{SOURCE}$"):
        frozen_embeddings(tmp_path)
    write_tables(tmp_path)
    path = tmp_path / "bert_embeddings.npz"
    content = path.read_bytes()
    for damaged in (content[:400], content[:200] + bytes(200) + content[400:]):
        path.write_bytes(damaged)
        with pytest.raises(InvalidInput, match="damaged, truncated or not"):
            frozen_embeddings(tmp_path)

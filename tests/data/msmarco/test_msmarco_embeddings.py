import numpy as np
import pytest
from tiny_msmarco import write_tables

from headcount.data.msmarco.embeddings import SOURCE, FrozenEmbeddings, frozen_embeddings
from headcount.data.msmarco.texts import texts_of
from headcount.errors import InvalidInput

RANDOM = np.random.default_rng(3)
TEXTS = texts_of([RANDOM.integers(32, size=size) for size in (5, 0, 1, 16, 30, 0)])


@pytest.fixture(params=[6, 768])
def tables(request, tmp_path) -> FrozenEmbeddings:
    write_tables(tmp_path, width=request.param)
    return frozen_embeddings(tmp_path)


def plain(tables: FrozenEmbeddings, tokens: np.ndarray, segment: int, max_tokens: int) -> np.ndarray:
    read = tokens[:max_tokens]
    if not len(read):
        return np.zeros(tables.width)
    x = np.array(
        [
            tables.word[token].astype(float) + tables.position[place] + tables.segment[segment]
            for place, token in enumerate(read)
        ]
    )
    normed = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-12)
    return (normed * tables.ln_weight + tables.ln_bias).mean(axis=0)


@pytest.mark.parametrize("segment", [0, 1])
@pytest.mark.parametrize("max_tokens", [1, 4, 16])
def test_pooled_is_the_mean_of_layer_norms(tables, segment, max_tokens):
    pooled = tables.pooled(TEXTS.tokens, TEXTS.offsets, segment, max_tokens=max_tokens)
    assert pooled.dtype == np.float32
    expected = [plain(tables, TEXTS[number], segment, max_tokens) for number in range(len(TEXTS))]
    np.testing.assert_allclose(pooled, expected, rtol=1e-4, atol=1e-5)


def test_word_means_are_means_of_word_vectors(tables):
    means = tables.word_means(TEXTS.tokens, TEXTS.offsets)
    for number in range(len(TEXTS)):
        tokens = TEXTS[number]
        expected = tables.word[tokens].astype(float).mean(axis=0) if len(tokens) else np.zeros(tables.width)
        np.testing.assert_allclose(means[number], expected, rtol=1e-4, atol=1e-6)


def test_what_the_tables_do_not_have_is_refused(tables):
    for arguments, options, problem in (
        ((np.array([32]), np.array([0, 1]), 0), {}, "token 32 has no word vector; the table has 32"),
        ((np.array([-3]), np.array([0, 1]), 0), {}, "token -3 has no word vector; the table has 32"),
        ((TEXTS.tokens, TEXTS.offsets, 2), {}, "segment: expected an integer from 0 to 1, got 2"),
        (
            (TEXTS.tokens, TEXTS.offsets, 0),
            {"max_tokens": 17},
            "max_tokens: expected an integer from 1 to 16, got 17",
        ),
    ):
        with pytest.raises(InvalidInput, match=rf"bert_embeddings.npz: {problem}.*{SOURCE}$"):
            tables.pooled(*arguments, **({"max_tokens": 4} | options))


def changed(**changes):
    return lambda parts: {
        name: changes.get(name, lambda table: table)(table) for name, table in parts.items()
    }


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda parts: {name: parts[name] for name in parts if name != "ln_bias"}, "has no 'ln_bias'"),
        (changed(position=lambda table: table[:, 1:]), "position has the shape"),
        (changed(position=lambda table: table[:0]), r"position has the shape \(0, 6\)"),
        (changed(word=lambda table: np.where(table > 0, np.nan, table)), "word has values"),
    ],
)
def test_spoilt_tables_are_refused(tmp_path, spoil, problem):
    write_tables(tmp_path)
    path = tmp_path / "bert_embeddings.npz"
    with np.load(path) as archive:
        parts = dict(archive)
    np.savez(path, **spoil(parts))
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

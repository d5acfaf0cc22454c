"""Texts as tokens, as vectors and as hard negatives, each against the plain formula."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_msmarco import write_tables

from headcount.data.msmarco.embeddings import SOURCE, FrozenEmbeddings, frozen_embeddings
from headcount.data.msmarco.negatives import alternating, bm25_scores, dense_scores, hardest
from headcount.data.msmarco.texts import WordPiece, texts_of, wordpiece
from headcount.errors import InvalidInput

PIECES = ["[UNK]", "un", "##aff", "##able", "cafe", ".", "-", "中", "a", "##b", "ab", "100", "%", "ss", "$"]
TOKENIZER = WordPiece({piece: number for number, piece in enumerate(PIECES)})
RANDOM = np.random.default_rng(5)
TEXTS = texts_of([RANDOM.integers(32, size=size) for size in (5, 0, 1, 16, 30, 0)])
POOL = texts_of([RANDOM.integers(2, 32, size=RANDOM.integers(1, 9)) for _ in range(40)])
PLACES = st.lists(st.integers(0, 12), unique=True)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("UNaffable.", ["un", "##aff", "##able", "."]),
        ("Café cafe\u0301", ["cafe", "cafe"]),
        ("a中a 100%-a$", ["a", "中", "a", "100", "%", "-", "a", "$"]),
        ("a\u200bb a\x00b a\ufffdb\u3000a\r\na", ["ab", "ab", "ab", "a", "a"]),
        ("a—ab unx", ["a", "[UNK]", "ab", "[UNK]"]),
        ("a" + "b" * 99, ["ab", *["##b"] * 98]),
        ("a" + "b" * 100, ["[UNK]"]),
        ("", []),
    ],
)
def test_text_is_cut_as_bert_cuts_it(text, pieces):
    assert [PIECES[number] for number in TOKENIZER.ids(text)] == pieces


def test_the_line_of_a_piece_is_its_id(tmp_path):
    for text in ("\n".join(PIECES), "\r\n".join(PIECES) + "\r\n"):
        (tmp_path / "vocab.txt").write_bytes(text.encode())
        assert wordpiece(tmp_path / "vocab.txt").ids("a中%") == [8, 7, 12]


@pytest.mark.parametrize(
    ("content", "problem"),
    [(None, "cannot be read"), (b"[UNK]\n\xff", "not text"), (b"one\n", r"no \[UNK\]")],
)
def test_files_that_are_no_vocabulary_are_refused(tmp_path, content, problem):
    if content is not None:
        (tmp_path / "v.txt").write_bytes(content)
    with pytest.raises(InvalidInput, match=rf"v.txt: .*{problem}.*vocab.txt of BERT"):
        wordpiece(tmp_path / "v.txt")


@pytest.mark.parametrize(
    ("package", "attempt"),
    [("tokenizers", lambda: WordPiece({"[UNK]": 0})), ("bm25s", lambda: next(bm25_scores(TEXTS, POOL)))],
)
def test_without_its_package_the_line_says_how_to_get_it(package, attempt, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InvalidInput, match=rf"{package}: pip install 'headcount\[real\]'"):
        attempt()


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
def test_spoilt_tables_are_refused(tables, changes, problem):
    with np.load(tables.name) as archive:
        parts = {**archive, **changes}
    np.savez(tables.name, **{name: table for name, table in parts.items() if table is not None})
    with pytest.raises(InvalidInput, match=rf"bert_embeddings.npz: {problem}.*expected the arrays"):
        frozen_embeddings(Path(tables.name).parent)


def test_missing_and_damaged_tables_are_refused(tables):
    path = Path(tables.name)
    content = path.read_bytes()
    for damaged in (content[:400], content[:200] + bytes(200) + content[400:]):
        path.write_bytes(damaged)
        with pytest.raises(InvalidInput, match="damaged, truncated or not"):
            frozen_embeddings(path.parent)
    with pytest.raises(InvalidInput, match=f"no such file.*{SOURCE}$"):
        frozen_embeddings(path)


def plain_bm25(query: np.ndarray, k1: float = 1.5, b: float = 0.75) -> np.ndarray:
    lengths = np.diff(POOL.offsets)
    scores = np.zeros(len(POOL))
    for token in query:
        counts = np.array([(POOL[number] == token).sum() for number in range(len(POOL))])
        having = (counts > 0).sum()
        rarity = np.log(1 + (len(POOL) - having + 0.5) / (having + 0.5))
        scores += rarity * counts / (counts + k1 * (1 - b + b * lengths / lengths.mean()))
    return scores


def test_bm25_is_the_formula():
    expected = [plain_bm25(TEXTS[number]) for number in range(len(TEXTS))]
    np.testing.assert_allclose([*bm25_scores(TEXTS, POOL)], expected, rtol=1e-5, atol=1e-6)


def test_dense_is_the_cosine_of_mean_word_vectors(tables):
    many = texts_of([RANDOM.integers(2, 32, size=3) for _ in range(300)])
    asked, found = (
        np.array([tables.word[texts[number]].astype(float).mean(axis=0) for number in range(len(texts))])
        for texts in (many, POOL)
    )
    sizes = np.linalg.norm(asked, axis=1)[:, None] * np.linalg.norm(found, axis=1)
    np.testing.assert_allclose([*dense_scores(many, POOL, tables)], asked @ found.T / sizes, atol=1e-5)


@given(scores=st.lists(st.integers(0, 5), min_size=13, max_size=30), count=st.integers(1, 35), data=st.data())
def test_hardest_are_the_highest_that_are_allowed(scores, count, data):
    without, among = data.draw(PLACES), data.draw(st.none() | PLACES)
    listed = None if among is None else np.array(among, int)
    found = hardest(np.array(scores, float), count, without=np.array(without, int), among=listed).tolist()
    allowed = set(range(len(scores)) if among is None else among) - set(without)
    assert len(set(found)) == len(found) == min(count, len(allowed))
    assert set(found) <= allowed
    highest = sorted((scores[place] for place in allowed), reverse=True)
    assert [scores[place] for place in found] == highest[:count]


@given(one=PLACES, other=PLACES, count=st.integers(0, 20))
def test_alternating_takes_half_of_each(one, other, count):
    mixed = alternating(np.array(one, int), np.array(other, int), count).tolist()
    assert len(mixed) == len(set(mixed)) == min(count, len({*one, *other}))
    assert set(mixed) <= {*one, *other}
    if not {*one} & {*other} and min(len(one), len(other)) >= count:
        assert mixed[::2] == one[: (count + 1) // 2]
        assert mixed[1::2] == other[: count // 2]

import sys

import pytest

from headcount.data.msmarco.wordpiece import WordPiece, wordpiece
from headcount.errors import InvalidInput

PIECES = ["[UNK]", "un", "##aff", "##able", "cafe", ".", "-", "中", "a", "##b", "ab", "100", "%", "ss", "$"]
TOKENIZER = WordPiece({piece: number for number, piece in enumerate(PIECES)})


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("UNaffable.", ["un", "##aff", "##able", "."]),
        ("Café cafe\u0301", ["cafe", "cafe"]),
        ("a中a", ["a", "中", "a"]),
        ("100%-a$", ["100", "%", "-", "a", "$"]),
        ("a\u00a0a\u3000a\ta\r\na", ["a"] * 5),
        ("a\u200bb a\x00b a\ufffdb", ["ab"] * 3),
        ("a—ab", ["a", "[UNK]", "ab"]),
        ("unx", ["[UNK]"]),
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


def test_without_its_package_the_line_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(InvalidInput, match=r"tokenizers: pip install 'headcount\[real\]'"):
        WordPiece({"[UNK]": 0})

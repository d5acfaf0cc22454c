import pytest

from headcount.data.msmarco.wordpiece import WordPiece, wordpiece
from headcount.errors import InvalidInput

PIECES = ["[UNK]", "un", "##aff", "##able", "cafe", ".", "-", "中", "a", "##b", "ab", "100", "%", "ss", "$"]
TOKENIZER = WordPiece({piece: number for number, piece in enumerate(PIECES)})


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("unaffable", ["un", "##aff", "##able"]),
        ("UNaffable.", ["un", "##aff", "##able", "."]),
        ("ab abb", ["ab", "ab", "##b"]),
        ("Café cafe\u0301", ["cafe", "cafe"]),
        ("a中a", ["a", "中", "a"]),
        ("100%-a$", ["100", "%", "-", "a", "$"]),
        ("a\u00a0a\u3000a\ta\r\na", ["a"] * 5),
        ("a\u200bb a\x00b a\ufffdb", ["ab"] * 3),
        ("a—ab", ["a", "[UNK]", "ab"]),
        ("unx", ["[UNK]"]),
        ("a" + "b" * 99, ["ab", *["##b"] * 98]),
        ("a" + "b" * 100, ["[UNK]"]),
        (" \t ", []),
        ("", []),
    ],
)
def test_text_is_cut_as_bert_cuts_it(text, pieces):
    assert [PIECES[number] for number in TOKENIZER.ids(text)] == pieces


def test_a_word_is_cut_the_same_way_every_time():
    assert TOKENIZER.ids("unaffable ab unaffable") == [
        *TOKENIZER.ids("unaffable"),
        10,
        *TOKENIZER.ids("unaffable"),
    ]


def test_the_line_of_a_piece_is_its_id(tmp_path):
    for text in ("\n".join(PIECES), "\r\n".join(PIECES) + "\r\n"):
        (tmp_path / "vocab.txt").write_bytes(text.encode())
        assert wordpiece(tmp_path / "vocab.txt").ids("a中%") == [8, 7, 12]


def test_files_that_are_no_vocabulary_are_refused(tmp_path):
    (tmp_path / "bytes.txt").write_bytes(b"[UNK]\n\xff\xfe")
    (tmp_path / "words.txt").write_text("one\ntwo\n")
    for name, problem in (
        ("missing.txt", "cannot be read"),
        ("bytes.txt", "cannot be read"),
        ("words.txt", r"no \[UNK\]"),
    ):
        with pytest.raises(InvalidInput, match=rf"{name}: .*{problem}.*vocab.txt of BERT"):
            wordpiece(tmp_path / name)

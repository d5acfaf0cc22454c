"""The uncased WordPiece tokenizer of BERT: words, then the longest known pieces of each."""

import unicodedata
from collections.abc import Mapping
from functools import cache, cached_property
from pathlib import Path

from headcount.data.msmarco.embeddings import SOURCE
from headcount.errors import InvalidInput

UNKNOWN = "[UNK]"
MAX_WORD_LENGTH = 100
CJK = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
       (0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F))  # fmt: skip


class WordPiece:
    """Text to token ids, without special tokens.

    >>> WordPiece({"[UNK]": 0, "un": 1, "##able": 2, "!": 3, "cafe": 4}).ids("Unable! Café ☃")
    [1, 2, 3, 4, 0]
    """

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        self.vocabulary = dict(vocabulary)
        self._known: dict[str, list[int]] = {}

    def ids(self, text: str) -> list[int]:
        """The ids of a text, word by word."""
        found: list[int] = []
        for word in _words(text):
            if word not in self._known:
                self._known[word] = self._pieces(word)
            found += self._known[word]
        return found

    @cached_property
    def _longest_piece(self) -> int:
        return max(map(len, self.vocabulary))

    def _pieces(self, word: str) -> list[int]:
        """Greedy: each piece is the longest that the vocabulary has; a word with a gap is unknown."""
        pieces: list[int] = []
        start = 0
        while start < len(word) <= MAX_WORD_LENGTH:
            prefix = "##" if start else ""
            ends = range(min(len(word), start + self._longest_piece), start, -1)
            end = next((end for end in ends if prefix + word[start:end] in self.vocabulary), None)
            if end is None:
                break
            pieces.append(self.vocabulary[prefix + word[start:end]])
            start = end
        return pieces if start == len(word) else [self.vocabulary[UNKNOWN]]


def wordpiece(path: Path | str) -> WordPiece:
    """The tokenizer of a vocab.txt, one piece a line; the number of the line is its id."""
    path = Path(path)
    expected = f"expected is the vocab.txt of BERT, uncased; {SOURCE}"
    try:
        pieces = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    except UnicodeDecodeError:
        raise InvalidInput(f"{path}: cannot be read: it is no text in UTF-8; {expected}") from None
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read: {error.strerror or error}; {expected}") from None
    if UNKNOWN not in pieces:
        raise InvalidInput(f"{path}: has no {UNKNOWN}; {expected}")
    return WordPiece({piece.rstrip("\r"): number for number, piece in enumerate(pieces)})


def _words(text: str) -> list[str]:
    """Lower-case words without accents, every punctuation mark and every Chinese character on its own."""
    spaced = "".join(map(_spaced, text))
    bare = "".join(mark for mark in unicodedata.normalize("NFD", spaced) if not _is_accent(mark))
    return "".join(map(_set_apart, bare.lower())).split()


@cache
def _spaced(character: str) -> str:
    if character.isspace() and (character in "\t\n\r" or unicodedata.category(character) != "Cc"):
        return " "
    if character == "\ufffd" or unicodedata.category(character)[0] == "C":
        return ""
    return f" {character} " if any(first <= ord(character) <= last for first, last in CJK) else character


@cache
def _is_accent(character: str) -> bool:
    return unicodedata.category(character) == "Mn"


@cache
def _set_apart(character: str) -> str:
    ascii_mark = character.isascii() and character.isprintable() and not character.isalnum()
    return f" {character} " if ascii_mark or unicodedata.category(character)[0] == "P" else character

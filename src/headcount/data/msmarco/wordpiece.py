"""The uncased WordPiece tokenizer of BERT, by the `tokenizers` library."""

from collections.abc import Mapping
from pathlib import Path

from headcount.data.msmarco.embeddings import SOURCE
from headcount.errors import InvalidInput
from headcount.extras import needed

UNKNOWN = "[UNK]"
MAX_WORD_LENGTH = 100


class WordPiece:
    """Text to token ids, without special tokens: lower-case words without accents, then their pieces.

    >>> WordPiece({"[UNK]": 0, "un": 1, "##able": 2, "!": 3, "cafe": 4}).ids("Unable! Café ☃")
    [1, 2, 3, 4, 0]
    """

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        library = needed("tokenizers", extra="real", purpose="WordPiece")
        model = library.models.WordPiece(
            dict(vocabulary), unk_token=UNKNOWN, max_input_chars_per_word=MAX_WORD_LENGTH
        )
        self._tokenizer = library.Tokenizer(model)
        self._tokenizer.normalizer = library.normalizers.BertNormalizer(lowercase=True, strip_accents=True)
        self._tokenizer.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()

    def ids(self, text: str) -> list[int]:
        """The ids of a text, word by word."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids


def wordpiece(path: Path | str) -> WordPiece:
    """The tokenizer of a vocab.txt, one piece per line; a piece's id is the number of its line."""
    path = Path(path)
    expected = f"expected the vocab.txt of BERT, uncased; {SOURCE}"
    try:
        pieces = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    except UnicodeDecodeError:
        raise InvalidInput(f"{path}: is not text in UTF-8; {expected}") from None
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read: {error.strerror or error}; {expected}") from None
    if UNKNOWN not in pieces:
        raise InvalidInput(f"{path}: has no {UNKNOWN}; {expected}")
    return WordPiece({piece.rstrip("\r"): number for number, piece in enumerate(pieces)})

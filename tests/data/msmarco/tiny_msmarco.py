"""MS MARCO's files, tiny: words w0 to w29, passages of words, queries that repeat words of their passage."""

import gzip
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from headcount.data.msmarco.rankings import Rankings

WORDS = [f"w{number}" for number in range(30)]
VOCABULARY = ["[PAD]", "[UNK]", *WORDS]

Layout = Literal["ranked", "trec", "texts"]


def write_tables(folder: Path, *, width: int = 6, positions: int = 16) -> None:
    random = np.random.default_rng(7)
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    np.savez(
        folder / "bert_embeddings.npz",
        word=random.normal(size=(len(VOCABULARY), width)).astype(np.float16),
        position=random.normal(size=(positions, width)).astype(np.float16),
        segment=random.normal(size=(2, width)).astype(np.float16),
        ln_weight=random.uniform(0.5, 2, size=width).astype(np.float32),
        ln_bias=random.normal(size=width).astype(np.float32),
    )


def write_lines(path: Path, rows: Iterable[Sequence[object]], packed: bool, between: str = "\t") -> None:
    text = "".join(between.join(map(str, row)) + "\n" for row in rows).encode()
    if packed:
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(text))
    else:
        path.write_bytes(text)


class Tiny:
    """A random collection. Some passages and queries occur twice; some queries have several answers."""

    def __init__(self, seed: int, *, queries: int = 24, passages: int = 90) -> None:
        random = np.random.default_rng(seed)
        texts = [" ".join(random.choice(WORDS, size=random.integers(4, 9))) for _ in range(passages)]
        for copy in range(0, passages, 10):
            texts[copy] = texts[random.integers(passages)]
        self.passages = {f"p{number}": text for number, text in enumerate(texts)}
        self.relevant = {
            f"q{number}": [
                f"p{found}" for found in random.choice(passages, random.integers(1, 4), replace=False)
            ]
            for number in range(queries)
        }
        self.queries = {
            query: " ".join(self.passages[answers[0]].split()[:3]) for query, answers in self.relevant.items()
        }
        self.queries["q1"] = self.queries["q0"]
        self.run = {
            query: [f"p{found}" for found in random.permutation(passages)[: passages // 2]]
            for query in self.queries
        }

    def write(
        self,
        folder: Path,
        *,
        run: Layout | None = None,
        packed: bool = False,
        parts: tuple[str, ...] = ("train",),
    ) -> None:
        """The official files; with several parts the queries are dealt out among them."""
        write_tables(folder)
        write_lines(folder / "collection.tsv", self.passages.items(), packed)
        for place, part in enumerate(parts):
            names = list(self.queries)[place :: len(parts)]
            answers = [(q, 0, p, 1) for q in names for p in self.relevant[q]]
            write_lines(folder / f"queries.{part}.tsv", ((q, self.queries[q]) for q in names), packed)
            write_lines(folder / f"qrels.{part}.tsv", answers, packed)
            hits = [(q, p, rank) for q in names for rank, p in enumerate(self.run[q], 1)]
            hits = [hits[place] for place in np.random.default_rng(0).permutation(len(hits))]
            if run == "ranked":
                write_lines(folder / f"run.{part}.tsv", hits, packed)
            elif run == "trec":
                rows = [(q, "Q0", p, rank, 1 / rank, "engine") for q, p, rank in hits]
                write_lines(folder / f"run.bm25.{part}.trec", rows, packed, between=" ")
            elif run == "texts":
                texts = [(q, p, self.queries[q], self.passages[p]) for q, p, _ in hits]
                write_lines(folder / f"top1000.{part}.tsv", texts, packed)

    def load_dataset(
        self, name: str, part: str, *, split: str, streaming: bool = False
    ) -> list[dict[str, object]]:
        """The same as `datasets` gives it; every other query is one of the development set."""
        assert name == "mteb/msmarco"
        if part == "default":
            names = list(self.queries)[0 if split == "train" else 1 :: 2]
            rows = [(query, passage) for query in names for passage in self.relevant[query]]
            return [{"query-id": query, "corpus-id": passage, "score": 1.0} for query, passage in rows]
        assert split == part
        assert streaming == (part == "corpus")
        texts = self.queries if part == "queries" else self.passages
        return [{"_id": name, "text": text} for name, text in texts.items()]


def passage_text(rankings: Rankings, number: int) -> str:
    return " ".join(VOCABULARY[token] for token in rankings.passages[number])


def query_text(rankings: Rankings, number: int) -> str:
    return " ".join(VOCABULARY[token] for token in rankings.queries[number])


def content(rankings: Rankings) -> bytes:
    return b"".join(repr(part.shape).encode() + part.tobytes() for part in rankings.content)

"""Compact copies of CIFAR-10 and MS MARCO, converted once to the layout in which they are published.

    python benchmarks/convert_data.py cifar10 FROM OUT     FROM holds any of cifar10_part0.npz to _part2.npz
    python benchmarks/convert_data.py msmarco FROM OUT     FROM holds msmarco_tokens.npz and vocab.txt

CIFAR-10 becomes OUT/cifar-10-batches-bin. The parts that are there are joined in the original order and
divided into five training batches of one size and a test batch: all three parts give the published files.

MS MARCO becomes OUT/collection.tsv and, for each split with lists (train, heldout, dev), queries, qrels and a
run of all candidates ranked by BM25. The texts are made from WordPiece ids: lower case, no accents, spaces
around punctuation; each is checked to give the same ids again. Training lists that share a text with a
held-out list are left out. vocab.txt and, if it is there, bert_embeddings.npz are copied too: then OUT is all
that `headcount reproduce msmarco --data OUT` needs.
"""

import argparse
import shutil
import sys
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import numpy as np

from headcount.data.msmarco.texts import UNKNOWN, wordpiece

BATCHES = 5
OUTSIDE = "☃"  # a character that no vocabulary of BERT has: it becomes the unknown token
SPLITS = ("train", "heldout", "dev")


def convert_cifar10(source: Path, out: Path) -> None:
    paths = sorted(source.glob("cifar10_part[0-9].npz"))
    if not paths:
        sys.exit(f"{source}: expected cifar10_part0.npz or another part, found none")
    folder = out / "cifar-10-batches-bin"
    folder.mkdir(parents=True, exist_ok=True)
    train, test = (records(paths, split) for split in ("train", "test"))
    size = len(train) // BATCHES
    for number in range(BATCHES):
        batch = train[number * size : (number + 1) * size]
        (folder / f"data_batch_{number + 1}.bin").write_bytes(batch.tobytes())
    (folder / "test_batch.bin").write_bytes(test.tobytes())
    dropped = len(train) - BATCHES * size
    print(f"{folder}: {BATCHES} x {size} training and {len(test)} test images, {dropped} dropped")


def records(paths: list[Path], split: str) -> np.ndarray:
    """A label byte and 3,072 pixel bytes for each image, in the original order.

    The parts hold R - G, G and B - G as differences along rows and columns, modulo 256.
    """
    found, places = [], []
    for path in paths:
        with np.load(path) as part:
            planes = part[f"r_{split}"].cumsum(axis=2, dtype=np.uint8).cumsum(axis=3, dtype=np.uint8)
            planes[0] += planes[1]
            planes[2] += planes[1]
            pixels = planes.swapaxes(0, 1).reshape(planes.shape[1], -1)
            found.append(np.concatenate([part[f"y_{split}"][:, None], pixels], axis=1))
            places.append(part[f"i_{split}"])
    return np.concatenate(found)[np.concatenate(places).argsort()]


def convert_msmarco(source: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for name in ("vocab.txt", "bert_embeddings.npz"):
        if (source / name).exists() and source.resolve() != out.resolve():
            shutil.copy(source / name, out)
    with np.load(source / "msmarco_tokens.npz") as file:
        arrays = dict(file)
    passages, queries = (
        texts(arrays[f"{kind}_tok"], arrays[f"{kind}_off"], source / "vocab.txt") for kind in "pq"
    )
    write(out / "collection.tsv", enumerate(passages))
    names = arrays["split_names"].tolist()
    split_of_list = arrays["split"][arrays["list_q"]]
    rows = {split: np.flatnonzero(split_of_list == names.index(split)) for split in SPLITS}
    kept = disjoint(arrays["cand"], passages, rows["train"], rows["heldout"])
    print(f"{len(rows['train']) - len(kept)} training lists share a text with a held-out list: left out")
    for split, chosen in (rows | {"train": kept}).items():
        asked, candidates = arrays["list_q"][chosen], arrays["cand"][chosen]
        positive = np.take_along_axis(candidates, arrays["label"][chosen, None].astype(int), axis=1)[:, 0]
        order = np.argsort(-arrays["bm25"][chosen].astype(np.float32), axis=1, kind="stable")
        ranked = np.take_along_axis(candidates, order, axis=1)
        lists = list(zip(asked, positive, ranked, strict=True))
        write(out / f"queries.{split}.tsv", ((query, queries[query]) for query in asked))
        write(out / f"qrels.{split}.tsv", ((query, 0, answer, 1) for query, answer, _ in lists))
        hits = ((query, hit, rank) for query, _, row in lists for rank, hit in enumerate(row, 1))
        write(out / f"run.{split}.tsv", hits)
        print(f"{out}: {len(asked)} lists of {split}")


def texts(tokens: np.ndarray, offsets: np.ndarray, vocabulary: Path) -> list[str]:
    """Texts that the tokenizer turns into these ids again."""
    tokenizer = wordpiece(vocabulary)
    pieces = [OUTSIDE if piece == UNKNOWN else piece for piece in vocabulary.read_text("utf-8").split("\n")]
    found: list[str] = []
    for start, end in pairwise(offsets):
        ids = tokens[start:end].tolist()
        text = " ".join(pieces[number] for number in ids).replace(" ##", "")
        if tokenizer.ids(text) != ids:
            sys.exit(f"text {len(found)}: {text!r} has other ids than those it was made of")
        found.append(text)
    return found


def disjoint(
    candidates: np.ndarray, passages: list[str], train: np.ndarray, heldout: np.ndarray
) -> np.ndarray:
    """The training lists without a text of a held-out list; texts may be there under several numbers."""
    numbers = np.unique(passages, return_inverse=True)[1]
    shared = np.isin(numbers[candidates[train]], numbers[candidates[heldout]]).any(axis=1)
    return train[~shared]


def write(path: Path, rows: Iterable[tuple[object, ...]]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines("\t".join(map(str, row)) + "\n" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    convert = {"cifar10": convert_cifar10, "msmarco": convert_msmarco}
    parser.add_argument("name", choices=list(convert))
    parser.add_argument("source", metavar="FROM", type=Path)
    parser.add_argument("out", type=Path)
    chosen = parser.parse_args()
    convert[chosen.name](chosen.source, chosen.out)


if __name__ == "__main__":
    main()

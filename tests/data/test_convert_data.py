"""Compact copies, converted by the script, load as the data they were made of."""

import importlib.util
from pathlib import Path

import numpy as np

from headcount.data.cifar10.files import load_cifar10
from headcount.data.msmarco.loading import load
from headcount.data.msmarco.source import Options
from headcount.data.msmarco.texts import texts_of

RANDOM = np.random.default_rng(0)
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "convert_data.py"
SPEC = importlib.util.spec_from_file_location("convert_data", SCRIPT)
convert_data = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(convert_data)


def stored(images):
    """R - G, G, B - G, then differences along both axes, modulo 256."""
    red, green, blue = np.moveaxis(images, -1, 0)
    planes = np.stack([red - green, green, blue - green])
    planes[..., 1:] = planes[..., 1:] - planes[..., :-1]
    planes[..., 1:, :] = planes[..., 1:, :] - planes[..., :-1, :]
    return planes


def test_cifar10_parts_become_batches_of_one_size_in_the_original_order(tmp_path, capsys):
    images = {
        split: RANDOM.integers(256, size=(32, 32, 32, 3), dtype=np.uint8) for split in ("train", "test")
    }
    labels = {split: RANDOM.integers(10, size=32).astype(np.uint8) for split in images}
    places = RANDOM.permutation(32).astype(np.uint16)
    for number, mine in enumerate((places[:10], places[10:21])):
        parts = {split: (stored(images[split][mine]), labels[split][mine], mine) for split in images}
        arrays = {f"{kind}_{split}": parts[split][at] for split in images for at, kind in enumerate("ryi")}
        np.savez(tmp_path / f"cifar10_part{number}.npz", **arrays)
    convert_data.convert_cifar10(tmp_path, tmp_path)
    data, order = load_cifar10(tmp_path), np.sort(places[:21])
    np.testing.assert_array_equal(data.train_images, images["train"][order[:20]])
    np.testing.assert_array_equal(data.train_labels, labels["train"][order[:20]])
    np.testing.assert_array_equal(data.test_images, images["test"][order])
    np.testing.assert_array_equal(data.test_labels, labels["test"][order])
    assert "5 x 4 training and 21 test images, 1 dropped" in capsys.readouterr().out


def test_msmarco_tokens_become_official_files_with_the_same_lists(tmp_path):
    pieces = ["[PAD]", "[UNK]", *(f"w{number}" for number in range(15)), "##x", "##y"]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces) + "\n")
    lists, width, pool = 6, 5, 15
    passages = [
        [2 + number // 8, 1, 3, 18, *RANDOM.integers(2, 17, size=3), 2 + number % 8]
        for number in range(3 * pool)
    ]
    passages[pool] = passages[0]  # of the held-out pool; the same text in the training pool
    queries = [RANDOM.integers(2, 17, size=6) for _ in range(3 * lists)]
    candidates = np.stack(
        [split * pool + RANDOM.permutation(pool - 1)[:width] + 1 for split in range(3) for _ in range(lists)]
    )
    candidates[2, 3], candidates[lists, 0] = 0, pool
    texts = {"p": texts_of(passages), "q": texts_of(queries)}
    label = RANDOM.integers(width, size=3 * lists)
    scores = RANDOM.permutation(3 * lists * width).reshape(-1, width)
    np.savez(
        tmp_path / "msmarco_tokens.npz",
        **{f"{kind}_tok": text.tokens.astype(np.uint16) for kind, text in texts.items()},
        **{f"{kind}_off": text.offsets.astype(np.int32) for kind, text in texts.items()},
        **{"cand": candidates, "label": label.astype(np.uint8), "bm25": scores.astype(np.float16)},
        **{"split": np.repeat([0, 1, 2], lists), "split_names": np.array(["train", "heldout", "dev"])},
        list_q=np.arange(3 * lists),
    )
    convert_data.convert_msmarco(tmp_path, tmp_path / "out")
    rankings = load(tmp_path / "out", Options(length=width))
    kept = [row for row in range(2 * lists) if row != 2]
    found = [(part, row) for part in (rankings.train, rankings.validation) for row in range(len(part))]
    assert len(found) == len(kept)
    for (part, row), number in zip(found, kept, strict=True):
        assert rankings.queries[part.query[row]].tolist() == queries[number].tolist()
        ranked = candidates[number][np.argsort(-scores[number])].tolist()
        positive = candidates[number, label[number]]
        expected = [positive, *(hit for hit in ranked if hit != positive)]
        texts = [rankings.passages[passage].tolist() for passage in part.passages[row]]
        assert texts == [passages[hit] for hit in expected]

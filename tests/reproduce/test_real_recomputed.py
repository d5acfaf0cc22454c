"""What docs/real.md says, computed again from the frames by NumPy and pandas alone."""

import json
import re

import numpy as np
import pytest
from reproduce.recomputing import (
    ROOT,
    fitted,
    numbers,
    page,
    quote,
    row_of,
    rows_of,
    says,
    through_those_that_learn,
)
from scipy.stats import t as student

OTHER = ("each image at one place", "in float32", "tokens kept, 64 of a passage", "h = 1 for 120 epochs")
CORNERS = [
    ("msmarco", "MS MARCO, 6 epochs, E = 32 and 256", (32, 256), (8, 16, 32, 64)),
    ("msmarco", "MS MARCO, full, E = 32 and 192", (32, 192), (8, 16)),
    ("cifar10", "CIFAR-10, full, E = 16 and 128", (16, 128), (65, 145)),
]


def welch(one, other):
    """The difference of means with its 95% interval."""
    parts = np.array([one.var(ddof=1) / len(one), other.var(ddof=1) / len(other)])
    freedom = parts.sum() ** 2 / (parts**2 / (np.array([len(one), len(other)]) - 1)).sum()
    reach = student.ppf(0.975, freedom) * np.sqrt(parts.sum())
    found = one.mean() - other.mean()
    return found, found - reach, found + reach


def test_negatives_drawn_evenly_are_equally_hard_at_every_length():
    rows = json.loads((ROOT / "benchmarks" / "results" / "negatives.json").read_text())["rows"]
    share = {(row["variant"], row["split"], row["length"]): row["negatives"] for row in rows}
    for split in ("training", "validation"):
        even, hardest = (
            [share[variant, split, length] for length in (8, 16, 32, 64)]
            for variant in ("negatives of one difficulty", "hardest negatives")
        )
        assert max(even) - min(even) < 0.005 and hardest[-1] - hardest[0] > 0.05
        assert even[-1] == hardest[-1]
    for length in (8, 16, 32, 64):
        found = [
            share[variant, "training", length]
            for variant in ("hardest negatives", "negatives of one difficulty")
        ]
        _, said = row_of(quote("negatives", "real"), str(length))
        assert np.allclose(np.array([numbers(said[0])[0], numbers(said[2])[0]]) / 100, found, atol=6e-4)


@pytest.mark.parametrize(("name", "title", "widths", "lengths"), CORNERS)
def test_corners_are_those_of_the_rows(name, title, widths, lengths):
    rows = rows_of(name)
    epochs = rows["variant"].str.startswith("6 epochs")
    rows = rows[epochs if "6 epochs" in title else ~epochs & ~rows["variant"].isin(OTHER)]
    rows = rows.drop_duplicates("trial")
    for length in lengths:
        corner = {
            (heads, width): 100
            * rows[(rows["heads"] == heads) & (rows["width"] == width) & (rows["length"] == length)][
                "train_error"
            ].to_numpy()
            for heads in (1, 8)
            for width in widths
        }
        narrow, wide = widths
        mark, (seeds, before, *added) = row_of(quote("corners", "real"), title, str(length))
        assert {len(found) for found in corner.values()} == {int(seeds)}
        assert float(before.strip("%")) == pytest.approx(corner[1, narrow].mean(), abs=0.06)
        steps = (
            ((1, narrow), (8, narrow)),
            ((1, narrow), (1, wide)),
            ((8, narrow), (1, wide)),
            ((1, wide), (8, wide)),
            ((8, narrow), (8, wide)),
        )
        for said, (one, other) in zip(added, steps, strict=True):
            if corner[one].max() > 0.05:
                assert np.allclose(numbers(said), welch(corner[one], corner[other]), atol=0.06)
        _, low, high = welch(corner[8, narrow], corner[1, wide])
        assert mark == ("✓" if low > 0 else "✗" if high < 0 else "?")


def test_one_head_errs_more_on_longer_lists_and_not_after_twice_the_training():
    rows = rows_of("msmarco")
    lengths = (8, 16, 32, 64)
    grid = rows[rows["variant"] == "grid"]
    one = grid[grid["heads"] == 1]
    groups = [np.maximum(one[one["length"] == T]["train_error"].to_numpy(), 1e-4) for T in lengths]
    found = through_those_that_learn(lengths, groups)
    start = "with up to 4 heads, training accuracy falls with T wherever not nearly all is learnt"
    _, (at_length, *_) = row_of(quote("real_shape", "real"), start)
    assert says(at_length.partition("slope")[2], *found)
    assert grid[grid["heads"] == 2].groupby("length")["train_error"].mean().max() < 1.5e-4
    longer = rows[rows["variant"] == "h = 1 for 120 epochs"].groupby("length")["train_error"].mean()
    rest = grid[grid["heads"] > 1].groupby(["heads", "length"])["train_error"].mean()
    largest = max(longer.max(), rest.max())
    assert f"at most {largest:.2%} is wrong in any of {len(longer) + len(rest)} cells" in page("real")


def test_the_law_after_six_epochs_is_weaker_than_the_papers():
    rows = rows_of("msmarco")
    wrong = rows[rows["variant"] == "6 epochs"].groupby(["heads", "length"])["train_error"].mean()
    heads, lengths = (np.array(axis, float) for axis in zip(*wrong.index, strict=True))
    design = np.stack([heads / lengths**0.25, np.log(lengths), np.ones_like(lengths)], axis=1)
    (exponent, *_), _, (reach, *_) = fitted(design, np.log(wrong.to_numpy()))
    start = "1 − accuracy follows c · T^b · exp(a · h / T^0.25), the paper's law, with its exponent"
    _, (_, after_six, *_) = row_of(quote("real_shape", "real"), start)
    said = numbers(re.search(r"a = (.*)", after_six)[1])
    assert np.allclose(said, [exponent, exponent - reach, exponent + reach], atol=6e-3)


def test_bm25_is_right_on_the_same_share_at_every_length():
    alone = json.loads((ROOT / "benchmarks" / "results" / "msmarco.json").read_text())["bm25_right"]
    rows = rows_of("msmarco")
    right = 1 - rows[rows["variant"] == "grid"].groupby(["length", "heads"])["validation_error"].mean()
    text = " ".join(quote("bm25", "real"))
    assert numbers(text)[1:] == pytest.approx([100 * alone, 100 * right.min(), 100 * right.max()], abs=0.06)


APART = "heads, head size and width, each alone"


@pytest.mark.parametrize(
    ("name", "title", "narrow"), [("msmarco", "MS MARCO", 32), ("cifar10", "CIFAR-10", 16)]
)
def test_width_is_ahead_of_heads_of_one_size_by_what_the_rows_say(name, title, narrow):
    rows = rows_of(f"{name}-apart")
    rows = rows[(rows["variant"] == APART)]
    wrong = {}
    for width, of_width in rows.groupby("width"):
        cells = of_width.pivot_table("train_error", "learning_rate", ["heads", "head_dim"])
        best = of_width[of_width["learning_rate"] == cells.mean(axis=1).idxmin()]
        for heads in (1, 8):
            chosen = best[(best["heads"] == heads) & (best["head_dim"] == narrow)]
            wrong[heads, width == narrow] = chosen["train_error"].to_numpy() * 100
    found = welch(wrong[8, True], wrong[1, False])
    lines = [line for line in quote("width_or_heads", "real") if f"{title}, with heads of one size" in line]
    said = numbers(lines[0].partition("ahead by")[2])
    assert np.allclose(said, found, atol=0.06)
    shares = [wrong[place].mean() for place in ((1, True), (8, True), (1, False), (8, False))]
    assert np.allclose([float(one) for one in re.findall(r"([\d.]+)%", lines[0])], shares, atol=6e-3)


@pytest.mark.parametrize(
    ("name", "variant", "where"),
    [
        ("planted", "one layer", "images: one layer"),
        (
            "msmarco-apart",
            "planted retrieval in lists, one layer",
            "lists: planted retrieval in lists, one layer",
        ),
    ],
)
def test_the_planted_retrieval_falls_most_at_the_third_head(name, variant, where):
    rows = rows_of(name)
    by_heads = np.log(rows[rows["variant"] == variant].set_index("heads")["validation_error"])
    falls = np.exp(-by_heads.groupby("heads").mean().diff().dropna())
    assert falls.idxmax() == 3
    claim = f"{where}: from one h to the next, the share wrong falls most to h = 3"
    _, (evidence,) = row_of(quote("planted_found", "real"), claim)
    said = re.findall(r"to h = (\d) ([\d.]+)-fold", evidence)
    assert np.allclose([float(fold) for _, fold in said], [falls[int(h)] for h, _ in said], atol=6e-3)

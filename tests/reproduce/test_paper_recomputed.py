"""What docs/paper.md says, computed again from the frame by NumPy and pandas alone.

Nothing of the project is imported: cells are found by the columns and specifications of the rows.
"""

import json
import re
from functools import cache

import numpy as np
import pytest
from reproduce.printed import PRINTED, TABLE_2
from reproduce.recomputing import (
    cells,
    not_stuck,
    numbers,
    page,
    quote,
    row_of,
    rows_of,
    same,
    says,
    through_all,
    through_those_that_learn,
)
from scipy.stats import t as student

LENGTHS = (8, 16, 32, 64, 128)
ENOUGH = {"Table 2": 4, "Table 3": 4, "Table 4": 3, "Table 5": 2}
ORTHONORMAL = {"directions": "orthonormal", "token_dim": 4}


def title_of(name):
    return f"{name}, D = {3 if name == 'Table 4' else 4}"


@cache
def frame():
    """All rows, with the parts of their specification that tell the tables apart; no polished member."""
    rows = rows_of("reproduce")
    specs = [json.loads(spec) for spec in rows["spec"]]
    rows = rows.assign(
        options=[json.dumps(dict(spec["task"]["options"]), sort_keys=True) for spec in specs],
        positions=[spec["architecture"]["positions"] for spec in specs],
        norm=[spec["architecture"]["layer_norm"] for spec in specs],
        sequences=[spec["training"]["train_samples"] for spec in specs],
        batch=[spec["training"]["batch_size"] for spec in specs],
        polish=[spec["training"]["polish_steps"] for spec in specs],
    )
    assert (rows["status"] == "done").all()
    return rows[rows["polish"] == 0]


@cache
def table(name):
    """The rows of a table: the paper's task with orthonormal directions, in its sizes."""
    rows = frame()
    options = json.dumps({**ORTHONORMAL, "dimension": 3 if name == "Table 4" else 4}, sort_keys=True)
    common = (rows["task"] == "max_sum") & (rows["options"] == options) & (rows["hidden"] == 32)
    common &= (rows["steps"] == 30_000) & ~rows["norm"] & (rows["positions"] == "none")
    common &= (rows["sequences"] == 8_000) & (rows["layers"] == (2 if name == "Table 5" else 1))
    head_dim = 8 if name == "Table 2" else np.ceil(32 / rows["heads"])
    return rows[common & (rows["head_dim"] == head_dim)]


def cell(rows, heads, length):
    """The members of a cell at the rate with the lowest validation error of all."""
    members = rows[(rows["heads"] == heads) & (rows["length"] == length)]
    best = members.loc[members["validation_error"].idxmin(), "learning_rate"]
    return members[members["learning_rate"] == best].sort_values("validation_error")


def errors(rows, heads, length):
    return cell(rows, heads, length)["test_error"].to_numpy()


def statistics(rows, heads, length):
    """Minimum, median, and the test error of the seed with the lowest validation error."""
    found = errors(rows, heads, length)
    return found.min(), float(np.median(found)), found[0]


@pytest.mark.parametrize("name", PRINTED)
def test_falls_are_those_of_the_rows(name):
    rows, enough = table(name), ENOUGH[name]
    folds = np.array(
        [np.divide(statistics(rows, enough - 1, T), statistics(rows, enough, T)) for T in LENGTHS]
    ).min(axis=0)
    mark, (step, asked, *said) = row_of(quote("falls"), title_of(name))
    assert step == f"{enough - 1} → {enough}"
    same([numbers(one)[0] for one in said], folds)
    assert (mark == "✓") == (folds >= float(asked)).all()
    assert {len(errors(rows, enough, T)) for T in LENGTHS} == {8}


@pytest.mark.parametrize("name", PRINTED)
def test_exponents_of_the_length_are_those_of_the_rows(name):
    rows = table(name)
    _, (enough, *said) = row_of(quote("slopes"), title_of(name))
    assert int(enough) == ENOUGH[name]
    for heads, one in zip(PRINTED[name], said, strict=False):
        found = slope, low, high, _ = through_those_that_learn(
            LENGTHS, [errors(rows, heads, T) for T in LENGTHS]
        )
        mark, _, exponent = one.partition(" ")
        assert says(exponent, *found)
        as_claimed = slope < 0 if heads >= ENOUGH[name] else slope > 0
        assert mark == ("?" if low < 0 < high else "✓" if as_claimed else "✗")


def test_two_layers_with_one_head_hang_on_one_seed():
    groups = [errors(table("Table 5"), 1, T) for T in LENGTHS]
    slope, equal, reach = through_all(LENGTHS, groups)
    text = " ".join(quote("without_the_furthest"))
    first, members = re.search(r"the slope is (.*?\)) over (\d+) members", text).groups()
    found = through_those_that_learn(LENGTHS, groups)
    assert says(first, *found) and found[-1] == 1 and int(members) == 40
    said = numbers(re.search(r"the interval would be (.*)\.$", text.strip())[1])
    assert np.allclose(said, [slope - equal, slope + equal], atol=6e-3)
    furthest, beside = np.sort(groups[-1])[::-1][:2]
    same(numbers(re.search(r"an error of (.*?) where", text)[1]), [furthest], rel=0.05)
    assert f"where the next has {beside:.1e}".replace("e-0", "e-") in text
    without, _, less = through_all(LENGTHS, [*groups[:-1], np.sort(groups[-1])[:-1]])
    said, left = re.search(r"With it the slope is (.*?\)), without it (.*?\))", text).groups()
    assert np.allclose(numbers(said), [slope, slope - reach, slope + reach], atol=6e-3)
    assert np.allclose(numbers(left), [without, without - less, without + less], atol=6e-3)
    assert slope - equal > 0 > slope - reach, "what the text says of the two intervals"


def test_the_cells_where_ours_is_worse_are_these():
    worse, total = {}, 0
    for name, printed in PRINTED.items():
        for heads, row in printed.items():
            for length, paper in zip(LENGTHS, row, strict=True):
                ratios = np.divide(statistics(table(name), heads, length), paper)
                total += 1
                if ratios[0] > 3:
                    worse.setdefault((name, heads), []).append((length, *ratios))
    count = sum(map(len, worse.values()))
    last = sum(len(cells) for (name, heads), cells in worse.items() if heads == ENOUGH[name] - 1)
    text = " ".join(quote("above"))
    assert f"**{count} of {total}**" in text and f"{last} of them in the last column" in text
    assert page("paper").split("released no code")[0].count(f"{count} of {total} cells") == 1
    lines = [cells(line) for line in quote("above") if line.startswith("| Table")]
    assert len(lines) == len(worse)
    for line, ((name, heads), found) in zip(lines, worse.items(), strict=True):
        title, said_heads, lengths, *spans = line
        assert title.startswith(name) and int(said_heads) == heads
        assert numbers(lengths.replace(",", " ")) == [length for length, *_ in found]
        for said, column in zip(spans, np.array(found).T[1:], strict=True):
            ends = [column.min(), column.max()][: len(numbers(said))]
            same(numbers(said), ends, rel=0.05)


def test_our_means_at_five_heads_lie_on_both_sides_of_the_papers():
    means = {T: errors(table("Table 2"), 5, T).mean() / TABLE_2[5][i] for i, T in enumerate(LENGTHS)}
    text = " ".join(quote("means"))
    below, above = re.search(r"below it at (T = .*?) and above at (T = .*?): at", text).groups()
    for part, side in (
        (below, [T for T in LENGTHS if means[T] <= 1]),
        (above, [T for T in LENGTHS if means[T] > 1]),
    ):
        said = re.findall(r"(\d+) \(([\d.]+)", part)
        assert [int(length) for length, _ in said] == side
        same([float(ratio) for _, ratio in said], [means[T] for T in side], rel=0.05)
    failing = int((errors(table("Table 2"), 5, 128) > 10 * TABLE_2[5][-1]).sum())
    assert f"at T = 128, {failing} seeds of 8" in text


def reversal(column):
    gains = [max(a - b, 0) for i, a in enumerate(column) for b in column[i + 1 :]]
    return sum(gains) / (max(column) - min(column))


@pytest.mark.parametrize("name", PRINTED)
def test_reversal_scores_are_those_of_the_rows(name):
    whose = [{h: list(row) for h, row in PRINTED[name].items()}]
    for place in range(3):
        whose.append({h: [statistics(table(name), h, T)[place] for T in LENGTHS] for h in PRINTED[name]})
    _, (should, *said) = row_of(quote("reversal"), name)
    assert int(should) == ENOUGH[name]
    for one, columns in zip(said, whose, strict=True):
        first = next(heads for heads, column in columns.items() if reversal(column) > 0)
        assert one == f"{'✓' if first == ENOUGH[name] else '✗'} {first}"


def test_reversal_scores_on_other_grids_are_those_of_the_rows():
    options = json.dumps({**ORTHONORMAL, "dimension": 4}, sort_keys=True)
    rows, bowls = frame(), frame()[frame()["task"] == "bowls"]
    sizes = rows[(rows["steps"] == 15_000) & (rows["options"] == options)]
    grids = {f"Figure 4, N = {size}": sizes[sizes["hidden"] == size] for size in (8, 128)}
    for name, members in {**grids, "bowls": bowls, "bowls, T ≤ 64": bowls[bowls["length"] < 128]}.items():
        lengths = sorted(members["length"].unique())
        _, (should, *said) = row_of(quote("reversal_grids"), name)
        assert should == "4"
        for place, one in enumerate(said):
            scores = [reversal([statistics(members, h, T)[place] for T in lengths]) for h in range(1, 6)]
            first = 1 + next(place for place, score in enumerate(scores) if score > 0)
            assert one == f"{'✓' if first == 4 else '✗'} {first}"
    said = "".join(cell[0] for line in quote("reversal_grids") if "|" in line for cell in cells(line)[2:])
    marks = re.findall("[✓✗]", said)
    counted = numbers(quote("reversal_grids")[0])
    assert counted[0] * 3 == len(marks) == counted[2] and counted[1] == marks.count("✓")


def test_bowls_grow_more_slowly_from_the_dimension_on_where_the_intervals_say_so():
    rows = frame()[frame()["task"] == "bowls"]

    def line(groups):
        """A slope, its standard error, and the degrees of freedom."""
        slope, _, reach = through_all(LENGTHS[:-1], groups)
        freedom = sum(map(len, groups)) - 2
        return slope, reach / student.ppf(0.975, freedom), freedom

    def apart(many, few):
        """The difference of two slopes, and the ends of its interval."""
        (one, error, free), (other, beside, left) = line(many), line(few)
        freedom = (error**2 + beside**2) ** 2 / (error**4 / free + beside**4 / left)
        reach = student.ppf(0.975, freedom) * np.hypot(error, beside)
        return one - other, one - other - reach, one - other + reach

    for heads in (4, 5):
        for words, of in (("over seeds", np.asarray), ("by minima", lambda group: [group.min()])):
            groups = [[of(errors(rows, h, T)) for T in LENGTHS[:-1]] for h in (heads, 3)]
            kept = [not_stuck(one) for one in groups]
            stuck = sum(len(every) for one in groups for every in one)
            stuck -= sum(len(some) for one in kept for some in one)
            (between, *ends), (_, *over_all) = apart(*kept), apart(*groups)
            low, high = min(ends[0], over_all[0]), max(ends[1], over_all[1])
            slower = f"the error grows more slowly with T at h = {heads} than at h = 3"
            mark, (evidence,) = row_of(quote("bowls_slower"), f"where D heads learn, {words}, {slower}")
            assert says(evidence.split("apart by")[1], between, low, high, stuck)
            assert mark == ("?" if low < 0 < high else "✓" if between < 0 else "✗")


def test_bowls_grow_with_the_length_for_every_number_of_heads():
    rows = frame()[frame()["task"] == "bowls"]
    (_, (_, *slopes)), (_, minima) = (
        row_of(quote("slopes"), "bowls, D = 4, T ≤ 64"),
        row_of(quote("bowls_slopes"), "by minima"),
    )
    for heads, over_all, lowest in zip(range(1, 6), slopes, minima, strict=True):
        groups = [errors(rows, heads, T) for T in LENGTHS[:-1]]
        found = through_those_that_learn(LENGTHS[:-1], groups)
        assert says(over_all, *found)
        assert found[1] > 0, "it grows"
        by_minima = np.polyfit(np.log(LENGTHS[:-1]), np.log([group.min() for group in groups]), 1)[0]
        assert np.isclose(float(lowest), by_minima, atol=6e-3)


def deciding(start):
    """The mark and the evidence of the rival claim that begins so."""
    (line,) = [cells(line) for line in quote("rivals") if cells(line)[1].startswith(start)]
    return line[0], line[2]


def test_no_head_size_makes_up_for_a_head():
    rows = frame()
    four = [errors_ for size in (2, 4, 8, 16, 32) for errors_ in sized(rows, 4, size)]
    three = [errors_ for size in (2, 4, 8, 16, 32) for errors_ in sized(rows, 3, size)]
    mark, evidence = deciding("no head size makes up for a head")
    least, most = re.fullmatch(r"([\d.e-]+) \(n = \d+\) against ([\d.e-]+) \(n = \d+\)", evidence).groups()
    same([float(least), float(most)], [min(three), max(four)], rel=0.05)
    assert mark == "✓" and min(three) > max(four)


def sized(rows, heads, size):
    """The members of four seeds and the two larger rates at T = 32, with heads of this size."""
    options = json.dumps({**ORTHONORMAL, "dimension": 4}, sort_keys=True)
    chosen = (rows["options"] == options) & (rows["head_dim"] == size) & (rows["hidden"] == 32)
    chosen &= (rows["steps"] == 30_000) & (rows["sequences"] == 8_000) & (rows["layers"] == 1)
    chosen &= (
        ~rows["norm"] & (rows["positions"] == "none") & (rows["seed"] < 4) & (rows["learning_rate"] > 5e-3)
    )
    return errors(rows[chosen], heads, 32)


def test_one_wide_head_stays_far_above():
    rows = frame()[frame()["positions"] == "one_hot"]
    for length, sizes in ((8, (32, 64)), (16, (64,))):
        wide = [errors(rows[rows["head_dim"] == size], 1, length) for size in sizes]
        several = errors(rows, 4, length)
        mark, evidence = deciding(f"T = {length}: trained with one hidden layer in the readout")
        said = re.search(r"lowest seed of n ≥ T·d ([\d.e-]+), highest of D heads ([\d.e-]+)", evidence)
        same([float(one) for one in said.groups()], [np.min(wide), several.max()], rel=0.05)
        assert mark == "✗" and np.min(wide) > 10 * several.max()


def test_polished_members_are_shown_and_used_nowhere():
    rows = rows_of("reproduce")
    steps = np.array([json.loads(spec)["training"]["polish_steps"] for spec in rows["spec"]])
    said = sorted(float(cells(line)[-1].split("→")[-1]) for line in quote("polished")[2:])
    same(said, sorted(rows["test_error"][steps > 0]), rel=0.05)
    assert "polish" not in page("paper-cells")

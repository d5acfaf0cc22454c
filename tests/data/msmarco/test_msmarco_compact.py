import zipfile
from collections.abc import Callable

import numpy as np
import pytest
from tiny_msmarco import compact_arrays

from headcount.data.msmarco.loading import load
from headcount.data.msmarco.source import Options
from headcount.data.msmarco.texts import texts_of
from headcount.errors import InvalidInput

Arrays = dict[str, np.ndarray]


def written(folder, arrays: Arrays):
    np.savez_compressed(folder / "msmarco_tokens.npz", **arrays)
    return folder


def options(**changes) -> Options:
    return Options(**({"length": 6} | changes))


@pytest.mark.parametrize(("validation", "place"), [("heldout", 1), ("dev", 2)])
def test_lists_are_as_the_file_has_them(tmp_path, validation, place):
    arrays = compact_arrays()
    made = load(written(tmp_path, arrays), options(validation=validation))
    assert made.left_out == 0
    for lists, split in ((made.train, 0), (made.validation, place)):
        rows = arrays["split"][arrays["list_q"]] == split
        cand, label, bm25 = (arrays[name][rows] for name in ("cand", "label", "bm25"))
        np.testing.assert_array_equal(lists.query, arrays["list_q"][rows])
        np.testing.assert_array_equal(lists.positive, cand[np.arange(12), label])
        for row in range(12):
            others = [column for column in range(6) if column != label[row]]
            ordered = sorted(others, key=lambda column, row=row: -bm25[row, column])
            assert lists.negatives[row].tolist() == cand[row, ordered].tolist()
    number = int(made.train.positive[3])
    start, end = arrays["p_off"][number : number + 2]
    np.testing.assert_array_equal(made.passages[number], arrays["p_tok"][start:end])


def test_a_seed_and_a_number_of_queries_decide(tmp_path):
    folder = written(tmp_path, compact_arrays())
    few = options(train_queries=7, validation_queries=5, length=4)
    one, again, other = (load(folder, each) for each in (few, few, options(seed=3)))
    assert (len(one.train), len(one.validation), one.train.length) == (7, 5, 4)
    assert one.fingerprint == again.fingerprint
    assert other.fingerprint != load(folder, options()).fingerprint


def test_training_lists_with_a_text_of_validation_are_left_out(tmp_path):
    arrays = compact_arrays()
    texts = [
        arrays["p_tok"][start:end] for start, end in zip(arrays["p_off"], arrays["p_off"][1:], strict=False)
    ]
    in_train, in_validation = arrays["cand"][0, 0], arrays["cand"][12, 0]
    texts[in_validation] = texts[in_train]
    same = texts_of(texts)
    asked = texts_of(
        [arrays["q_tok"][4 * number : 4 * number + 4] for number in (*range(20), 3, *range(21, 38))]
    )
    arrays |= {"p_tok": same.tokens, "p_off": same.offsets, "q_tok": asked.tokens}
    made = load(written(tmp_path, arrays), options())
    having = {row for row in range(12) if in_train in arrays["cand"][row]} | {1}
    assert made.left_out == len(having) == 12 - len(made.train)


def change(name: str, value: Callable[[np.ndarray], object]) -> Callable[[Arrays], None]:
    def spoil(arrays: Arrays) -> None:
        arrays[name] = np.asarray(value(arrays[name]))

    return spoil


def spoilt_at(place: object, value: float) -> Callable[[np.ndarray], np.ndarray]:
    def changed(old: np.ndarray) -> np.ndarray:
        new = old.copy()
        new[place] = value
        return new

    return changed


def empty(arrays: Arrays) -> None:
    arrays |= {name: arrays[name][:, :0] for name in ("cand", "bm25")}


SPOILT: dict[str, tuple[Callable[[Arrays], object], str]] = {
    "an array missing": (lambda arrays: arrays.pop("bm25"), "has no 'bm25'"),
    "a flat array": (change("cand", np.ravel), r"cand has the shape \(216,\)"),
    "offsets that fall": (change("p_off", lambda old: old[::-1]), "p_off does not rise from 0"),
    "offsets too short": (change("q_off", lambda old: old[:-1]), "q_tok has 152 tokens; expected is 148"),
    "labels missing": (change("label", lambda old: old[1:]), "label has 35 rows"),
    "scores of another shape": (change("bm25", lambda old: old[:, 1:]), r"bm25 has the shape \(36, 5\)"),
    "splits missing": (change("split", lambda old: old[1:]), "split has 37 rows"),
    "a query that is not there": (change("list_q", lambda old: old + 9), "list_q names a query"),
    "no positive": (change("label", lambda old: old + 200), "has its positive at place 20"),
    "a passage that is not there": (change("cand", lambda old: old + 41), "a candidate that is no passage"),
    "offsets of text": (change("p_off", lambda old: old.astype(str)), "p_off is of type <U"),
    "queries as floats": (change("list_q", lambda old: old.astype(float)), "list_q is of type float64"),
    "candidates as floats": (change("cand", lambda old: old + 0.5), "cand is of type float64"),
    "labels as truth values": (change("label", lambda old: old > 2), "label is of type bool"),
    "tokens as floats": (change("q_tok", lambda old: old.astype(np.float32)), "q_tok is of type float32"),
    "tokens below 0": (change("p_tok", lambda old: -old.astype(int)), "p_tok has the token -"),
    "scores of text": (change("bm25", lambda old: old.astype(str)), "bm25 is of type <U"),
    "a score that is none": (change("bm25", spoilt_at((20, 2), np.nan)), "bm25 holds more than finite"),
    "a score without end": (change("bm25", spoilt_at((0, 0), -np.inf)), "bm25 holds more than finite"),
    "splits as floats": (change("split", lambda old: old.astype(float)), "split is of type float64"),
    "a split without a name": (change("split", spoilt_at(7, 9)), "split has 9; expected is 0 to 3"),
    "a split below 0": (change("split", lambda old: old.astype(int) - 1), "split has -1; expected is 0 to 3"),
    "names as numbers": (change("split_names", lambda old: np.arange(4)), "split_names is of type int64"),
    "a candidate twice": (change("cand", lambda old: old[:, [0, 1, 2, 3, 4, 4]]), "query 2 has a candidate"),
    "no candidates": (empty, "its lists have 0 candidates each, too few for length = 6"),
    "a split without lists": (change("split", lambda old: 0 * old), "the split 'heldout' has no lists"),
    "every text in both splits": (
        change("cand", lambda old: old % 20),
        "each of its 12 training lists has a",
    ),
    "one text throughout": (
        change("p_tok", lambda old: 0 * old + 1),
        "each of its 12 training lists has a",
    ),
    "another split": (
        change("split_names", lambda old: np.array(["train", "x", "dev", "y"])),
        "no split 'heldout'",
    ),
}


@pytest.mark.parametrize("case", SPOILT)
def test_spoilt_files_are_refused_in_one_line(tmp_path, case):
    spoil, problem = SPOILT[case]
    arrays = compact_arrays()
    spoil(arrays)
    with pytest.raises(InvalidInput, match=problem) as refusal:
        load(written(tmp_path, arrays), options())
    message = str(refusal.value)
    assert "msmarco_tokens.npz: " in message
    assert message.endswith("https://microsoft.github.io/msmarco/")
    assert "\n" not in message


@pytest.mark.parametrize("train_first", [True, False])
def test_a_training_query_with_the_words_of_a_held_out_one_is_left_out(tmp_path, train_first):
    """Whichever of the two has the lower number."""
    arrays = compact_arrays()
    if not train_first:
        arrays["split"] = np.array([3, 3, *np.repeat([1, 0, 2], 12)], np.uint8)
    whole = load(written(tmp_path, arrays), options())
    query, held_out = whole.train.query[0], whole.validation.query[0]
    start, other = arrays["q_off"][query], arrays["q_off"][held_out]
    arrays["q_tok"][start : start + 4] = arrays["q_tok"][other : other + 4]
    less = load(written(tmp_path, arrays), options())
    assert (len(less.train), less.left_out) == (len(whole.train) - 1, whole.left_out + 1)
    assert query not in less.train.query and held_out in less.validation.query


def test_a_negative_with_the_words_of_its_positive_is_refused(tmp_path):
    arrays = compact_arrays()
    texts = [
        arrays["p_tok"][start:end] for start, end in zip(arrays["p_off"], arrays["p_off"][1:], strict=False)
    ]
    right = arrays["label"][0]
    texts[arrays["cand"][0, right - 1]] = texts[arrays["cand"][0, right]]
    same = texts_of(texts)
    arrays |= {"p_tok": same.tokens, "p_off": same.offsets}
    with pytest.raises(InvalidInput, match=r"msmarco_tokens.npz: train has a negative with.*https://"):
        load(written(tmp_path, arrays), options())


def test_what_is_no_array_is_refused(tmp_path):
    path = written(tmp_path, compact_arrays()) / "msmarco_tokens.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("p_tok", "some text")
    with pytest.raises(InvalidInput, match=r"npz: is damaged, cut short or no .npz;.*https://"):
        load(tmp_path, options())


def test_a_cut_file_and_other_negatives_are_refused(tmp_path):
    path = written(tmp_path, compact_arrays()) / "msmarco_tokens.npz"
    with pytest.raises(InvalidInput, match="not 'dense'"):
        load(tmp_path, options(negatives="dense"))
    with pytest.raises(InvalidInput, match=r"npz: its lists have 6 candidates each.*length = 64;.*https"):
        load(tmp_path)
    with pytest.raises(InvalidInput, match=r"npz: length = 7: allowed is a whole number from 2 to 6"):
        load(tmp_path, options()).at(7)
    path.write_bytes(path.read_bytes()[:900])
    with pytest.raises(InvalidInput, match="cut short"):
        load(tmp_path)

"""`headcount plan`: what it answers, what it loads, and how it refuses invalid input."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headcount.theory.capacity import capacity
from headcount.theory.plan import Family, plan
from headcount.theory.plan_answer import CONDITIONS

BERT = {
    **{"model_type": "bert", "num_hidden_layers": 12, "num_attention_heads": 12, "hidden_size": 768},
    **{"intermediate_size": 3072, "vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2},
}
HEAVY = ("jax", "numpy", "pandas", "pyarrow", "scipy", "equinox", "altair", "jinja2")


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("config.json").write_text(json.dumps(BERT))
    Path("sure").mkdir()
    Path("folder.html").mkdir()
    Path("sure", "estimate.json").write_text(json.dumps({"dimension": 4}))
    Path("unsure.json").write_text(json.dumps({"dimension": None}))
    Path("damaged.json").write_text('{"dimension": 4')
    Path("list.json").write_text("[4]")
    Path("words.json").write_text('{"dimension": "four"}')
    Path("headless.json").write_text(json.dumps({**BERT, "num_attention_heads": None}))
    Path("odd.json").write_text(json.dumps({**BERT, "model_type": "new", "hidden_size": 100}))
    Path("seen.json").write_text(json.dumps({**BERT, "sliding_window": True}))
    Path("kv.json").write_text(json.dumps({**BERT, "num_key_value_heads": 5}))


@pytest.fixture
def answered(called, capsys):
    def ask(line):
        assert called("plan", *line.split()) == 0
        printed = capsys.readouterr()
        assert not printed.err
        return printed.out

    return ask


def test_the_first_line_is_the_answer_and_all_fits_80_columns(answered):
    shown = answered("4")
    assert shown.startswith("D = 4 takes 4 heads in 1 layer, 2 heads in 2 layers or 1 head in 4 layers.\n")
    assert max(map(len, shown.splitlines())) <= 80
    words = " ".join(shown.split())
    assert "constructed: weights exist;" in words and "trained: the best of a few" in words
    (depth,) = plan(4, layers=[2])
    cost = depth.trained.costs
    assert re.search(r"2 × 2 × 1 × 64 +constructed +trained +\(2L - 1\)·h = 6 ", shown)
    assert re.search(rf"2 × 2 × 1 × 64 +{cost.parameters:,} +{cost.multiply_adds:,} +{cost.cache:,}\n", shown)


@pytest.mark.parametrize("line", ["4", "--dimension 4", "sure", "sure/estimate.json"])
def test_d_comes_as_a_number_an_option_an_estimate_or_its_folder(answered, line):
    found = json.loads(answered(f"{line} --json"))
    assert found["dimension"] == 4
    assert [shape["heads"] for shape in found["shapes"]] == [4, 2, 1, 1, 1]
    assert [shape["layers"] for shape in found["shapes"]] == [1, 2, 4, 6, 12]


def test_width_layers_and_decoder_are_kept_to(answered):
    found = json.loads(answered("6 --width 96 --layers 3 --decoder --json"))
    (shape,) = found["shapes"]
    (depth,) = plan(6, layers=[3], family=Family(width=96, decoder=True))
    assert shape.items() >= depth.trained.to_json().items()
    assert (shape["weights"], shape["training"]) == ("constructed", "guessed; trained with kv = 2")
    assert (shape["width"], shape["layers"]) == (96, 3)
    assert shape["heads"] * shape["head_dim"] == 96 and found["decoder"]
    assert "decoder, read at its last token" in " ".join(answered("6 --decoder").split()).lower()


def test_a_width_that_is_too_small_is_named_as_what_binds(answered):
    shown = answered("9 --width 6 --layers 3")  # six numbers do not hold nine
    assert shown.startswith("No such shape with 3 layers is known to reach D = 9.")
    assert "cannot" not in shown
    for line, most in (("9 --width 6", "D = 6 at most"), ("4 --width 3", "D = 3 at most")):
        said = f"The width binds: such shapes with E = {line[-1]} reach {most}, whatever their heads."
        assert said in " ".join(answered(line).split())
        assert "The width binds" not in answered(f"{most[4]} --width {line[-1]}")
    assert "E = 2 reach no D" in " ".join(answered("4 --width 2 --decoder").split())


def test_a_width_may_be_split_into_more_heads_than_d(answered):
    assert answered("9 --width 10").startswith("D = 9 takes 10 heads in 1 layer")


def test_the_conditions_of_the_weights_are_named_with_a_config_alone(answered):
    answered("--config config.json --page plan.html")
    notes = json.loads(answered("--config config.json --json"))["notes"]
    assert CONDITIONS in notes and CONDITIONS in Path("plan.html").read_text("utf-8")
    assert CONDITIONS in " ".join(answered("--config config.json").split())
    for part in ("ReLU", "without layer norm", "beta", "one-hot positions"):
        assert part in CONDITIONS
    assert CONDITIONS not in json.loads(answered("4 --json"))["notes"]


def test_where_key_value_numbers_decide_it_is_said_that_some_tasks_need_fewer(answered):
    said = "where F_0 is a sum, or the f_i depend on each other, fewer can be enough"
    assert said in " ".join(answered("4 --head-dim 2").split())
    assert said not in " ".join(answered("4").split())


def test_a_config_alone_is_told_what_it_reaches(answered):
    shown = answered("--config config.json")
    reach = capacity(layers=12, heads=12, head_dim=64, positions=True, feedforward=True, width=768)
    assert " ".join(shown.split()).startswith(
        f"Weights exist for D up to {reach.constructed}. No such shape was trained; the maps end at 4 layers "
        f"and D = 10. The same law would give {reach.trained}. shape "
    )
    assert "109,482,240 (BertModel of transformers)" in shown
    assert max(map(len, shown.splitlines())) <= 80
    found = json.loads(answered("--config . --json"))
    reached = found["reached"]
    assert (reached["constructed"], reached["trained"]) == (reach.constructed, reach.trained)
    assert (reached["law"], reached["behind_trained"]) == (reach.law, "guessed")
    assert found["model"]["parameters"] == 109_482_240 and found["shapes"] == []


@pytest.mark.parametrize(
    ("dimension", "start"),
    [
        (4, "D = 4 is within reach: "),
        (50, "D = 50 is within reach by construction only: "),
        (200, "D = 200 is beyond what is built here for this shape: "),
    ],
)
def test_a_config_and_d_are_told_whether_it_is_reached_and_by_how_few_heads(answered, dimension, start):
    Path("config.json").write_text(json.dumps({**BERT, "num_hidden_layers": 2}))
    found = json.loads(answered(f"{dimension} --config config.json --json"))
    assert found["sentence"].startswith(start) and "cannot" not in found["sentence"]
    assert all(max(shape["constructed"], shape["trained"]) >= dimension for shape in found["shapes"])
    assert {shape["layers"] for shape in found["shapes"]} <= {2}
    shown = answered(f"{dimension} --config config.json")
    assert max(map(len, shown.splitlines())) <= 80


IN_FULL = "tokens or less, not all; the numbers are for full attention in every layer"
NAMED = ("see a window of", "Tokens see", "the encoder alone")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"attention_window": [512] * 12}, f"In each of its 12 layers tokens see a window of 512 {IN_FULL}"),
        (
            {"local_attention": 128, "global_attn_every_n_layers": 3},
            f"In 8 of its 12 layers tokens see a window of 128 {IN_FULL}",
        ),
        (
            {"sliding_window": 512, "sliding_window_pattern": 6, "is_decoder": True},
            f"In 10 of its 12 layers tokens see a window of 512 {IN_FULL}",
        ),
        ({"sliding_window": 512, "is_decoder": True}, "Tokens see 512 tokens at most; D is what lies within"),
        ({"is_encoder_decoder": True}, "shape and numbers are those of the encoder alone"),
        ({}, ""),
    ],
)
def test_a_window_and_a_decoder_besides_are_named(answered, changes, said):
    Path("config.json").write_text(json.dumps({**BERT, **changes}))
    shown = " ".join(answered("--config config.json").split())
    assert said in shown
    assert [part for part in NAMED if part in shown] == [part for part in NAMED if part in said]


def test_with_windows_the_numbers_are_those_of_full_attention_and_a_guess(answered):
    small = {"model_type": "longformer", "num_hidden_layers": 2, "num_attention_heads": 1, "hidden_size": 64}
    Path("config.json").write_text(json.dumps({**small, "attention_window": [4, 4]}))
    shown = " ".join(answered("--config config.json").split())
    assert "With full attention the best trained models of such a shape reached D = 3; none was" in shown
    assert "trained (guessed) D = 3" in shown
    assert json.loads(answered("--config config.json --json"))["reached"]["behind_trained"] == "guessed"
    assert {shape["training"] for shape in json.loads(answered("2 --config . --json"))["shapes"]} == {
        "guessed"
    }
    Path("config.json").write_text(json.dumps(small))
    shown = " ".join(answered("--config config.json").split())
    assert "The best trained models of such a shape reached D = 3." in shown and "(guessed)" not in shown


def test_a_config_that_does_not_say_how_it_is_read_is_taken_for_an_encoder_aloud(answered):
    said = "This model is taken for an encoder; --decoder if it is not."
    Path("config.json").write_text(json.dumps({**BERT, "model_type": "new"}))
    for option, expected in (("", True), ("--decoder", False), ("--encoder", False)):
        assert (said in " ".join(answered(f"--config . {option}").split())) == expected
    for changes in ({}, {"architectures": ["NewForMaskedLM"]}, {"architectures": ["NewForCausalLM"]}):
        Path("config.json").write_text(
            json.dumps({**BERT, "model_type": (changes and "new") or "bert", **changes})
        )
        assert said not in " ".join(answered("--config .").split())


def test_parameters_that_are_not_counted_are_named(answered):
    for changes, said in (
        ({"model_type": "modernbert"}, "parameters of model_type 'modernbert' are not counted"),
        ({"model_type": None}, "others are not counted without a model_type"),
        ({"vocab_size": None}, "for others the config leaves out a number"),
    ):
        Path("config.json").write_text(json.dumps({**BERT, **changes}))
        shown = " ".join(answered("--config .").split())
        assert f"84,980,736 in attention and feed-forward; {said}" in shown and "None" not in shown


def test_encoders_without_absolute_positions_and_joint_keys_are_named(answered):
    taken = "The weights take absolute positions or none; this model has relative or rotary ones"
    for changes, said in (
        ({"model_type": "modernbert"}, f"{taken}. The weights are"),
        (
            {"rope_theta": 1e4, "num_hidden_layers": 2},
            f"{taken}. Without positions they exist for D up to 36.",
        ),
        ({"position_embedding_type": "relative_key"}, taken),
        ({"kv_lora_rank": 512}, "Its keys and values pass through 512 numbers per token"),
    ):
        Path("config.json").write_text(json.dumps({**BERT, **changes}))
        assert said in " ".join(answered("--config .").split())
    Path("config.json").write_text(json.dumps(BERT))
    assert taken not in " ".join(answered("--config .").split())


def test_a_decoder_and_an_encoder_are_told_apart(answered):
    read = {
        option: json.loads(answered(f"--config config.json {option} --json"))["reached"]["trained"]
        for option in ("", "--decoder", "--encoder")
    }
    assert read[""] == read["--encoder"] > read["--decoder"]


@pytest.mark.parametrize("line", ["4", "--config config.json", "4 --config config.json --json"])
def test_nothing_heavy_is_loaded_for_an_answer(line):
    code = f"import sys; from headcount.commands import cli; sys.argv[1:] = {['plan', *line.split()]!r}\n"
    code += "try: cli.main()\nexcept SystemExit as ended: assert not ended.code\n"
    code += f"print(sorted(set({HEAVY!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("line", "fragment"),
    [
        ("", "expected D, an estimate.json or --config"),
        ("0", "dimension: expected an integer from 1"),
        ("--dimension 0", "dimension: expected an integer from 1"),
        ("99999999999999999999", "dimension: expected an integer from 1"),
        ("4.5", "D: expected an integer >= 1 or an estimate.json, got '4.5'"),
        ("nowhere.json", "nowhere.json"),
        ("unsure.json", "could not tell D"),
        ("damaged.json", "damaged.json: expected a JSON file"),
        ("list.json", "list.json: expected a JSON object"),
        ("words.json", "words.json: dimension: expected an integer"),
        ("config.json", "--config"),
        ("4 --dimension 5", "--dimension: expected D once"),
        ("4 --layers 0", "layers: expected"),
        ("4 --width 0", "width: expected"),
        ("4 --head-dim 0", "head_dim: expected"),
        ("4 --page plan.pdf", "plan.pdf"),
        ("4 --page damaged.json/new/plan.html", "--page: expected a writable folder, got damaged.json/new"),
        ("4 --page folder.html", "--page: expected a file, got the folder folder.html"),
        ("0 --page new/plan.html", "dimension: expected an integer from 1"),
        ("--config nowhere.json --page new/plan.html", "nowhere.json: cannot be read"),
        ("--config nowhere.json", "nowhere.json: cannot be read"),
        ("--config damaged.json", "damaged.json: expected a JSON file"),
        ("--config list.json", "list.json: expected a JSON object"),
        ("--config headless.json", "expected num_attention_heads"),
        ("--config odd.json", "hidden_size: expected a multiple of num_attention_heads = 12"),
        (
            "--config seen.json",
            "seen.json: sliding_window: expected an integer from 1 to 1000000000, got True",
        ),
        ("--config kv.json", "num_key_value_heads: expected a divisor of the 12 heads"),
        ("--config config.json --width 96", "--width: expected no config"),
        ("--config config.json --layers 2", "--layers: expected a D to plan for"),
        ("4 --config config.json --head-dim 8", "--head-dim: expected no config"),
    ],
)
def test_invalid_input_is_one_line(called, capsys, line, fragment):
    before = sorted(Path().rglob("*"))
    assert called("plan", *line.split()) == 2
    printed = capsys.readouterr()
    assert not printed.out and printed.err.count("\n") == 1
    assert printed.err.startswith("headcount: error: ") and fragment in printed.err
    assert sorted(Path().rglob("*")) == before


@pytest.mark.parametrize(
    "line", ["4", "9 --width 6 --layers 1", "--config config.json", "900 --config config.json --decoder"]
)
def test_the_page_holds_the_answer_the_table_and_both_charts(answered, line):
    shown = answered(f"{line} --page new/plan.html")
    assert "Page: new/plan.html" in shown
    page = Path("new", "plan.html").read_text("utf-8")
    found = json.loads(answered(f"{line} --json"))
    assert found["sentence"] in page.replace("&#39;", "'")
    assert all(f"{shape['parameters']:,}" in page for shape in found["shapes"])
    assert 'id="chart-trained"' in page and 'id="chart-constructed"' in page
    assert "headcount plan " in page and not re.search(r'(src|href)="https?:', page)

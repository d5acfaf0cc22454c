"""`headcount inspect`: exit codes, what it prints and what it writes."""

import json

import numpy as np
import pytest
from small_models import batch_of, model_of

from headcount.trained.plan import read_plan

pytestmark = pytest.mark.torch

CODE = """
from planted import batches, planted
def model():
    return planted()[1]
def data():
    return batches(8)
def constant(outputs, batch):
    return outputs[:, 0, 0] * 0
def steady(outputs, batch):
    return outputs[:, 0, 0] > 0
def small():
    return batches(1)
"""


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "mine.py").write_text(CODE)
    return str(tmp_path / "mine.py")


def test_it_prints_the_answer_and_writes_the_plan(mine, tmp_path, called, capsys):
    out = tmp_path / "out"
    assert called("inspect", f"{mine}:model", f"{mine}:data", "--out", out, "--tolerance", 1e-4) == 0
    printed = capsys.readouterr()
    assert "12 of 24 heads can go" in printed.out and "layer 1, of 0 to 2" in printed.err
    assert max(map(len, printed.out.splitlines()[:-2])) <= 80
    assert read_plan(out).free.heads == 12
    page = (out / "report.html").read_text()
    assert "12 of 24 heads can go" in page and f"headcount shrink {out}/plan.json" in page
    assert f"headcount inspect {mine}:model {mine}:data --out {out} --tolerance 0.0001" in page
    assert called("report", out) == 0
    assert (out / "report.html").read_text() == page


def test_a_metric_drops(mine, tmp_path, called, capsys):
    metric = ["--metric", f"{mine}:steady", "--tolerance", 1, "--kv-heads", 2]
    assert called("inspect", f"{mine}:model", f"{mine}:data", *metric, "--out", tmp_path / "out") == 0
    printed = capsys.readouterr().out
    assert "metric drops by" in " ".join(printed.split()) and "Drop of the metric" in printed
    assert "rise" not in printed.lower()


def test_as_json_it_prints_nothing_else(mine, tmp_path, called, capsys):
    arguments = ["--out", tmp_path / "out", "--tolerance", 1e-4, "--json"]
    assert called("inspect", f"{mine}:model", f"{mine}:data", *arguments) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["free"]["heads"] == 12 and printed.err == ""
    assert json.loads((tmp_path / "out" / "inspect.json").read_text()) == json.loads(printed.out)


def test_a_folder_and_arrays(tmp_path, called, capsys):
    model_of("vit").float().save_pretrained(tmp_path / "vit")
    np.savez(tmp_path / "images.npz", pixel_values=batch_of("vit", samples=48)["pixel_values"].numpy())
    arguments = [tmp_path / "vit", tmp_path / "images.npz", "--out", tmp_path / "out"]
    assert called("inspect", *arguments) == 0
    assert read_plan(tmp_path / "out").measure == "KL divergence"
    assert "The uniform plan keeps" in capsys.readouterr().out


def test_distillation_is_reported_and_its_weights_lie_beside_the_plan(mine, tmp_path, called, capsys):
    out = tmp_path / "out"
    arguments = ["--out", out, "--tolerance", 0.5, "--distil", 0.2]
    assert called("inspect", f"{mine}:model", f"{mine}:data", *arguments) == 0
    assert "after distillation by" in " ".join(capsys.readouterr().out.split())
    assert read_plan(out).free.recovered is not None and (out / "recovered-free.safetensors").is_file()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{mine}:model", "{mine}:small"], "batches: expected at least 40 samples, got 16"),
        (["{mine}:model", "nothing.npz"], "DATA: nothing.npz: no such file"),
        (["nothing", "{mine}:data"], "MODEL: nothing: no such folder"),
        (["{mine}:model", "{mine}:data", "--tolerance", "-1"], "tolerance: expected a finite number > 0"),
        (["{mine}:model", "{mine}:data", "--metric", "{mine}:none"], "--metric: "),
        (
            ["{mine}:model", "{mine}:data", "--metric", "{mine}:constant", "--tolerance", "1"],
            "metric: expected values that depend on the model, got 0 for every sample",
        ),
        (["{mine}:model", "{mine}:data", "--distance", "far"], "distance: expected one of KL divergence"),
        (["{mine}:model", "{mine}:data", "--distil", "0"], "distil: expected a finite number > 0, got 0"),
        (["{mine}:model", "{mine}:data", "--device", "far"], "--device: far"),
        (["{mine}:model", "{mine}:data", "--out", "/dev/null/x"], "--out: expected a writable folder"),
    ],
)
def test_invalid_input_is_one_line_and_exit_code_2(
    arguments, said, mine, called, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert called("inspect", *(each.format(mine=mine) for each in arguments)) == 2
    printed = capsys.readouterr()
    (line,) = (each for each in printed.err.splitlines() if each.startswith("headcount: error: "))
    assert said in line and "Traceback" not in printed.err
    assert not (tmp_path / "inspect").exists()

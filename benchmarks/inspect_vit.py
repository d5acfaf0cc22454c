"""The whole way of one model: a vision transformer trained, inspected, shrunk, and loaded without headcount.

    python benchmarks/inspect_vit.py

Runs examples/vit.py and the commands of docs/inspect-vit.md as a user would. Each model then sees the images
of test.npz, which decided nothing, in a process that cannot import headcount. Writes
benchmarks/results/inspect-vit.json, and the page of the inspection to --page.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from recording import RESULTS, about, parser_of, write_json

from headcount.trained.gains import gains

EXAMPLE = Path(__file__).parent.parent / "examples" / "vit.py"
TOLERANCE = 0.03  # of the accuracy
COMMANDS = {
    "inspect": "inspect vit samples.npz --metric vit.py:right "
    f"--tolerance {TOLERANCE} --kv-heads 4 --kv-heads 2 --out inspect",
    "small": "shrink inspect/plan.json --out small",
    "smaller": "shrink inspect/plan.json --out smaller --as code",
    "shared": "shrink inspect/plan.json --out shared --solution grouped",
}
MODELS = ("small", "smaller", "shared")
# Which of the test images a model gets right.
CHECK = """
import sys

sys.modules["headcount"] = None  # an import of it fails

import json, numpy, torch, transformers

folder, own = sys.argv[1], sys.argv[2] == "own"
model = transformers.AutoModelForImageClassification.from_pretrained(folder, trust_remote_code=own)
test = numpy.load("test.npz")
with torch.no_grad():
    found = model.eval()(torch.from_numpy(test["pixel_values"])).logits.argmax(-1).numpy()
print(json.dumps((found == test["labels"]).tolist()))
"""


def run(folder: Path, *command: str) -> dict[str, Any]:
    """What a command prints in a terminal of 80 columns, and how long it takes."""
    began = time.perf_counter()
    own = {"COLUMNS": "80", "HF_MODULES_CACHE": str(folder / "modules")}
    done = subprocess.run(
        command, cwd=folder, env=os.environ | own, stdout=subprocess.PIPE, text=True, check=True
    )
    printed = [line.rstrip() for line in done.stdout.splitlines()]
    return {"printed": printed, "seconds": time.perf_counter() - began}


def headcount(folder: Path, arguments: str) -> dict[str, Any]:
    """A command of headcount, as it is typed, with what it prints."""
    installed = str(Path(sys.executable).with_name("headcount"))
    return {"command": f"headcount {arguments}", **run(folder, installed, *arguments.split())}


def rights(folder: Path, name: str) -> np.ndarray:
    """1 for each test image that a model gets right, where headcount is not to be had."""
    own = "own" if name in ("smaller", "shared") else "stock"
    done = run(folder, sys.executable, "-c", CHECK, name, own)
    return np.array(json.loads(done["printed"][-1]), float)


def compared(folder: Path, name: str, whole: np.ndarray) -> dict[str, Any]:
    """Accuracy of a smaller model, what it lost, in points and paired, and what it won."""
    right = rights(folder, name)
    lost = 100 * (whole - right)
    vit, small = (
        transformers.AutoModelForImageClassification.from_pretrained(folder / each, trust_remote_code=True)
        for each in ("vit", name)
    )
    batch = {"pixel_values": torch.from_numpy(np.load(folder / "samples.npz")["pixel_values"][:32])}
    return {
        "accuracy": float(right.mean()),
        "lost": float(lost.mean()),
        "half_width": float(1.96 * lost.std(ddof=1) / np.sqrt(len(lost))),
        "gains": gains(vit, small, [batch], seconds=20.0).to_json(),
    }


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--page", type=Path, help="where to copy the page to")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(EXAMPLE, folder)
        trained = {"command": "python vit.py", **run(folder, sys.executable, "vit.py")}
        steps = {step: headcount(folder, arguments) for step, arguments in COMMANDS.items()}
        found = json.loads((folder / "inspect" / "inspect.json").read_text())
        whole = rights(folder, "vit")
        models = {each: compared(folder, each, whole) for each in MODELS}
        if chosen.page is not None:
            shutil.copy(folder / "inspect" / "report.html", chosen.page)
    libraries = ("torch", "transformers", "scikit-learn")
    result = {
        "tolerance": TOLERANCE,
        "heads": found["heads"],
        "solutions": {each: found[each] for each in ("uniform", "free")},
        "steps": {"train": trained, **steps},
        "accuracy": float(whole.mean()),
        "test_images": len(whole),
        "models": models,
        **about(*(f"{each} {version(each)}" for each in libraries)),
    }
    write_json(RESULTS / "inspect-vit.json", result, indent=1)
    lost = {each: f"{model['lost']:.1f} ± {model['half_width']:.1f}" for each, model in models.items()}
    print(f"Accuracy {result['accuracy']:.1%}; points lost: {lost}")


if __name__ == "__main__":
    main()

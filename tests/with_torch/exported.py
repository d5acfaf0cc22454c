"""Shrunk models in folders, and what comes of loading them where headcount cannot be imported."""

import json
import os
import re
import subprocess
import sys

from small_models import MODELS, batch_of, model_of
from torch import nn

from headcount.trained.discovery import attention_blocks, fingerprint, prepared
from headcount.trained.export.inputs import Inputs
from headcount.trained.export.smaller import Smaller
from headcount.trained.fitting import rebuilt
from headcount.trained.plan import LayerShape, Plan, Solution
from headcount.trained.refitting import own_projections

UNEVEN = ((0, 1, 3), (2,), (1, 2))  # heads to keep, in turn

# Runs what each README says, in order, and reports what became of it.
READER = """
import json, sys, traceback
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1].split(","):
            raise ModuleNotFoundError(f"{name} is not to be had")
sys.meta_path.insert(0, Blocked())
import torch
torch.set_num_threads(1)
found = {}
for name, blocks in json.load(sys.stdin).items():
    try:
        names = {}
        for block in blocks:
            exec(block, names)
        found[name] = "fine"
    except Exception:
        found[name] = traceback.format_exc()
print(json.dumps(found))
"""


def whole_of(name, *, layers=None):
    """A tiny random model, ready to be shrunk."""
    model = model_of(name)
    if layers is not None:
        for module in list(model.modules()):
            if isinstance(module, nn.ModuleList) and len({type(each) for each in module}) == 1:
                del module[layers:]
    return prepared(model)


def plan_of(whole, *, uniform=(0, 1), free=UNEVEN):
    """One that keeps the same heads in all layers, and others in turn."""
    blocks = attention_blocks(whole)
    layers = tuple(LayerShape(each.name, each.heads, each.kv_heads, each.head_dim) for each in blocks)
    alike = Solution((tuple(uniform),) * len(blocks))
    uneven = Solution(tuple(tuple(free[place % len(free)]) for place in range(len(blocks))))
    return Plan(fingerprint(whole), layers, "squared distance", 0.02, alike, uneven)


def builder(whole, plan, inputs):
    """Models of that plan, with the projections that they had."""

    def build(name):
        kept = plan.solution(name).kept
        return Smaller(whole, rebuilt(whole, kept, own_projections(whole, kept)), inputs, name)

    return build


def inputs_of(name, whole):
    return Inputs.like(whole, batch_of(name))


def read_elsewhere(folders, *, without="headcount", cache=None):
    """What following every README gives, in one process that cannot import some packages."""
    blocks = {
        name: re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
        for name, folder in folders.items()
    }
    assert all(len(each) == 2 for each in blocks.values())
    parents = {folder.parent for folder in folders.values()}
    assert len(parents) <= 1, "a README names its folder from where that lies"
    done = subprocess.run(
        [sys.executable, "-c", READER, without],
        input=json.dumps(blocks),
        capture_output=True,
        text=True,
        cwd=next(iter(parents), None),
        env={**os.environ, "HF_MODULES_CACHE": str(cache or ""), "HF_HUB_OFFLINE": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


TRANSFORMERS = tuple(name for name in MODELS if name != "timm" and not name.startswith("torch"))

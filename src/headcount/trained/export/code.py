"""A folder that transformers loads with a few lines of code beside the weights, whatever the counts are."""

import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headcount.trained.attention import AttentionBlock
from headcount.trained.export.smaller import (
    CannotHold,
    Loading,
    Smaller,
    auto_classes,
    no_bars,
    transformers_class,
)
from headcount.trained.families.fused import GPT2
from headcount.trained.families.multihead import MULTIHEAD
from headcount.trained.families.t5 import T5
from headcount.trained.layout import UP, Layout
from headcount.trained.linear import is_transposed

MODULE = "modeling_shrunk"
COUNTS = "attention_head_counts"
VALUES_REPEATED = "Values are fewer than keys: each is repeated before attention, and cached as repeated."
LINEAR, TRANSPOSED = (
    (
        "from torch import nn",
        "nn.Linear(inputs or linear.in_features, outputs or linear.out_features, linear.bias is not None)",
    ),
    ("from transformers.pytorch_utils import Conv1D", "Conv1D(outputs or linear.nf, inputs or linear.nx)"),
)
# What the other layouts with an `adapt` of their own change.
ADAPTED = {
    GPT2.name: ("attention.split_size = joined",),
    T5.name: (
        "if isinstance(above, T5LayerSelfAttention):",
        "    attention.relative_attention_bias = nn.Embedding(config.relative_attention_num_buckets, heads)",
        "    attention.has_relative_attention_bias = True",
        "attention.register_forward_pre_hook(own_position_bias, with_kwargs=True)",
    ),
}
IMPORTED = {T5.name: ("from transformers.models.t5.modeling_t5 import T5LayerSelfAttention",)}
# The same as `few_values` has, in the words of one file.
REPEATED = '''

def repeated(linear, _, made):
    """Few values, each for several keys."""
    heads, head_dim = linear.value_numbers
    before, values = made.split([made.shape[-1] - heads * head_dim, heads * head_dim], dim=-1)
    often = values.unflatten(-1, (heads, head_dim)).repeat_interleave(linear.value_repeats, dim=-2)
    return torch.cat([before, often.flatten(-2)], dim=-1)
'''
BELOW = {
    T5.name: '''

def own_position_bias(attention, arguments, named):
    """Have a layer compute its bias: the one it is handed is for the heads of the first layer."""
    return arguments, {**named, "position_bias": None}
'''
}
ABOVE = '            above = self.get_submodule(path.rpartition(".")[0])\n'
FILE = '''"""{base} whose layers have the heads that config.json lists: [{listed}]."""

{imports}


class {name}({base}):
    def __init__(self, config, *arguments, **named):
        super().__init__(config, *arguments, **named)
        for path, ({listed_names}) in config.{counts}.items():
            attention = self.get_submodule(path)
{above}            joined, shared = heads * attention.{head_dim}, kv_heads * attention.{head_dim}
{lines}


def resized(linear, inputs=None, outputs=None):
    """A map of another size, for weights that are loaded next."""
    return {resized}
{below}'''


def write(smaller: Smaller, folder: Path) -> Loading:
    """Config, weights, and the class that they are loaded with."""
    made = transformers_class("code", smaller.whole)
    name, model = f"Shrunk{made.__name__}", smaller.model
    few_values = smaller.values_only
    source = source_of(made.__name__, name, smaller.blocks, grouped=smaller.grouped, few_values=few_values)
    (folder / f"{MODULE}.py").write_text(source, encoding="utf-8")
    with no_bars():
        model.save_pretrained(folder)
    autos = auto_classes(model) or ["AutoModel"]
    _extend_config(
        folder / "config.json",
        {
            "architectures": [name],
            "auto_map": dict.fromkeys(autos, f"{MODULE}.{name}"),
            COUNTS: {
                block.name: [block.heads, block.kv_heads, *([block.value_heads] if few_values else [])]
                for block in smaller.blocks
            },
        },
    )
    with no_bars():
        smaller.check("code", lambda: own_class(folder, name).from_pretrained(folder).eval())
    return Loading(
        (
            f"from transformers import {autos[0]}",
            "",
            f'model = {autos[0]}.from_pretrained("{{folder}}", trust_remote_code=True)',
        ),
        "transformers",
        (
            f"The folder's {MODULE}.py, which `trust_remote_code` runs, sets the counts of every layer.",
            *([VALUES_REPEATED] if few_values else []),
        ),
    )


def source_of(
    base: str, name: str, blocks: Sequence[AttentionBlock], *, grouped: bool, few_values: bool
) -> str:
    """A subclass of an architecture with attention of these counts, and key-value heads if it is grouped."""
    layout = _one_layout(blocks)
    linear, resized = TRANSPOSED if is_transposed(blocks[0].output) else LINEAR
    lines = _lines(layout, grouped=grouped, few_values=few_values)
    imports = [linear, f"from transformers import {base}", *IMPORTED.get(layout.name, ())]
    counts = ("heads", "key-value heads", *(("values",) if few_values else ()))
    return FILE.format(
        listed=", ".join(counts),
        listed_names=", ".join(each.replace("key-value", "kv").replace(" ", "_") for each in counts),
        base=base,
        name=name,
        imports="\n".join(["import torch", *imports] if few_values else imports),
        counts=COUNTS,
        head_dim=layout.head_dim,
        above=ABOVE if any("above" in line for line in lines) else "",
        lines="\n".join(" " * 12 + line for line in lines),
        resized=resized,
        below=BELOW.get(layout.name, "") + REPEATED * few_values,
    )


def _one_layout(blocks: Sequence[AttentionBlock]) -> Layout:
    layouts = {block.layout.name: block.layout for block in blocks}
    if len(layouts) > 1:
        raise CannotHold(f"code: expected attention of one kind, got {', '.join(layouts)}")
    (layout,) = layouts.values()
    if layout is MULTIHEAD or (layout.adapt is not None and layout.name not in ADAPTED):
        raise CannotHold(f"code: attention of {layout.name} is changed by more than its sizes")
    return layout


def _lines(layout: Layout, *, grouped: bool, few_values: bool) -> list[str]:
    """What changes in one attention module."""
    of_values = f"values * attention.{layout.head_dim}" if few_values else "shared"
    if len(layout.projections) == 1:
        size = f"shared + {of_values}" if few_values else "2 * shared"
        changes = [(layout.projections[0], f"outputs=joined + {size}")]
    else:
        sizes = "joined", "shared", of_values
        changes = [(path, f"outputs={size}") for path, size in zip(layout.projections, sizes, strict=True)]
    changes.append((layout.output, "inputs=joined"))
    places = [(_place(path), size) for path, size in changes]
    lines = [f"{place} = resized({place}, {size})" for place, size in places]
    if layout.heads is not None:
        lines.append(f"attention.{layout.heads} = heads")
    lines += [f"attention.{each} = joined" for each in layout.joined]
    if layout.groups is not None and grouped:
        lines.append(f"attention.{layout.groups} = heads // kv_heads")
    if few_values:
        last = _place(layout.projections[-1])
        lines += [
            f"{last}.value_numbers = values, attention.{layout.head_dim}",
            f"{last}.value_repeats = kv_heads // values",
            f"{last}.register_forward_hook(repeated)",
        ]
    return [*lines, *ADAPTED.get(layout.name, ())]


def _place(path: str) -> str:
    return f"above.{path.removeprefix(UP)}" if path.startswith(UP) else f"attention.{path}"


def _extend_config(path: Path, more: dict[str, Any]) -> None:
    config = json.loads(path.read_bytes())
    path.write_text(json.dumps({**config, **more}, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def own_class(folder: Path, name: str) -> Any:
    """The class from its file alone: transformers would copy the file to a cache first."""
    module_name = f"headcount_{MODULE}_{abs(hash(folder))}"
    spec = importlib.util.spec_from_file_location(module_name, folder / f"{MODULE}.py")
    assert spec is not None and spec.loader is not None, "a name that ends in .py has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # where transformers looks for the file of a class
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[module_name]
    return getattr(module, name)

"""The attention modules of a model, found by what they are made of."""

import copy
import hashlib
from collections.abc import Iterator, Sequence

import torch
from torch import nn

from headcount.errors import InvalidInput
from headcount.trained.attention import AttentionBlock
from headcount.trained.families.fused import FUSED
from headcount.trained.families.multihead import MULTIHEAD, SeparateAttention, separate_all, separated
from headcount.trained.families.separate import SEPARATE
from headcount.trained.families.t5 import T5, separate_biases
from headcount.trained.layout import REGISTERED, Layout, reached
from headcount.trained.linear import is_linear, shares_weights, weight_of
from headcount.validation import expected

MAX_LISTED = 8
# Of configs; the second is that of a decoder beside an encoder.
COUNTS = ("num_attention_heads", "decoder_attention_heads")


def prepared(model: nn.Module) -> nn.Module:
    """A copy of the model, ready to be read, with attention that can be tapped and changed layer by layer."""
    if not isinstance(model, nn.Module):
        raise expected("model", "a torch.nn.Module", model)
    quantised = getattr(getattr(model, "config", None), "quantization_config", None)
    if quantised is not None:
        raise InvalidInput("model: expected floating-point weights, got a quantised model")
    model = copy.deepcopy(model).eval()
    if isinstance(model, nn.MultiheadAttention):
        model = separated(model, "model")
    separate_all(model)
    blocks = attention_blocks(model)
    if any(block.layout is T5 for block in blocks):
        separate_biases(model)
    return model


def attention_blocks(model: nn.Module, *, whole: bool = True) -> tuple[AttentionBlock, ...]:
    """The attention of a model, in the order of its modules; one line where there is none that is usable.

    - `whole`: refuse a model that has lost heads before.
    """
    modules = dict(model.named_modules())
    blocks = []
    for name, module in modules.items():
        above = modules[name.rpartition(".")[0]] if name else None
        block = _block(name, module, above)
        if block is not None:
            blocks.append(block)
    if not blocks:
        raise InvalidInput(f"no attention found{_what_there_is(modules)}")
    _refuse_shared(blocks)
    for block in blocks if whole else ():
        _refuse_pruned(block)
    return tuple(blocks)


def same_blocks(blocks: Sequence[AttentionBlock], model: nn.Module) -> tuple[AttentionBlock, ...]:
    """These blocks in a copy of their model, whose counts may be others than its config says."""
    modules = dict(model.named_modules())
    found = []
    for block in blocks:
        attention, above = modules[block.name], modules.get(block.name.rpartition(".")[0])
        paths = (*block.layout.projections, block.layout.output)
        parts = [part for path in paths if (part := reached(attention, above, path)) is not None]
        found.append(AttentionBlock(block.name, block.layout, attention, tuple(parts[:-1]), parts[-1]))
    return tuple(found)


def _block(name: str, module: nn.Module, above: nn.Module | None) -> AttentionBlock | None:
    for layout in _layouts(module):
        if not isinstance(getattr(module, layout.head_dim, None), int):
            continue
        parts = [reached(module, above, path) for path in (*layout.projections, layout.output)]
        if any(part is None for part in parts):
            continue
        _refuse_quantised(name, [part for part in parts if part is not None])
        if not all(map(is_linear, parts)):
            continue
        *projections, output = (part for part in parts if part is not None)
        block = AttentionBlock(name, layout, module, tuple(projections), output)
        if _fits(block):
            _refuse_extra(block)
            return block
    return None


def _layouts(module: nn.Module) -> Iterator[Layout]:
    yield from REGISTERED
    yield from [MULTIHEAD] if isinstance(module, SeparateAttention) else [*SEPARATE, *FUSED, T5]


def _fits(block: AttentionBlock) -> bool:
    """Whether the shapes are those of heads side by side."""
    joined = weight_of(block.output).shape[1]
    rows = [weight_of(each).shape[0] for each in block.projections]
    if joined % block.head_dim or not joined:
        return False
    if len(rows) == 1:
        return (rows[0] - 2 * joined) * block.value_repeats == joined
    query, key, value = rows
    grouped = key == value * block.value_repeats and key % block.head_dim == 0 and key > 0
    return query == joined and grouped and joined % key == 0


def _refuse_quantised(name: str, parts: list[nn.Module]) -> None:
    for part in parts:
        weight = getattr(part, "weight", None)
        packed = callable(weight) or (isinstance(weight, torch.Tensor) and not weight.is_floating_point())
        if packed:
            raise InvalidInput(f"{name}: expected floating-point weights, got quantised ones")


def _refuse_extra(block: AttentionBlock) -> None:
    """Weights that go with the heads and that no layout accounts for would be left too large."""
    known = block.layout.names_within()
    extra = [
        name
        for name, weight in block.attention.named_parameters()
        if name.partition(".")[0] not in known and tuple(weight.shape) != (block.head_dim,)
    ]
    if extra:
        raise InvalidInput(
            f"{block.name}: expected weights of projections alone, got {extra[0]} too, and which of its "
            "numbers belong to which head is not known"
        )


def _refuse_pruned(block: AttentionBlock) -> None:
    config = getattr(block.attention, "config", None)
    said = [getattr(config, name, None) for name in COUNTS]
    counts = [count for count in said if isinstance(count, int)]
    if counts and block.heads not in counts:
        raise InvalidInput(
            f"{block.name}: expected {counts[0]} heads as its config says, got {block.heads}: heads were "
            "removed from this model before; give the whole one"
        )


def _refuse_shared(blocks: list[AttentionBlock]) -> None:
    owner: dict[int, str] = {}
    for block in blocks:
        for part in (*block.projections, block.output):
            other = owner.setdefault(id(part.weight), block.name)
            if other != block.name:
                raise shares_weights(block.name, other)


def _what_there_is(modules: dict[str, nn.Module]) -> str:
    """The linear layers of a model, so that a layout can be registered for them."""
    found = [f"{name} {tuple(weight_of(each).shape)}" for name, each in modules.items() if is_linear(each)]
    if not found:
        return ": the model has no linear layers"
    listed = ", ".join(found[:MAX_LISTED])
    more = f" and {len(found) - MAX_LISTED} more" if len(found) > MAX_LISTED else ""
    return f"; its linear layers are {listed}{more}: register_attention takes a layout of their names"


def fingerprint(model: nn.Module) -> str:
    """A hash of all weights: what a plan of one model is known by.

    >>> len(fingerprint(nn.Linear(1, 1)))
    16
    """
    digest = hashlib.sha256()
    for name, weight in sorted(model.named_parameters()):
        digest.update(f"{name} {weight.dtype} {tuple(weight.shape)}\n".encode())
        digest.update(weight.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy())
    return digest.hexdigest()[:16]

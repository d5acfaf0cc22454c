"""Inputs to try a model with: of the shapes and ranges that it takes, and nobody's data."""

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from headcount.errors import InvalidInput
from headcount.trained.batches import MASKS, PADDINGS, Batch, device_of, part_of, size_of, taken_by

INPUTS = "inputs.safetensors"
PREFIX = "input."
SAMPLES = 4
SEED = 0
MASK_NAMES = (*MASKS, *PADDINGS)
TEXT = 8  # tokens of a made-up text


@dataclass(frozen=True, eq=False)
class Inputs:
    """What a model is called with: model(*positional, **named)."""

    positional: tuple[Tensor, ...] = ()
    named: Mapping[str, Tensor] = field(default_factory=dict)

    @classmethod
    def like(cls, model: nn.Module, batch: Batch) -> "Inputs":
        """A few samples with the shapes, ranges and masks of those in a batch, drawn at random."""
        random = torch.Generator().manual_seed(SEED)
        size = size_of(batch)
        # A single sample would have torch.export take the number of samples for a constant.
        taken = taken_by(model, part_of(batch, [0, 0] if size == 1 else range(min(SAMPLES, size))))
        if isinstance(taken, Mapping):
            tensors = {name: each for name, each in taken.items() if isinstance(each, Tensor)}
            return cls(named={name: _drawn_like(each, random, name) for name, each in tensors.items()})
        parts = taken if isinstance(taken, tuple) else (taken,)
        return cls(tuple(_drawn_like(each, random) for each in parts if isinstance(each, Tensor)))

    @classmethod
    def made_up(cls, model: Any) -> "Inputs":
        """Texts or images for a model of transformers, by what it names as its main input."""
        random = torch.Generator().manual_seed(SEED)
        main: object = getattr(model, "main_input_name", None)
        config: Any = getattr(model, "config", None)
        if main == "input_ids":
            shape = SAMPLES, TEXT
            ids = torch.randint(config.get_text_config().vocab_size, shape, generator=random)
            named = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
            taken = inspect.signature(model.forward).parameters
            return cls(
                named={**named, **({"decoder_input_ids": ids} if "decoder_input_ids" in taken else {})}
            )
        if main == "pixel_values":
            size = config.image_size if isinstance(config.image_size, int) else config.image_size[0]
            dtype = next(model.parameters()).dtype
            images = torch.randn(SAMPLES, config.num_channels, size, size, generator=random)
            return cls(named={"pixel_values": images.to(dtype)})
        raise InvalidInput("expected samples that say what the model takes, got none: --data gives them")

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> "Inputs":
        """As `to_tensors` wrote them."""
        found = {name.removeprefix(PREFIX): each for name, each in tensors.items() if name.startswith(PREFIX)}
        places = sorted((name for name in found if name.isdecimal()), key=int)
        named = {name: each for name, each in found.items() if name not in places}
        return cls(tuple(found[place] for place in places), named)

    def to_tensors(self) -> dict[str, Tensor]:
        """By name, for a file.

        >>> sorted(Inputs((torch.zeros(1),), {"mask": torch.ones(1)}).to_tensors())
        ['input.0', 'input.mask']
        """
        return {f"{PREFIX}{name}": each.contiguous() for name, each in self.items()}

    def items(self) -> Iterator[tuple[str, Tensor]]:
        """Place or name, and tensor."""
        yield from ((str(place), each) for place, each in enumerate(self.positional))
        yield from self.named.items()

    def on(self, model: nn.Module) -> "Inputs":
        """Where the model lies."""
        device = device_of(model)
        return Inputs(
            tuple(each.to(device) for each in self.positional),
            {name: each.to(device) for name, each in self.named.items()},
        )


def read_inputs(folder: Path) -> Inputs | None:
    """Those in a folder of `headcount inspect`; None where there are none."""
    path = folder / INPUTS
    if not path.is_file():
        return None
    try:
        return Inputs.from_tensors(load_file(path))
    except (SafetensorError, OSError) as problem:
        raise InvalidInput(f"{path}: expected inputs in safetensors: {problem}") from None


def _drawn_like(given: Tensor, random: torch.Generator, name: str = "") -> Tensor:
    given = given.detach().cpu()
    if name in MASK_NAMES or given.dtype == torch.bool or not given.numel():
        return given.clone()
    if bool(((given == 0) | (given == 1)).all()):  # flags: noise would be none
        return torch.bernoulli(torch.full(given.shape, float(given.double().mean())), generator=random).to(
            given.dtype
        )
    if given.is_floating_point():
        noise = torch.randn(given.shape, generator=random, dtype=torch.float64)
        spread, mean = given.double().std(correction=0), given.double().mean()
        return (noise * spread + mean).to(given.dtype)
    low, high = int(given.min()), int(given.max())
    return torch.randint(low, high + 1, given.shape, generator=random, dtype=given.dtype)

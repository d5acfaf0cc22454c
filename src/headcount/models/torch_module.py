"""The same model class as a plain PyTorch module. Imported by `Transformer.to_torch` alone."""

import re
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from headcount.models.architecture import Architecture
from headcount.models.positions import position_table, visible


class Step(nn.Module):
    """1 above 0, else 0, with the straight-through derivative of models/network.py."""

    def forward(self, x: Tensor) -> Tensor:
        """Entry by entry."""
        slope = x.clamp(-1, 1)
        return (x > 0).to(x.dtype) + (slope - slope.detach())


ACTIVATIONS = {
    **{"relu": nn.ReLU(), "gelu": nn.GELU(approximate="tanh"), "tanh": nn.Tanh(), "silu": nn.SiLU()},
    "step": Step(),
}


class TorchAttention(nn.Module):
    """W_O · concat(heads): every reader attends to every token that it sees."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        width, joined = architecture.width, architecture.heads * architecture.head_dim
        grouped = architecture.key_value_heads * architecture.head_dim
        self.head_dim, self.scale = architecture.head_dim, architecture.logit_scale
        self.group_size = architecture.group_size
        self.query = nn.Linear(width, joined, bias=False)
        self.key = nn.Linear(width, grouped, bias=False)
        self.value = nn.Linear(width, grouped, bias=False)
        self.output = nn.Linear(joined, width, bias=False)

    def forward(self, readers: Tensor, tokens: Tensor, seen: Tensor | None) -> Tensor:
        """Readers [batch, reader, width] attend to tokens [batch, token, width].

        `seen` [batch, reader, token] marks the tokens that a reader sees; an axis of size 1 stands for all.
        """
        query = self._split(self.query(readers))
        key, value = (
            self._split(project(tokens)).repeat_interleave(self.group_size, dim=1)
            for project in (self.key, self.value)
        )
        mask = None if seen is None else seen[:, None]
        read = functional.scaled_dot_product_attention(query, key, value, mask, scale=self.scale)
        return self.output(read.transpose(1, 2).flatten(2))

    def _split(self, features: Tensor) -> Tensor:
        return features.unflatten(2, (-1, self.head_dim)).transpose(1, 2)


class TorchTokenLayer(nn.Module):
    """Tokens attend to tokens; then, if there is one, a feed-forward network of each token."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.architecture = architecture
        self.attention = TorchAttention(architecture)
        width, hidden = architecture.width, architecture.feedforward
        sizes, activation = (width, hidden, width), architecture.readout_activation
        self.feedforward = network(sizes, activation) if hidden else None

    def forward(self, tokens: Tensor, class_token: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Tokens and class token after this layer."""
        seen = normalised(tokens, self.architecture)
        attended = self.attention(seen, seen, seen_by_tokens(tokens, mask, self.architecture))
        after = self._feed(tokens + attended if self.architecture.residual else attended)
        if self.architecture.class_reads == "last" or self.architecture.reader == "last token":
            return after, class_token
        everything = None if mask is None else mask[:, None]
        read = self.attention(normalised(class_token, self.architecture), seen, everything)
        return after, self._feed(class_token + read)

    def _feed(self, tokens: Tensor) -> Tensor:
        if self.feedforward is None:
            return tokens
        moved = self.feedforward(normalised(tokens, self.architecture))
        return tokens + moved if self.architecture.residual else moved


class TorchTransformer(nn.Module):
    """`headcount.Transformer` over a batch of sequences, in the words of `torch.nn`."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.architecture = architecture
        self.encoder = network(architecture.encoder_sizes, architecture.encoder_activation)
        self.token_layers = nn.ModuleList(
            TorchTokenLayer(architecture) for _ in range(architecture.layers - 1)
        )
        self.class_token = nn.Parameter(torch.randn(architecture.width))
        self.attention = TorchAttention(architecture)
        self.readout = network(architecture.readout_sizes, architecture.readout_activation)

    @classmethod
    def of(cls, architecture: Architecture, leaves: Mapping[str, np.ndarray]) -> "TorchTransformer":
        """The module with these parameters, in their own type; nothing is drawn."""
        with torch.device("meta"):
            module = cls(architecture)
        shapes = {name: tensor.shape for name, tensor in module.state_dict().items()}
        named = {torch_name(name): leaf for name, leaf in leaves.items()}
        state = {name: torch.tensor(leaf).reshape(shapes[name]) for name, leaf in named.items()}
        module.load_state_dict(state, assign=True)
        return module

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Outputs [batch, output] for x [batch, token, token_dim]; mask [batch, token], False hides."""
        tokens = self.encoder(self._with_positions(x))
        if self.architecture.bounded:
            tokens = tokens / tokens.norm(dim=2, keepdim=True).clamp(min=1)
        class_token = self.class_token.expand(len(x), 1, -1)
        for layer in self.token_layers:
            tokens, class_token = layer(tokens, class_token, mask)
        reader, seen = self._reader(tokens, class_token, mask)
        asking = normalised(reader, self.architecture) if self.architecture.reads_every_layer else reader
        read = self.attention(asking, normalised(tokens, self.architecture), seen)
        return self.readout((reader + read)[:, 0])

    def _reader(
        self, tokens: Tensor, class_token: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """What F reads before the last attention [batch, 1, width], and what that sees [batch, 1, token]."""
        if self.architecture.reader == "class token":
            return class_token, None if mask is None else mask[:, None]
        if mask is None:
            last = torch.full((len(tokens),), tokens.shape[1] - 1, device=tokens.device)
        else:
            last = tokens.shape[1] - 1 - mask.flip(1).int().argmax(dim=1)
        seen = seen_by_tokens(tokens, mask, self.architecture)
        rows = torch.arange(len(tokens), device=tokens.device)
        if seen is not None and seen.shape[1] > 1:
            seen = seen.expand(len(tokens), -1, -1)[rows, last][:, None]
        return tokens[rows, last][:, None], seen

    def _with_positions(self, x: Tensor) -> Tensor:
        if self.architecture.positions == "none":
            return x
        table = torch.as_tensor(position_table(x.shape[1], self.architecture), dtype=x.dtype, device=x.device)
        return torch.cat([x, table.expand(len(x), -1, -1)], dim=2)


def network(sizes: tuple[int, ...], activation: str) -> nn.Sequential:
    """Linear layers with the activation between them."""
    first, *rest = (nn.Linear(inputs, outputs) for inputs, outputs in pairwise(sizes))
    return nn.Sequential(first, *(part for layer in rest for part in (ACTIVATIONS[activation], layer)))


def seen_by_tokens(tokens: Tensor, mask: Tensor | None, architecture: Architecture) -> Tensor | None:
    """What tokens see of each other; a token that the mask hides sees itself, so that no row is empty."""
    table = visible(tokens.shape[1], architecture)
    if table is None:
        return None if mask is None else mask[:, None]
    seen = torch.as_tensor(table, device=tokens.device)[None]
    if mask is None:
        return seen
    return (seen & mask[:, None]) | torch.eye(tokens.shape[1], dtype=torch.bool, device=tokens.device)


def normalised(tokens: Tensor, architecture: Architecture) -> Tensor:
    """Layer norm over the width, without gains; nothing where the architecture has none."""
    return functional.layer_norm(tokens, tokens.shape[-1:], eps=1e-5) if architecture.layer_norm else tokens


def torch_name(name: str) -> str:
    """The name that a parameter has in the module: `encoder.weights.1` is that of layer 2 of a Sequential."""
    if found := re.fullmatch(r"(.+)\.(weight|bias)e?s\.(\d+)", name):
        return f"{found[1]}.{2 * int(found[3])}.{found[2]}"
    return name if name == "class_token" else f"{name}.weight"

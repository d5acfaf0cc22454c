"""What one would write in PyTorch: see peers.py."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

TOKEN_DIM, HIDDEN, HEADS, HEAD_DIM, BATCH, SAMPLES = 4, 32, 4, 8, 256, 8_000
RATE, CLIP = 3e-3, 1.0


class Model(nn.Module):
    """Tokens that attend to tokens in all layers but the last, which a class token reads."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        width = HEADS * HEAD_DIM
        self.encoder = nn.Sequential(nn.Linear(TOKEN_DIM, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, width))
        self.class_token = nn.Parameter(torch.randn(width))
        self.layers = nn.ModuleList(
            nn.MultiheadAttention(width, HEADS, bias=False, batch_first=True) for _ in range(layers)
        )
        self.readout = nn.Sequential(
            nn.Linear(width, HIDDEN), nn.GELU(approximate="tanh"), nn.Linear(HIDDEN, 1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = self.encoder(x)
        *between, last = self.layers
        for layer in between:
            tokens = layer(tokens, tokens, tokens, need_weights=False)[0]
        query = self.class_token.expand(len(x), 1, -1)
        read, _ = last(query, tokens, tokens, need_weights=False)
        return self.readout((query + read)[:, 0])


def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def data(length: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    x = torch.randn(SAMPLES, length, TOKEN_DIM, device=device())
    return x, x.amax(dim=1).sum(dim=1, keepdim=True)


def finished(run: Callable[[], Any]) -> Callable[[int], int]:
    def steps(count: int) -> int:
        for _ in range(count):
            run()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return count

    return steps


def one_after_another(size: Any, *, compiled: bool = False) -> Callable[[int], int]:
    """The loop that most people write."""
    x, y = data(size.length)
    plain = Model(size.layers).to(device())
    model: Any = torch.compile(plain) if compiled else plain
    optimizer = torch.optim.AdamW(plain.parameters(), lr=RATE)

    def step() -> None:
        chosen = torch.randint(SAMPLES, (BATCH,), device=device())
        loss = ((model(x[chosen]) - y[chosen]) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(plain.parameters(), CLIP)
        optimizer.step()

    return finished(step)


def stacked(size: Any, *, compiled: bool = False) -> Callable[[int], int]:
    """Parameters of all members in one tensor each, as the tutorial on model ensembling shows."""
    x, y = data(size.length)
    models = [Model(size.layers).to(device()) for _ in range(size.members)]
    parameters, _ = torch.func.stack_module_state(models)
    leaves = [leaf.detach().requires_grad_() for leaf in parameters.values()]
    names, base = list(parameters), Model(size.layers).to("meta")
    optimizer = torch.optim.AdamW(leaves, lr=RATE)

    def loss_of(values: tuple[torch.Tensor, ...], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        predicted = torch.func.functional_call(base, dict(zip(names, values, strict=True)), (x,))
        return ((predicted - y) ** 2).mean()

    def losses(values: tuple[torch.Tensor, ...], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.func.vmap(loss_of)(values, x, y).sum()

    total: Any = torch.compile(losses) if compiled else losses

    def step() -> None:
        chosen = torch.randint(SAMPLES, (size.members, BATCH), device=device())
        optimizer.zero_grad()
        total(tuple(leaves), x[chosen], y[chosen]).backward()
        gradients = [leaf.grad for leaf in leaves if leaf.grad is not None]
        norms = torch.stack([part.flatten(1).square().sum(1) for part in gradients]).sum(0).sqrt()
        shrink = (CLIP / norms.clamp(min=CLIP)).unflatten(0, (-1, 1))
        for part in gradients:
            part.mul_(shrink.view(-1, *[1] * (part.ndim - 1)))
        optimizer.step()

    return finished(step)

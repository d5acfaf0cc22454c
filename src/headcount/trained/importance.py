"""How much each head matters to first order: |z · ∂L/∂z| (Michel et al., 2019), without labels; and how much
each direction does in which a layer writes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from headcount.trained.attention import AttentionBlock
from headcount.trained.batches import Batch, called, size_of
from headcount.trained.effect import Answer, answer_of
from headcount.trained.refit import Matrix
from headcount.trained.selection import Scores

Gradients = Float[np.ndarray, "sample head"]


def importance_of(gradients: Gradients) -> Scores:
    """Michel et al. (2019): the mean of the sizes.

    >>> importance_of(np.array([[1.0, -2.0], [-3.0, 0.0]]))
    array([2., 1.])
    """
    sizes: Scores = np.abs(gradients).mean(axis=0)
    return sizes


def fisher_of(gradients: Gradients) -> Scores:
    """The diagonal of the Fisher information of the gates (Kwon et al., 2022): the mean of the squares.

    >>> fisher_of(np.array([[1.0, -2.0], [-3.0, 0.0]]))
    array([5., 2.])
    """
    squares: Scores = (gradients**2).mean(axis=0)
    return squares


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """How the outputs of a model depend on one layer.

    - `gates`: Σ z · ∂L/∂z by sample and head: ∂L by a factor on the head.
    - `metric`: the mean of gᵀg, g = ∂L/∂o by what the layer writes at a token: an error e there changes what
      the model puts out by e M eᵀ in the mean (Gauss and Newton's approximation).
    """

    gates: Gradients
    metric: Matrix


def sensitivities(
    model: nn.Module, blocks: Sequence[AttentionBlock], batches: Sequence[Batch], *, seed: int = 0
) -> list[Sensitivity] | None:
    """Of every layer; one pass there and back. None without gradients.

    At the whole model, a distance from it is flat. So L is the log probability of a class that is drawn as
    the model predicts it, or an embedding along a direction drawn at random.
    """
    random = torch.Generator().manual_seed(seed)
    gates: list[list[np.ndarray]] = [[] for _ in blocks]
    metrics: list[Any] = [0.0] * len(blocks)
    for batch in batches:
        read: dict[int, Tensor] = {}
        written: dict[int, Tensor] = {}
        hooks = [
            block.output.register_forward_pre_hook(partial(_note, read, layer))
            for layer, block in enumerate(blocks)
        ] + [
            block.output.register_forward_hook(partial(_note_written, written, layer))
            for layer, block in enumerate(blocks)
        ]
        layers = range(len(blocks))
        try:
            with torch.enable_grad():
                goal = _goal(answer_of(called(model, batch), batch), random)
                heads = [read[layer] for layer in layers]
                found = torch.autograd.grad(goal, [*heads, *(written[layer] for layer in layers)])
        except RuntimeError:  # something in the model is not differentiable
            return None
        finally:
            for hook in hooks:
                hook.remove()
        for layer, block in enumerate(blocks):
            gates[layer].append(_by_head(block, heads[layer], found[layer]))
            metrics[layer] = metrics[layer] + _products(found[len(blocks) + layer], size_of(batch))
    total = sum(map(size_of, batches))
    return [
        Sensitivity(np.concatenate(each), metric / total) for each, metric in zip(gates, metrics, strict=True)
    ]


def _by_head(block: AttentionBlock, heads: Tensor, gradient: Tensor) -> Gradients:
    products = (heads * gradient).detach().double()
    found = products.reshape(len(heads), -1, block.heads, block.head_dim).sum(dim=(1, 3))
    return np.asarray(found.cpu())


def _products(gradient: Tensor, samples: int) -> Matrix:
    """Σ gᵀg over samples, each times its tokens: long ones spread L over more of them."""
    rows = gradient.detach().double().flatten(0, -2)
    return np.asarray((rows.T @ rows).cpu()) * (len(rows) // samples)


def _note(found: dict[int, Tensor], layer: int, _: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    heads = inputs[0] if inputs[0].requires_grad else inputs[0].detach().requires_grad_()
    found[layer] = heads
    return (heads, *inputs[1:])


def _note_written(found: dict[int, Tensor], layer: int, _: nn.Module, __: Any, made: Tensor) -> None:
    found[layer] = made


def _goal(answer: Answer, random: torch.Generator) -> Tensor:
    """The sum over samples of L."""
    values = answer.values.double()
    if not answer.logits:
        unit = torch.nn.functional.normalize(values, dim=-1)
        direction = torch.randn(unit.shape[-1], generator=random, dtype=torch.float64).to(unit.device)
        return (unit @ direction).sum()
    if values.shape[-1] == 1:
        return values.sum()
    rows = values.flatten(0, -2)
    chances = torch.softmax(rows.detach().cpu(), dim=-1)
    drawn = torch.multinomial(chances, 1, generator=random).to(rows.device)
    return torch.log_softmax(rows, dim=-1).gather(-1, drawn).sum()

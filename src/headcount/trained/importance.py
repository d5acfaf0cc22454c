"""How much each head matters to first order: |z · ∂L/∂z| (Michel et al., 2019), without labels."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from headcount.trained.attention import AttentionBlock
from headcount.trained.batches import Batch, called
from headcount.trained.effect import Answer, answer_of
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


def gate_gradients(
    model: nn.Module, blocks: Sequence[AttentionBlock], batches: Sequence[Batch], *, seed: int = 0
) -> list[Gradients] | None:
    """Of every layer, Σ z · ∂L/∂z by sample and head: ∂L by a factor on the head. None without gradients.

    At the whole model, a distance from it is flat. So L is the log probability of a class that is drawn as
    the model predicts it, or an embedding along a direction drawn at random.
    """
    random = torch.Generator().manual_seed(seed)
    parts: list[list[np.ndarray]] = [[] for _ in blocks]
    for batch in batches:
        found: dict[int, Tensor] = {}
        hooks = [
            block.output.register_forward_pre_hook(partial(_note, found, layer))
            for layer, block in enumerate(blocks)
        ]
        try:
            with torch.enable_grad():
                goal = _goal(answer_of(called(model, batch), batch), random)
                inputs = [found[layer] for layer in range(len(blocks))]
                gradients = torch.autograd.grad(goal, inputs)
        except RuntimeError:  # something in the model is not differentiable
            return None
        finally:
            for hook in hooks:
                hook.remove()
        for part, block, heads, gradient in zip(parts, blocks, inputs, gradients, strict=True):
            products = (
                (heads * gradient).detach().double().reshape(len(heads), -1, block.heads, block.head_dim)
            )
            part.append(np.asarray(products.sum(dim=(1, 3)).cpu()))
    return [np.concatenate(part) for part in parts]


def _note(found: dict[int, Tensor], layer: int, _: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    heads = inputs[0] if inputs[0].requires_grad else inputs[0].detach().requires_grad_()
    found[layer] = heads
    return (heads, *inputs[1:])


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

"""MiniLM with fewer heads: texts at every layer, projections from the bottom up, and heads' scores."""

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import permutations
from operator import add
from typing import Any

import numpy as np
import torch
from minilm import HEAD_DIM, HEADS, LAYERS, Lists, Texts, embed, embedded, in_few_shapes, padded
from torch.nn import functional

from headcount.trained.allocation import filled_in, shares, without_noise
from headcount.trained.arrays import root_of, single_threaded
from headcount.trained.refit import Moments, Projection, chosen_ridge, columns_of, refitted
from headcount.trained.selection import eliminated, exchanged, magnitudes

FOLDS = 4
RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
SELECTION_RIDGE = 1e-2
MEASURED = (1, 2, 4, 6, 9)  # heads left in a layer whose effect is measured
SCALE = 20.0  # of cosines in the contrastive loss that the model was trained with
QUERIES, CANDIDATES = 16, 4  # in a batch of that loss, and of each query's list beside it
TEXTS = 256  # in a batch of distillation
LEARNING_RATE = 2e-4
PROBES = 1_024  # texts that show which errors matter

Hidden = list[torch.Tensor]
Kept = Sequence[Sequence[int]]
Choose = Callable[[int, Sequence[Moments]], Sequence[int]]


def head_outputs(layer: Any, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The heads' outputs side by side, of padded texts."""
    attention = layer.attention.self
    parts = [
        project(hidden).unflatten(-1, (HEADS, HEAD_DIM)).transpose(1, 2)
        for project in (attention.query, attention.key, attention.value)
    ]
    return (
        functional.scaled_dot_product_attention(*parts, attn_mask=mask[:, None, None])
        .transpose(1, 2)
        .flatten(2)
    )


def onwards(layer: Any, hidden: torch.Tensor, written: torch.Tensor) -> torch.Tensor:
    """From what attention writes to what the layer puts out."""
    middle = layer.attention.output.LayerNorm(hidden + written)
    return layer.output(layer.intermediate(middle), middle)


def projection_of(layer: Any) -> np.ndarray:
    """W of o = z W + b."""
    return layer.attention.output.dense.weight.detach().double().cpu().numpy().T


def bias_of(layer: Any) -> np.ndarray:
    return layer.attention.output.dense.bias.detach().double().cpu().numpy()


@dataclass(frozen=True, eq=False)
class Calibration:
    """Texts at every layer of the whole model.

    - `masks`: of each batch; `rows`: the places of its tokens, fold after fold; `sizes`: how many of each.
    - `roots`: of 1 / length, of each of these tokens.
    - `inputs`, `written`: of each layer, what comes in and what its attention writes, batch by batch.
    """

    masks: list[torch.Tensor]
    rows: list[torch.Tensor]
    sizes: list[list[int]]
    roots: list[torch.Tensor]
    inputs: list[Hidden]
    written: list[Hidden]

    @classmethod
    def of(cls, model: Any, texts: Texts) -> "Calibration":
        """One pass of a model whose parameters ask for no gradients."""
        found = cls([], [], [], [], [[] for _ in range(LAYERS + 1)], [[] for _ in range(LAYERS)])
        for places, ids, mask in padded(texts, model.device):
            found._note(places % FOLDS, mask)
            hidden = model.embeddings(input_ids=ids)
            found.inputs[0].append(hidden)
            for place, layer in enumerate(model.encoder.layer):
                written = layer.attention.output.dense(head_outputs(layer, hidden, mask))
                hidden = onwards(layer, hidden, written)
                found.written[place].append(written)
                found.inputs[place + 1].append(hidden)
        return found

    def _note(self, folds: np.ndarray, mask: torch.Tensor) -> None:
        """Where the tokens of a batch are, and what each of them counts."""
        texts, tokens = (each.cpu().numpy() for each in torch.nonzero(mask, as_tuple=True))
        order, lengths = np.argsort(folds[texts], kind="stable"), np.bincount(texts)
        self.masks.append(mask)
        self.rows.append(torch.as_tensor((texts * mask.shape[1] + tokens)[order], device=mask.device))
        self.sizes.append(np.bincount(folds[texts], minlength=FOLDS).tolist())
        roots = lengths[texts[order], None] ** -0.5
        self.roots.append(torch.as_tensor(roots, dtype=torch.float32, device=mask.device))

    def outputs(self, layer: Any, hidden: Hidden) -> Hidden:
        """Of a layer's heads, where this comes in."""
        return [head_outputs(layer, *pair) for pair in zip(hidden, self.masks, strict=True)]

    def moments(self, place: int, hidden: Hidden, outputs: Hidden) -> list[Moments]:
        """By fold. What a layer should write takes the residual stream to where it is in the whole model.

        Every text counts alike, however long it is: so it does in a mean over its tokens' embeddings.
        """
        size, width = outputs[0].shape[-1] + 1, self.written[place][0].shape[-1]
        device = outputs[0].device
        gram = torch.zeros(FOLDS, size, size, dtype=torch.float64, device=device)
        cross = torch.zeros(FOLDS, size, width, dtype=torch.float64, device=device)
        squares = torch.zeros(FOLDS, dtype=torch.float64, device=device)
        tokens = zip(self.rows, self.roots, self.sizes, strict=True)
        parts = zip(self.inputs[place], self.written[place], hidden, outputs, strict=True)
        for (rows, roots, sizes), (whole, written, now, heads) in zip(tokens, parts, strict=True):
            wanted = written.float() + whole.float() - now.float()
            with_one = functional.pad(heads.float(), (0, 1), value=1.0)
            both = ((roots * each.flatten(0, 1)[rows]).split(sizes) for each in (with_one, wanted))
            for fold, (one, other) in enumerate(zip(*both, strict=True)):
                gram[fold] += one.T @ one
                cross[fold] += one.T @ other
                squares[fold] += (other**2).sum()
        return [Moments(*sums) for sums in zip(gram, cross, squares, strict=True)]


def bottom_up(model: Any, calibration: Calibration, choose: Choose) -> list[Projection]:
    """The heads that `choose` names in every layer, on the inputs that the layer now gets."""
    hidden, found = list(calibration.inputs[0]), []
    for place, layer in enumerate(model.encoder.layer):
        outputs = calibration.outputs(layer, hidden)
        folds = calibration.moments(place, hidden, outputs)
        with single_threaded():
            projection = fitted(layer, folds, choose(place, folds))
        written = (applied(projection, each) for each in outputs)
        hidden = [onwards(layer, *pair) for pair in zip(hidden, written, strict=True)]
        found.append(projection)
    return found


def fitted(layer: Any, folds: Sequence[Moments], kept: Sequence[int]) -> Projection:
    """The projection of these heads, fitted anew."""
    if len(kept) == HEADS:
        return as_it_is(layer, kept)
    weight = layer.attention.output.dense.weight.detach().double().T
    ridge = chosen_ridge(folds, [kept], head_dim=HEAD_DIM, towards=weight, ridges=RIDGES)
    return refitted(reduce(add, folds), kept, head_dim=HEAD_DIM, ridge=ridge, towards=weight)


def as_it_is(layer: Any, kept: Sequence[int]) -> Projection:
    """What the model has of the projection of these heads."""
    columns = columns_of(sorted(kept), HEAD_DIM)
    return Projection(columns, projection_of(layer)[columns], bias_of(layer))


def as_they_are(model: Any, kept: Kept) -> list[Projection]:
    """The same of every layer."""
    return [as_it_is(*pair) for pair in zip(model.encoder.layer, kept, strict=True)]


def applied(projection: Projection, outputs: torch.Tensor) -> torch.Tensor:
    """What the layer then writes."""
    weight, bias = (torch.as_tensor(each).to(outputs) for each in (projection.weight, projection.bias))
    return outputs[..., torch.as_tensor(projection.columns).to(outputs.device)] @ weight + bias


def eliminating(model: Any, counts: Sequence[int], metrics: Sequence[torch.Tensor]) -> Choose:
    """Backward elimination down to a layer's share, then exchanges, by what errors do to the embedding."""

    def choose(place: int, folds: Sequence[Moments]) -> Sequence[int]:
        if counts[place] == HEADS:
            return range(HEADS)
        weight = model.encoder.layer[place].attention.output.dense.weight.detach().double().T
        covariances = reduce(add, folds).centred().with_ridge(SELECTION_RIDGE, weight)
        seen = covariances.seen_by(metrics[place])
        return exchanged(seen, eliminated(seen, head_dim=HEAD_DIM).kept(counts[place]), head_dim=HEAD_DIM)

    return choose


def metrics_of(model: Any, texts: Texts) -> list[torch.Tensor]:
    """Of every layer, the root of the mean of gᵀg: g is the gradient by what attention writes at a token, of
    the embedding along a direction drawn at random.
    """
    random = torch.Generator().manual_seed(4)
    found: list[Any] = [0.0] * LAYERS
    written: list[torch.Tensor] = []

    def note(_: Any, __: Any, made: torch.Tensor) -> torch.Tensor:
        written.append(made if made.requires_grad else made.requires_grad_())
        return made

    hooks = [layer.attention.output.dense.register_forward_hook(note) for layer in model.encoder.layer]
    for _, ids, mask in padded(texts, model.device):
        written.clear()
        embeddings = embed(model, ids, mask)
        lengths = mask.sum(dim=1)[:, None, None]
        directions = torch.randn(embeddings.shape, generator=random).to(embeddings.device)
        gradients = torch.autograd.grad((embeddings * directions).sum(), written)
        for place, each in enumerate(gradients):
            rows = (lengths.sqrt() * each.float()).flatten(0, 1)
            found[place] = found[place] + (rows.T @ rows).double()
    for hook in hooks:
        hook.remove()
    return [root_of(each / len(texts)) for each in found]


def built(model: Any, projections: Sequence[Projection]) -> Any:
    """A model that computes the same as one without the other heads; they are there and count for nothing."""
    found = copy.deepcopy(model)
    for layer, projection in zip(found.encoder.layer, projections, strict=True):
        dense = layer.attention.output.dense
        mask = torch.zeros(HEADS * HEAD_DIM)
        mask[torch.as_tensor(projection.columns)] = 1
        weight = torch.zeros_like(dense.weight)
        weight[:, torch.as_tensor(projection.columns)] = torch.as_tensor(projection.weight.T).to(weight)
        dense.weight.data, dense.bias.data = weight, torch.as_tensor(projection.bias).to(weight)
        dense.register_buffer("mask", mask.to(weight))
        dense.register_forward_pre_hook(lambda module, inputs: (inputs[0] * module.mask,))
    return found


def apart(whole: torch.Tensor, changed: torch.Tensor) -> float:
    """The mean square by which cosines between texts change: all that a ranking reads of embeddings."""
    return float(((changed @ changed.T - whole @ whole.T) ** 2).mean())


def effects(
    model: Any, calibration: Calibration, texts: Texts, metrics: Sequence[torch.Tensor]
) -> list[list[float]]:
    """Of every layer alone, with 1, 2, ... heads: how far apart the cosines of other texts are then."""
    whole, tables = embedded(model, texts), []
    for place, layer in enumerate(model.encoder.layer):
        outputs = calibration.outputs(layer, calibration.inputs[place])
        folds = calibration.moments(place, calibration.inputs[place], outputs)
        found = []
        for count in MEASURED:
            counts = [count if each == place else HEADS for each in range(LAYERS)]
            projections = as_they_are(model, [range(HEADS)] * LAYERS)
            with single_threaded():
                kept = eliminating(model, counts, metrics)(place, folds)
                projections[place] = fitted(layer, folds, kept)
            found.append(apart(whole, embedded(built(model, projections), texts)))
        tables.append(found)
        print(f"layer {place + 1}: {' '.join(f'{effect:.1e}' for effect in found)}", flush=True)
    return tables


def refined(
    model: Any,
    calibration: Calibration,
    texts: Texts,
    metrics: Sequence[torch.Tensor],
    tables: Sequence[Sequence[float]],
    start: Sequence[int],
    tries: int,
) -> tuple[int, ...]:
    """Shares from which no move of a head to another layer helps, as far as so many tries show.

    Every try shrinks all layers together and looks at other texts; the moves that the layers' own effects
    promise most of come first. A move that helps is kept.
    """
    whole, filled = embedded(model, texts), [_filled(table) for table in tables]

    def measured(counts: Sequence[int]) -> float:
        projections = bottom_up(model, calibration, eliminating(model, counts, metrics))
        return apart(whole, embedded(built(model, projections), texts))

    best = tuple(start)
    least, seen = measured(best), {best}
    for _ in range(tries):
        moves = sorted(_moves(filled, best), key=lambda move: move[0])
        counts = next((counts for _, counts in moves if counts not in seen), None)
        if counts is None:
            break
        seen.add(counts)
        found = measured(counts)
        print(f"{counts}: {found:.3e}, before {least:.3e}", flush=True)
        if found < least:
            best, least = counts, found
    return best


def _moves(tables: Sequence[np.ndarray], counts: tuple[int, ...]) -> Iterator[tuple[float, tuple[int, ...]]]:
    """All counts with a head moved from one layer to another, and what the tables say of it."""
    for one, other in permutations(range(LAYERS), 2):
        if counts[one] > 1 and counts[other] < HEADS:
            moved = list(counts)
            moved[one] -= 1
            moved[other] += 1
            change = sum(
                tables[place][moved[place] - 1] - tables[place][counts[place] - 1] for place in (one, other)
            )
            yield float(change), tuple(moved)


def _filled(table: Sequence[float]) -> np.ndarray:
    return without_noise(filled_in([*MEASURED, HEADS], [*table, 0.0]))


def shares_of(tables: Sequence[Sequence[float]], total: int) -> tuple[int, ...]:
    """Heads of every layer, from the measured effects."""
    return shares([_filled(table) for table in tables], total)


def magnitude_scores(model: Any) -> np.ndarray:
    """The size of each head's part of the four matrices, [layer, head]."""
    found = []
    for layer in model.encoder.layer:
        attention = layer.attention.self
        inner = [
            each.weight.detach().double().cpu().numpy()
            for each in (attention.query, attention.key, attention.value)
        ]
        found.append(magnitudes(*inner, projection_of(layer), head_dim=HEAD_DIM))
    return np.array(found)


def gradient_scores(model: Any, lists: Lists, queries: int) -> np.ndarray:
    """Michel et al. (2019): the mean of |∂ loss / ∂ gate| over texts, [layer, head].

    The loss is contrastive: a query's own passage against some others of its list and all of the other
    queries' in the batch. The gates of a text multiply its heads' outputs.
    """
    random = np.random.default_rng(2)
    rows = random.permutation(len(lists.queries))[:queries]
    total, texts_seen = np.zeros((LAYERS, HEADS)), 0
    for some in np.array_split(rows, -(-queries // QUERIES)):
        others = random.permuted(lists.candidates[some], axis=1)[:, : CANDIDATES - 1].ravel()
        passages = np.unique([*lists.candidates[some, lists.label[some]], *others])
        own = np.searchsorted(passages, lists.candidates[some, lists.label[some]])
        texts = [lists.queries[row] for row in some] + [lists.passages[place] for place in passages]
        found, places, gates = [], [], []
        for where, ids, mask in padded(texts, model.device):
            gates.append(torch.ones(len(ids), LAYERS, HEADS).to(model.device, model.dtype).requires_grad_())
            found.append(gated(model, ids, mask, gates[-1]))
            places.append(where)
        embeddings = torch.cat(found)[torch.as_tensor(np.argsort(np.concatenate(places)))]
        scores = SCALE * embeddings[: len(some)] @ embeddings[len(some) :].T
        labels = torch.as_tensor(own, device=scores.device)
        functional.cross_entropy(scores, labels, reduction="sum").backward()
        total += sum(
            each.grad.abs().sum(dim=0).double().cpu().numpy() for each in gates if each.grad is not None
        )
        texts_seen += len(texts)
    return total / texts_seen


def gated(model: Any, ids: torch.Tensor, mask: torch.Tensor, gates: torch.Tensor) -> torch.Tensor:
    """Embeddings of texts whose heads' outputs are multiplied by gates, [text, layer, head]."""
    hooks = []
    for place, layer in enumerate(model.encoder.layer):
        wide = gates[:, place].repeat_interleave(HEAD_DIM, dim=1)[:, None]
        hook = layer.attention.output.dense.register_forward_pre_hook(
            lambda _, inputs, wide=wide: (inputs[0] * wide,)
        )
        hooks.append(hook)
    found = embed(model, ids, mask)
    for hook in hooks:
        hook.remove()
    return found


def by_scores(scores: np.ndarray, total: int) -> list[list[int]]:
    """The heads with the highest scores of all layers; the best of every layer stays."""
    lifted = np.array(scores, np.float64)
    best = lifted.argmax(axis=1)
    lifted[np.arange(len(lifted)), best] = np.inf
    chosen = np.argsort(-lifted, axis=None, kind="stable")[:total]
    return [
        [int(place % HEADS) for place in sorted(chosen) if place // HEADS == layer] for layer in range(LAYERS)
    ]


def distilled(changed: Any, texts: Texts, wanted: torch.Tensor, seconds: float) -> tuple[Any, int]:
    """A short training towards the whole model's embeddings (`wanted`), without labels, and its steps.

    Batches have few shapes: a GPU looks for kernels at every new one, which would take most of the time.
    """
    kind = changed.dtype
    changed = changed.float()
    parameters = [each for each in changed.parameters() if each.requires_grad]
    on_cuda = changed.device.type == "cuda"
    optimiser = torch.optim.AdamW(parameters, lr=LEARNING_RATE, weight_decay=0.0, fused=on_cuda)
    random, started = np.random.default_rng(3), time.monotonic()
    steps = 0
    while (spent := (time.monotonic() - started) / seconds) < 1:
        for group in optimiser.param_groups:
            group["lr"] = LEARNING_RATE * min(1.0, 20 * spent) * (1 - spent)
        optimiser.zero_grad()
        chosen = random.choice(len(texts), min(TEXTS, len(texts)), replace=False)
        for places, ids, mask in in_few_shapes([texts[place] for place in chosen], changed.device):
            goal = wanted[torch.as_tensor(chosen[places], device=wanted.device)]
            with torch.autocast(changed.device.type, torch.bfloat16, enabled=on_cuda):
                found = embed(changed, ids, mask)
            loss = (1 - (found * goal).sum(dim=1)).sum() / TEXTS
            loss.backward()
        optimiser.step()
        steps += 1
    return changed.to(kind), steps

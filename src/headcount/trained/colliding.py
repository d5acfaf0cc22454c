"""Two samples that a model tells apart, and that it answers alike once a layer has one head too few.

A model whose answers for two samples coincide has lost what tells them apart, whichever way it went through
its layers. What a single layer writes does not show that: the residual stream carries both samples past it.
So samples are held against each other by what the model with that one layer cut finally makes of them.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headcount.trained.batches import Batch, called, size_of, some_of
from headcount.trained.count import Study
from headcount.trained.effect import Answer, Kind, answer_of
from headcount.trained.prefix import Prefix, given
from headcount.trained.showing import shown_sample
from headcount.trained.summary import LayerCount

NEAR = 0.01  # of all pairs: those that the cut model tells apart least
MAX_SAMPLES = 200  # one pass over them for every layer
MAX_VALUES = 2**26  # of all answers together
BLOCK = 256  # rows of distances at a time


@dataclass(frozen=True)
class Pair:
    """Two samples: distances of what two models answer, each relative to the median over all pairs.

    - `representation`: in the model that is cut; `output`: in the whole model, which is also what that one
      sees of the two.
    """

    first: int
    second: int
    representation: float
    output: float


@dataclass(frozen=True)
class Collision:
    """A pair that a layer with so many heads makes alike, shown: a text, an image, or its number."""

    layer: str
    heads: int
    first: str
    second: str
    representation: float
    output: float

    def to_json(self) -> dict[str, Any]:
        """Its parts by name."""
        return asdict(self)


def collisions_of(
    study: Study, layers: Sequence[LayerCount], batches: Sequence[Batch]
) -> tuple[Collision, ...]:
    """Of every layer whose count is known, with one head fewer; none where one head is enough."""
    if study.effects.own is not None:  # outputs that only the user's own loss can read
        return ()
    kind, (batches, _) = study.effects.kind, some_of(batches, MAX_SAMPLES, seed=study.seed)
    whole = Answers.of(study.whole, batches, kind=kind)
    found = []
    for place, layer in enumerate(layers):
        if layer.needed is None or layer.needed < 2:
            continue
        counts = list(study.heads)
        counts[place] = layer.needed - 1
        cut = study.build_alone(place, tuple(counts))
        answers = Answers.of(cut.model, batches, kind=kind, prefix=study.prefix(cut, batches))
        pair = furthest_of_nearest(answers, whole)
        if pair is None:
            continue
        first, second = (shown_sample(batches, each) for each in (pair.first, pair.second))
        found.append(
            Collision(layer.shape.name, counts[place], first, second, pair.representation, pair.output)
        )
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Answers:
    """What a model answers to each sample, as vectors a and b with distance c_i + c_j − a_i·b_j − a_j·b_i.

    With p the probabilities of logits, a = p/2 and b = log p give the mean of both KL divergences; with unit
    vectors u, a = u/2 and b = u the cosine distance; with values v, a = b = v the squared distance.
    """

    one: Tensor
    other: Tensor

    @classmethod
    def of(
        cls, model: nn.Module, batches: Sequence[Batch], *, kind: Kind, prefix: Prefix | None = None
    ) -> "Answers":
        """One pass; `prefix`: what the model does with these batches as the whole one does."""
        total, found = sum(map(size_of, batches)), []
        for number, batch in enumerate(batches):
            with torch.no_grad(), given(prefix, model, number):
                answer = answer_of(called(model, batch), batch)
            found.append(_vectors(answer, kind, most=MAX_VALUES // total))
        one, other = (torch.cat(each) for each in zip(*found, strict=True))
        return cls(one, other)

    def __len__(self) -> int:
        return len(self.one)

    def distances(self, start: int, end: int) -> np.ndarray:
        """From some samples to all."""
        own = (self.one * self.other).sum(1)
        rows = slice(start, end)
        products = self.one[rows] @ self.other.T + self.other[rows] @ self.one.T
        return np.asarray((own[rows, None] + own - products).clamp(min=0).cpu())

    def pairs(self) -> np.ndarray:
        """Of all pairs, i < j, row by row."""
        found = []
        for start in range(0, len(self), BLOCK):
            rows = self.distances(start, min(start + BLOCK, len(self)))
            found += [row[start + place + 1 :] for place, row in enumerate(rows)]
        return np.concatenate(found)


def _vectors(answer: Answer, kind: Kind, *, most: int) -> tuple[Tensor, Tensor]:
    """The a and b of samples; of answers too large to keep, those of the last token alone."""
    values = answer.values
    values = values.reshape(len(values), -1, values.shape[-1])
    if values[0].numel() > most:
        values = values[:, -1:]
    values = values.double() / (1 if kind == "KL divergence" else values.shape[1] ** 0.5)
    if kind == "squared distance":
        flat = values.flatten(1) / values.shape[2] ** 0.5
        return flat, flat
    if kind == "cosine distance":
        flat = torch.nn.functional.normalize(values, dim=-1).flatten(1) / values.shape[1] ** 0.5
        return flat / 2, flat
    logs = torch.log_softmax(values, dim=-1)
    return (logs.exp() / (2 * values.shape[1])).flatten(1), logs.flatten(1)


def furthest_of_nearest(cut: Answers, whole: Answers, *, near: float = NEAR) -> Pair | None:
    """Of the pairs that the cut model tells apart least, the one that the whole model tells apart most.

    All pairs are held against each other. None where a model answers the same to most samples.
    """
    represented, answered = cut.pairs(), whole.pairs()
    if not len(represented):
        return None
    spreads = np.median(represented), np.median(answered)
    if not min(spreads) > 0:
        return None
    count = max(1, round(near * len(represented)))
    nearest = np.argpartition(represented, count - 1)[:count]
    best = nearest[answered[nearest].argmax()]
    first, second = (int(each[best]) for each in np.triu_indices(len(cut), 1))
    return Pair(first, second, float(represented[best] / spreads[0]), float(answered[best] / spreads[1]))

"""How much worse a changed model is than the whole one, sample by sample."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from headcount.errors import InvalidInput
from headcount.trained.batches import Batch, called, device_of, moved, real_tokens, size_of, users_own
from headcount.trained.prefix import Prefix, given
from headcount.validation import check_choice, shown

Kind = Literal["loss", "metric", "KL divergence", "cosine distance", "squared distance"]
Own = Callable[[Any, Batch], Any]
PerSample = Float[np.ndarray, " sample"]

DISTANCES = ("KL divergence", "cosine distance", "squared distance")
MAX_POSITIONS = 16  # of a sample, where every token has its own distribution over many
ROUNDING = 1e-5  # of the largest output
UNIT = 1e-3  # vectors of length 1 to this accuracy are embeddings


@dataclass(frozen=True)
class Answer:
    """What a model is asked for, of one batch: logits or an embedding for every sample."""

    values: Tensor
    logits: bool


def answer_of(outputs: Any, batch: Batch) -> Answer:
    """The logits, or the mean of the last hidden states over real tokens, whichever the outputs have."""
    logits, states = (_named(outputs, name) for name in ("logits", "last_hidden_state"))
    if logits is not None:
        return Answer(_positions(logits, batch), logits=True)
    if states is None:
        first = outputs[0] if isinstance(outputs, tuple | list) and outputs else outputs
        if not isinstance(first, Tensor) or first.dim() < 2:
            raise InvalidInput(
                "model: expected outputs with logits or last_hidden_state, or a tensor with a row for each "
                f"sample, got {type(first).__name__}; give a loss or a metric"
            )
        lengths = first.flatten(0, -2).norm(dim=-1)
        if first.dim() == 2 and bool(((lengths - 1).abs() < UNIT).all()):
            return Answer(first, logits=False)
        return Answer(_positions(first, batch), logits=True)
    real = torch.from_numpy(real_tokens(batch, *states.shape[:2])).to(states)[..., None]
    return Answer((states * real).sum(1) / real.sum(1).clamp(min=1), logits=False)


def _named(outputs: Any, name: str) -> Tensor | None:
    found = outputs.get(name) if isinstance(outputs, Mapping) else getattr(outputs, name, None)
    return found if isinstance(found, Tensor) else None


def _positions(logits: Tensor, batch: Batch) -> Tensor:
    """Of distributions for every token, those of a few: [sample, position, value], spread over the sample.

    As many of every sample, whatever its length, so that padding changes nothing.
    """
    if logits.dim() != 3:
        return logits.reshape(len(logits), 1, -1)
    samples, tokens, _ = logits.shape
    decoder = isinstance(batch, Mapping) and "decoder_input_ids" in batch
    real = real_tokens(batch, samples, tokens, decoder=decoder)
    order = np.argsort(~real, axis=1, kind="stable")  # real ones first
    along = np.linspace(0, 1, MAX_POSITIONS)
    rows = np.round((real.sum(axis=1)[:, None] - 1).clip(0) * along).astype(int)
    places = torch.from_numpy(np.take_along_axis(order, rows, axis=1)).to(logits.device)
    return torch.gather(logits, 1, places[..., None].expand(-1, -1, logits.shape[2]))


def kind_of(answer: Answer) -> Kind:
    """The distance that fits: KL for logits, cosine for embeddings, squares for a single number."""
    if not answer.logits:
        return "cosine distance"
    return "squared distance" if answer.values.shape[-1] == 1 else "KL divergence"


def distance(kind: Kind, whole: Tensor, changed: Tensor) -> Tensor:
    """Of every sample, in float64.

    >>> float(distance("cosine distance", torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 2.0]])))
    1.0
    """
    whole, changed = (each.double().reshape(len(each), -1, each.shape[-1]) for each in (whole, changed))
    if kind == "KL divergence":
        one, other = functional.log_softmax(whole, -1), functional.log_softmax(changed, -1)
        return (one.exp() * (one - other)).sum(-1).mean(1)
    if kind == "squared distance":
        return ((whole - changed) ** 2).flatten(1).mean(1)
    return 1 - functional.cosine_similarity(whole, changed, dim=-1).flatten(1).mean(1)


def all_alike(values: Sequence[Tensor]) -> bool:
    """Whether every sample has the output of the first, but for rounding."""
    first = values[0][:1]
    scale = float(first.abs().max()) or 1.0
    return sum(map(len, values)) > 1 and all(
        each.shape[1:] == first.shape[1:] and float((each - first).abs().max()) <= ROUNDING * scale
        for each in values
    )


@dataclass
class Measure:
    """The loss of models on some samples, with that of the whole model beside it.

    - `kind`: a loss or a metric of the user's (a metric is better where it is higher), or a distance from the
      whole model, which needs no labels.
    - `whole`: of every sample, the loss of the whole model; zeros for a distance.
    """

    batches: Sequence[Batch]
    kind: Kind
    own: Own | None
    whole: PerSample
    answers: Sequence[Tensor] = field(default=(), repr=False)
    spread: float = 1.0

    @classmethod
    def of(
        cls,
        model: nn.Module,
        batches: Sequence[Batch],
        *,
        loss: Own | None = None,
        metric: Own | None = None,
        kind: str | None = None,
    ) -> "Measure":
        """One pass of the whole model."""
        if loss is not None and metric is not None:
            raise InvalidInput("metric: expected a loss or a metric, got both")
        if kind is not None:
            check_choice("distance", kind, DISTANCES)
        own = metric if loss is None else loss
        if own is not None:
            found = cls(batches, "metric" if loss is None else "loss", own, np.zeros(0))
            found.whole = found.losses(model)
            return found
        answers = [_answered(model, batch) for batch in batches]
        chosen: Kind = kind or kind_of(answers[0])  # type: ignore[assignment]  # checked above
        values = [answer.values for answer in answers]
        if all_alike(values):
            raise InvalidInput("batches: expected samples that differ, got the same output for all of them")
        spread = 1.0
        if chosen == "squared distance":
            spread = float(torch.cat([each.double().flatten() for each in values]).var()) or 1.0
        return cls(batches, chosen, None, np.zeros(sum(map(size_of, batches))), values, spread)

    def losses(self, model: nn.Module, prefix: Prefix | None = None) -> PerSample:
        """Of every sample; higher is worse.

        - `prefix`: what the model does with these batches as the whole one does.
        """
        if self.own is not None:
            sign, values = -1 if self.kind == "metric" else 1, []
            for number, batch in enumerate(self.batches):
                with given(prefix, model, number):
                    values.append(self._own(model, batch))
            return sign * np.concatenate(values)
        found = []
        for number, (batch, whole) in enumerate(zip(self.batches, self.answers, strict=True)):
            with given(prefix, model, number):
                changed = _answered(model, batch).values
            found.append(distance(self.kind, whole, changed))
        return np.asarray(torch.cat(found).cpu()) / self.spread

    def rises(self, model: nn.Module, prefix: Prefix | None = None) -> PerSample:
        """How much worse than the whole model, sample by sample."""
        return self.losses(model, prefix) - self.whole

    def _own(self, model: nn.Module, batch: Batch) -> PerSample:
        assert self.own is not None
        with torch.no_grad():
            outputs = called(model, batch)
            found = users_own(self.kind, self.own, outputs, moved(batch, device_of(model)))
        values = np.asarray(found.detach().cpu() if isinstance(found, Tensor) else found, np.float64)
        size = size_of(batch)
        if values.shape != (size,):
            raise InvalidInput(
                f"{self.kind}: expected one number for each of the {size} samples of a batch, got "
                f"{'a single number' if values.ndim == 0 else f'the shape {values.shape}'}"
            )
        if not np.isfinite(values).all():
            raise InvalidInput(f"{self.kind}: expected finite numbers, got {shown(values.tolist())}")
        return values


def _answered(model: nn.Module, batch: Batch) -> Answer:
    with torch.no_grad():
        answer = answer_of(called(model, batch), batch)
    if not bool(torch.isfinite(answer.values).all()):
        raise InvalidInput("model: expected finite outputs, got NaN or infinity")
    return answer

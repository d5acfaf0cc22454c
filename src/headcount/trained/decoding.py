"""What the decoder beside an encoder is given, where samples do not say it."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headcount.trained.batches import Batch, device_of, moved, users_own

GIVEN = ("decoder_input_ids", "decoder_inputs_embeds")
MAX_WRITTEN = 32  # tokens
IGNORED = -100  # a label that is none


def with_decoder_inputs(model: nn.Module, batches: Sequence[Batch]) -> list[Batch]:
    """Batches of token ids for an encoder, with tokens for the decoder beside them.

    Those of the labels, where these are tokens. Otherwise what the model itself writes, word by word the most
    likely one: the decoder is then seen at its own work, without labels.
    """
    return [_with_decoder_inputs(model, batch) if _lacks(model, batch) else batch for batch in batches]


def _lacks(model: nn.Module, batch: Batch) -> bool:
    config: Any = getattr(model, "config", None)
    if not (getattr(config, "is_encoder_decoder", False) and hasattr(model, "generate")):
        return False
    return (
        isinstance(batch, Mapping)
        and isinstance(batch.get("input_ids"), Tensor)
        and not any(name in batch for name in GIVEN)
    )


def _with_decoder_inputs(model: Any, batch: Mapping[str, Any]) -> Batch:
    labels = batch.get("labels")
    if isinstance(labels, Tensor) and labels.dim() == 2:
        ids = users_own("labels", model.prepare_decoder_input_ids_from_labels, labels=labels)
        return {**batch, "decoder_input_ids": ids, "decoder_attention_mask": (labels != IGNORED).long()}
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask") if name in batch}
    with torch.no_grad():
        written = users_own(
            "model: generate",
            model.generate,
            **moved(inputs, device_of(model)),
            max_new_tokens=MAX_WRITTEN,
            do_sample=False,
            num_beams=1,
        )
    ids = written.to(batch["input_ids"].device)
    return {**batch, "decoder_input_ids": ids, "decoder_attention_mask": _real(model, ids).long()}


def _real(model: Any, ids: Tensor) -> Tensor:
    """Tokens up to the first end; the one that the decoder starts with may be the same as an end."""
    ends = torch.as_tensor(model.generation_config.eos_token_id or -1, device=ids.device).reshape(-1)
    ended = torch.isin(ids, ends)
    ended[:, 0] = False
    return (ended.cumsum(dim=1) - ended.long()) == 0

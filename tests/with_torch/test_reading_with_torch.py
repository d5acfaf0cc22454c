"""Data of PyTorch and of Hugging Face, with the real packages: `make test-torch` runs these."""

import datasets
import numpy as np
import pytest
import torch
from torch.utils import data

from headcount.api.head_count import HeadCount
from headcount.data.arrays import data_set
from headcount.data.files import load
from headcount.data.long_form import Columns
from headcount.data.sources import gathered
from headcount.errors import InvalidInput

pytestmark = pytest.mark.torch

RANDOM = np.random.default_rng(0)
SAMPLES, LENGTH = 240, 6
X = RANDOM.normal(size=(SAMPLES, LENGTH, 2)).astype(np.float32)
Y = X.max(axis=1).sum(axis=1)
LABELS = (np.median(Y) < Y).astype(int)
LENGTHS = RANDOM.integers(2, LENGTH + 1, size=SAMPLES)
LENGTHS[:2] = 2, LENGTH
MASK = np.arange(LENGTH) < LENGTHS[:, None]
IDS = RANDOM.integers(3, 60, size=(SAMPLES, LENGTH))
TENSORS = torch.tensor(X), torch.tensor(Y)
MASKED = *TENSORS, torch.tensor(MASK)
NAMED = {
    "input_ids": [row[:length].tolist() for row, length in zip(IDS, LENGTHS, strict=True)],
    "labels": LABELS.tolist(),
}


class Pairs(data.Dataset):
    """A map-style Dataset of one's own."""

    def __len__(self):
        return SAMPLES

    def __getitem__(self, place):
        return tuple(part[place] for part in TENSORS)


class Stream(data.IterableDataset):
    """One that can only be walked through."""

    def __iter__(self):
        return zip(*TENSORS, strict=True)


def padded(samples):
    """A collate function that pads to the longest sequence of a batch, with a mask."""
    tokens = [torch.tensor(sample["input_ids"]) for sample in samples]
    ids = torch.nn.utils.rnn.pad_sequence(tokens, batch_first=True)
    mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(each) for each in tokens], batch_first=True)
    return {"input_ids": ids, "attention_mask": mask, "labels": torch.tensor([s["labels"] for s in samples])}


PLAIN, SHORTER = data_set(X, Y), data_set(IDS, LABELS, MASK)
HUB = datasets.Dataset.from_dict({**NAMED, "text": ["a"] * SAMPLES})
FIXED = datasets.Dataset.from_dict({"input_ids": IDS, "attention_mask": MASK.astype(int), "label": LABELS})
LONG = datasets.Dataset.from_dict(
    {
        "series": np.repeat(np.arange(SAMPLES), LENGTH),
        "a": X[..., 0].ravel(),
        "b": X[..., 1].ravel(),
        "y": np.repeat(Y, LENGTH),
    }
)
READ = {
    "tensors": (TENSORS, {}, PLAIN),
    "tensors with a gradient, in half precision": (
        (torch.tensor(X, requires_grad=True).to(torch.bfloat16), TENSORS[1]),
        {},
        data_set(TENSORS[0].to(torch.bfloat16).float().numpy(), Y),
    ),
    "a TensorDataset": ((data.TensorDataset(*TENSORS),), {}, PLAIN),
    "a TensorDataset with a mask": ((data.TensorDataset(*MASKED),), {}, data_set(X, Y, MASK)),
    "a subset": ((data.Subset(data.TensorDataset(*TENSORS), range(200)),), {}, data_set(X[:200], Y[:200])),
    "a Dataset of one's own": ((Pairs(),), {}, PLAIN),
    "a DataLoader": ((data.DataLoader(Pairs(), batch_size=50),), {}, PLAIN),
    "a DataLoader of a stream": ((data.DataLoader(Stream(), batch_size=50),), {}, PLAIN),
    "a DataLoader that pads": ((data.DataLoader(HUB, batch_size=50, collate_fn=padded),), {}, SHORTER),
    "a Dataset of the hub": ((HUB,), {}, SHORTER),
    "one that shows tensors": ((FIXED.with_format("torch"),), {}, SHORTER),
    "one that was shuffled back": (
        (FIXED.select(range(SAMPLES)[::-1]).select(range(SAMPLES)[::-1]),),
        {},
        SHORTER,
    ),
    "its columns": ((FIXED["input_ids"], FIXED["label"], FIXED["attention_mask"]), {}, SHORTER),
    "another name for y": ((HUB.rename_column("labels", "stars"), "stars"), {}, SHORTER),
    "one in long form": ((LONG, "y"), {"id": "series"}, PLAIN),
}
REFUSED = {
    "all splits": ((datasets.DatasetDict(train=HUB, test=HUB),), "one of the splits train, test, got all"),
    "a stream of the hub": ((HUB.to_iterable_dataset(),), "got a stream"),
    "a stream of PyTorch": ((Stream(),), "pass a DataLoader of it"),
    "a column that is not there": ((HUB, "stars"), "y: expected one of input_ids, labels, text, got 'stars'"),
    "padding without a mask": (
        (data.DataLoader(HUB, batch_size=2, collate_fn=lambda all: {**padded(all), "attention_mask": None}),),
        "mask: expected one in every batch",
    ),
}


@pytest.mark.parametrize("name", READ)
def test_it_is_read_as_the_arrays_that_it_holds(name):
    given, columns, wanted = READ[name]
    parts = gathered(*(*given, None, None)[:3], Columns(**columns))
    assert data_set(*parts).fingerprint == wanted.fingerprint


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_in_one_line(name):
    given, line = REFUSED[name]
    with pytest.raises(InvalidInput) as refusal:
        gathered(*(*given, None)[:2], None, Columns())
    assert line in str(refusal.value) and "\n" not in str(refusal.value)


@pytest.mark.parametrize("content", [{"x": TENSORS[0], "y": TENSORS[1]}, TENSORS, list(TENSORS)], ids=str)
def test_files_of_tensors_are_read(content, tmp_path):
    torch.save(content, tmp_path / "data.pt")
    assert load(tmp_path / "data.pt").fingerprint == PLAIN.fingerprint


def test_files_of_anything_else_are_refused_and_none_of_their_code_runs(tmp_path):
    path = tmp_path / "data.pt"
    for content in (
        data.TensorDataset(*TENSORS),
        torch.nn.Linear(2, 2),
        TENSORS[0],
        {"x": TENSORS[0]},
        {0: 1},
    ):
        torch.save(content, path)
        with pytest.raises(InvalidInput, match=r"data.pt: expected (tensors|x and y)"):
            load(path)
    for damaged in (b"tensors", b"", path.read_bytes()[:100]):
        path.write_bytes(damaged)
        with pytest.raises(InvalidInput, match=r"data.pt: the file is damaged|data.pt: expected tensors"):
            load(path)


def test_a_loader_is_all_that_fit_needs(compiled_quickly):
    x = torch.randn(400, 4, 2, generator=torch.Generator().manual_seed(0))
    loader = data.DataLoader(data.TensorDataset(x, x.amax(dim=1).sum(dim=1)), batch_size=64)
    model = HeadCount(positions=False, max_heads=3, steps=200).fit(loader)
    assert model.estimate_.errors

"""Models to remove heads from: vision transformers for CIFAR-10, and a small Qwen2 for passages.

    python benchmarks/trained_models.py --images FOLDER --data FOLDER --device cuda

The first folder holds CIFAR-10 (see convert_data.py), the second `msmarco_tokens.npz`. Trains vision
transformers with 6 and with 12 heads a layer, three seeds of each shape in lockstep (one set of kernels works
on all of them), in bfloat16 with crops, flips, erased squares and mixed images, to 88% or more of the 10,000
test images; and a language model. Weights go to --models, and so does the state every few epochs: broken off
and called again, training goes on from there. `--only` trains one of "vit-6", "vit-12", "qwen2".
"""

import json
import math
import time
from argparse import Namespace
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from recording import parser_of
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state
from torch.nn import functional

from headcount.data.cifar10.files import load_cifar10

SEEDS = 3
HEADS = (6, 12)
WIDTH, LAYERS, STEM = 192, 8, 64
EPOCHS, BATCH, RATE, DECAY, WARM_UP = 80, 256, 1.5e-3, 0.05, 0.05
CROP, ERASED, MIXING, SMOOTHING = 4, 8, 0.2, 0.1
KEPT_EVERY = 5  # epochs
WARM_STEPS = 5  # on a GPU, before one is recorded
CLASSES, SIDE = 10, 32
# Of the language model.
VOCABULARY, LENGTH, HELD_OUT = 8_000, 64, 2_000
LM_HEADS, LM_WIDTH, LM_LAYERS, LM_STEPS, LM_BATCH, LM_RATE = 8, 256, 6, 4_000, 128, 2e-3
NAMES = (*(f"vit-{heads}" for heads in HEADS), "qwen2")


class Attention(nn.Module):
    """Heads with maps of their own, any number of which may go."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.head_dim, self.group_size = width // heads, 1
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (
            each(x).unflatten(-1, (-1, self.head_dim)).transpose(-3, -2)
            for each in (self.query, self.key, self.value)
        )
        key, value = (each.repeat_interleave(self.group_size, dim=-3) for each in (key, value))
        # As products: fused kernels have no rule for an axis of models, and 64 tokens need none.
        weights = torch.softmax(query @ key.transpose(-2, -1) * self.head_dim**-0.5, dim=-1)
        return self.output((weights @ value).transpose(-3, -2).flatten(-2))


class Layer(nn.Module):
    """Attention and a feed-forward network, each after a norm and beside the stream."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.first(x))
        return x + self.narrow(functional.gelu(self.wide(self.second(x))))


class VisionTransformer(nn.Module):
    """Two convolutions to 64 tokens, layers, and a classifier on the mean."""

    def __init__(self, heads: int, *, width: int = WIDTH, layers: int = LAYERS, stem: int = STEM) -> None:
        super().__init__()
        self.fine, self.coarse = nn.Linear(9 * 3, stem), nn.Linear(9 * stem, width)
        self.positions = nn.Parameter(0.02 * torch.randn(1, (SIDE // 4) ** 2, width))
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm, self.classifier = nn.LayerNorm(width), nn.Linear(width, CLASSES)

    def forward(self, pixels: Tensor) -> Tensor:
        fine = functional.gelu(self.fine(windows(pixels)))
        maps = fine.transpose(-2, -1).unflatten(-1, (SIDE // 2, SIDE // 2))
        x = self.coarse(windows(maps)) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.classifier(self.norm(x).mean(dim=-2))


def windows(maps: Tensor) -> Tensor:
    """The 3 × 3 numbers around every second place of [..., channel, row, column], as [..., place, number].

    A convolution as a product: those of several models at once are slow as convolutions of groups.
    """
    wide, span = functional.pad(maps, (1, 1, 1, 1)), maps.shape[-1] - 1
    parts = [
        wide[..., row : row + span : 2, column : column + span : 2] for row in range(3) for column in range(3)
    ]
    return torch.cat(parts, dim=-3).flatten(-2).transpose(-2, -1)


class Images:
    """CIFAR-10 on a device: [image, channel, row, column] from -1 to 1."""

    def __init__(self, folder: Path, device: str) -> None:
        data = load_cifar10(folder)
        self.train, self.test = (
            torch.from_numpy(each.transpose(0, 3, 1, 2).copy()).to(device)
            for each in (data.train_images, data.test_images)
        )
        self.labels, self.test_labels = (
            torch.from_numpy(each.astype(np.int64)).to(device)
            for each in (data.train_labels, data.test_labels)
        )

    def augmented(self, places: Tensor, random: torch.Generator) -> Tensor:
        """Crops of the padded images, half of them flipped, each with a square erased."""
        count, device = len(places), places.device

        def drawn(most: int) -> Tensor:
            return torch.randint(most, (count, 1), generator=random, device=device)

        x = functional.pad(scaled(self.train[places]), (CROP,) * 4)
        along = torch.arange(SIDE, device=device)
        rows, columns = drawn(2 * CROP + 1) + along, drawn(2 * CROP + 1) + along
        columns = torch.where(drawn(2) == 1, columns.flip(1), columns)
        every = torch.arange(count, device=device)[:, None, None]
        x = x.permute(0, 2, 3, 1)[every, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
        top, left = drawn(SIDE), drawn(SIDE)
        in_rows, in_columns = ((along - each).abs() <= ERASED // 2 for each in (top, left))
        return x.masked_fill((in_rows[:, :, None] & in_columns[:, None, :])[:, None], 0.0)


def scaled(pixels: Tensor) -> Tensor:
    return pixels.float() / 127.5 - 1


def rate_at(used: float) -> float:
    """Up in a line, then down along half a cosine."""
    if used < WARM_UP:
        return used / WARM_UP
    return (1 + math.cos(math.pi * (used - WARM_UP) / (1 - WARM_UP))) / 2


class Lockstep:
    """Models of one shape, trained together: every weight has an axis for the seed in front."""

    def __init__(self, heads: int, images: Images, arguments: Namespace) -> None:
        self.images, self.device = images, arguments.device
        models = []
        for seed in range(arguments.seeds):
            torch.manual_seed(seed)
            models.append(VisionTransformer(heads, **arguments.shape).to(self.device))
        self.empty = VisionTransformer(heads, **arguments.shape).to("meta")
        self.weights, _ = stack_module_state(models)
        self.epochs, self.per_epoch = arguments.epochs, len(images.train) // arguments.batch
        self.batch = arguments.batch
        self.on_cuda = torch.device(self.device).type == "cuda"
        decaying = [each for each in self.weights.values() if each.dim() > 2]
        others = [each for each in self.weights.values() if each.dim() <= 2]
        self.optimiser = torch.optim.AdamW(
            [{"params": decaying, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}],
            lr=torch.tensor(RATE, device=self.device) if self.on_cuda else RATE,
            fused=self.on_cuda,
            capturable=self.on_cuda,
        )
        self.random = torch.Generator(self.device).manual_seed(1)
        self.epoch, self.seconds = 0, 0.0
        self.places = torch.zeros(arguments.seeds, arguments.batch, dtype=torch.int64, device=self.device)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.loss = torch.zeros(())

    def __len__(self) -> int:
        return len(next(iter(self.weights.values())))

    def logits(self, weights: dict[str, Tensor], pixels: Tensor) -> Tensor:
        """Of one model."""
        return functional_call(self.empty, weights, (pixels,))

    def run_epoch(self) -> float:
        """One pass over the training images, in an order of its own for every model; the last loss."""
        began, count = time.monotonic(), len(self.images.train)
        orders = torch.stack(
            [torch.randperm(count, generator=self.random, device=self.device) for _ in range(len(self))]
        )
        for step in range(self.per_epoch):
            self.set_rate(RATE * rate_at((self.epoch + step / self.per_epoch) / self.epochs))
            self.places.copy_(orders[:, step * self.batch : (step + 1) * self.batch])
            if self.graph is not None:
                self.graph.replay()
                continue
            self.loss = self.step(self.places)
            if self.on_cuda and step == WARM_STEPS:
                self.record()
        self.epoch += 1
        last = float(self.loss)
        self.seconds += time.monotonic() - began
        return last

    def set_rate(self, rate: float) -> None:
        for group in self.optimiser.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def record(self) -> None:
        """Record a step, to be played again: without a graph most of its time would be launching kernels."""
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self.random)
        self.optimiser.zero_grad()
        with torch.cuda.graph(graph):
            self.loss = self.step(self.places)
        self.graph = graph

    def step(self, places: Tensor) -> Tensor:
        """One step of all models, each on images of its own."""
        pixels = self.images.augmented(places.flatten(), self.random).unflatten(0, places.shape)
        labels = self.images.labels[places]
        share = 1 - MIXING * torch.rand(1, generator=self.random, device=self.device) * (
            torch.rand(1, generator=self.random, device=self.device) < 0.8
        )
        pixels, others = share * pixels + (1 - share) * pixels.flip(1), labels.flip(1)
        with torch.autocast(torch.device(self.device).type, torch.bfloat16):
            logits = torch.vmap(self.logits)(self.weights, pixels).float()
        losses = [
            functional.cross_entropy(logits.flatten(0, 1), each.flatten(), label_smoothing=SMOOTHING)
            for each in (labels, others)
        ]
        loss = len(self) * (share * losses[0] + (1 - share) * losses[1]).sum()
        self.optimiser.zero_grad()
        loss.backward()
        self.clip()
        self.optimiser.step()
        return loss.detach() / len(self)

    def clip(self) -> None:
        """Gradients of every model to length 1 at most."""
        gradients = [each.grad for each in self.weights.values() if each.grad is not None]
        squares = torch.stack([(each.flatten(1) ** 2).sum(1) for each in gradients]).sum(0)
        factor = squares.clamp(min=1).rsqrt()
        for each in gradients:
            each.mul_(factor.view(-1, *[1] * (each.dim() - 1)))

    def accuracies(self) -> list[float]:
        """On the test images."""
        found = []
        with torch.no_grad():
            for x in scaled(self.images.test).split(1_000):
                many = x.expand(len(self), *x.shape)
                found.append(torch.vmap(self.logits)(self.weights, many).argmax(-1))
        return (torch.cat(found, dim=1) == self.images.test_labels).float().mean(1).tolist()

    def state(self) -> dict[str, Any]:
        """All that it takes to go on."""
        return {
            "weights": {name: each.detach() for name, each in self.weights.items()},
            "optimiser": self.optimiser.state_dict(),
            "random": self.random.get_state(),
            "epoch": self.epoch,
            "seconds": self.seconds,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        with torch.no_grad():
            for name, each in self.weights.items():
                each.copy_(state["weights"][name])
        self.optimiser.load_state_dict(state["optimiser"])
        self.random.set_state(state["random"].cpu())
        self.epoch, self.seconds = state["epoch"], state["seconds"]


def train_images(heads: int, arguments: Namespace) -> None:
    """All seeds of one shape, to files of their own."""
    name, folder = f"vit-{heads}", arguments.models
    if (folder / f"{name}-{arguments.seeds - 1}.pt").exists():
        return
    images = Images(arguments.images, arguments.device)
    images.train = images.train[: arguments.train]
    run = Lockstep(heads, images, arguments)
    unfinished = folder / f"{name}.unfinished.pt"
    if unfinished.exists():
        run.restore(torch.load(unfinished, map_location=arguments.device))
    while run.epoch < run.epochs:
        loss = run.run_epoch()
        if run.epoch % KEPT_EVERY == 0 or run.epoch == run.epochs:
            told = " ".join(f"{each:.1%}" for each in run.accuracies())
            print(f"{name}: epoch {run.epoch}, {run.seconds:.0f} s, loss {loss:.3f}, {told}", flush=True)
            write_torch(run.state(), unfinished)
    for seed, accuracy in enumerate(run.accuracies()):
        weights = {key: each[seed].detach().cpu().half() for key, each in run.weights.items()}
        about = {"heads": heads, "shape": arguments.shape, "accuracy": accuracy, "seconds": run.seconds}
        write_torch({"weights": weights, **about}, folder / f"{name}-{seed}.pt")
    unfinished.unlink()


def write_torch(content: Any, path: Path) -> None:
    """Whole or not at all."""
    part = path.with_suffix(".part")
    torch.save(content, part)
    part.replace(path)


def load_images(path: Path) -> VisionTransformer:
    """A trained model, its weights rounded to half precision and used in float32."""
    kept = torch.load(path, map_location="cpu")
    model = VisionTransformer(kept["heads"], **kept["shape"])
    model.load_state_dict({name: each.float() for name, each in kept["weights"].items()})
    return model.eval()


def passages(folder: Path, *, vocabulary: int = VOCABULARY, length: int = LENGTH) -> tuple[Tensor, Tensor]:
    """Passages of MS MARCO in rows of common words, 0 for all others: to train on, and held out."""
    with np.load(folder / "msmarco_tokens.npz") as archive:
        tokens, starts = archive["p_tok"].astype(np.int64), archive["p_off"]
    common = np.argsort(-np.bincount(tokens), kind="stable")[: vocabulary - 1]
    number = np.zeros(tokens.max() + 1, np.int64)
    number[common] = np.arange(1, vocabulary)
    rows = [
        number[tokens[start : start + length]]
        for start, end in pairwise(starts.tolist())
        if end - start >= length
    ]
    ids = torch.from_numpy(np.random.default_rng(0).permutation(np.stack(rows)))
    return ids[:-HELD_OUT], ids[-HELD_OUT:]


def language_model(**shape: int) -> nn.Module:
    """A Qwen2 with as many key-value heads as heads, so that there is something to group."""
    sizes = {"heads": LM_HEADS, "width": LM_WIDTH, "layers": LM_LAYERS, **shape}
    config = transformers.Qwen2Config(
        hidden_size=sizes["width"],
        num_attention_heads=sizes["heads"],
        num_key_value_heads=sizes["heads"],
        num_hidden_layers=sizes["layers"],
        intermediate_size=2 * sizes["width"],
        vocab_size=VOCABULARY,
        max_position_embeddings=LENGTH,
        tie_word_embeddings=True,
        use_cache=False,
        bos_token_id=None,
        eos_token_id=None,
    )
    return transformers.Qwen2ForCausalLM(config)


def next_token(logits: Tensor, ids: Tensor) -> Tensor:
    """Of every sample, the mean over known words."""
    known = ids[:, 1:] > 0
    each = functional.cross_entropy(logits[:, :-1].float().transpose(1, 2), ids[:, 1:], reduction="none")
    return (each * known).sum(1) / known.sum(1).clamp(min=1)


def train_language(arguments: Namespace) -> None:
    """Kept when it is done: it takes no longer than a call."""
    path = arguments.models / "qwen2-0.pt"
    if path.exists():
        return
    torch.manual_seed(0)
    model, device = language_model(**arguments.lm_shape).to(arguments.device), arguments.device
    train = passages(arguments.data)[0].to(device)
    on_cuda = torch.device(device).type == "cuda"
    optimiser = torch.optim.AdamW(model.parameters(), lr=LM_RATE, weight_decay=0.1, fused=on_cuda)
    began = time.monotonic()
    for step, places in enumerate(_draws(len(train), arguments.lm_steps, device)):
        for group in optimiser.param_groups:
            group["lr"] = LM_RATE * rate_at(step / arguments.lm_steps)
        with torch.autocast(torch.device(device).type, torch.bfloat16):
            logits = model(input_ids=train[places]).logits
        loss = next_token(logits, train[places]).mean()
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        if step % 200 == 0:
            print(f"qwen2: step {step}, {time.monotonic() - began:.0f} s, {loss.item():.3f}", flush=True)
    weights = {name: each.detach().cpu().half() for name, each in model.state_dict().items()}
    about = {"shape": arguments.lm_shape, "seconds": time.monotonic() - began}
    write_torch({"weights": weights, **about}, path)


def _draws(rows: int, steps: int, device: str) -> Iterator[Tensor]:
    random = torch.Generator(device).manual_seed(0)
    for _ in range(steps):
        yield torch.randint(rows, (LM_BATCH,), generator=random, device=device)


def load_language(path: Path) -> nn.Module:
    kept = torch.load(path, map_location="cpu")
    model = language_model(**kept["shape"])
    model.load_state_dict({name: each.float() for name, each in kept["weights"].items()})
    return model.eval()


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--images", type=Path, help="folder with CIFAR-10")
    parser.add_argument("--data", type=Path, help="folder with msmarco_tokens.npz")
    parser.add_argument("--models", type=Path, default=Path("runs/trained_models"))
    parser.add_argument("--only", choices=NAMES, nargs="+", default=NAMES)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--train", type=int, help="fewer images to train on, for a quick look")
    parser.add_argument("--shape", type=json.loads, default={}, help="of smaller ones: width, layers, stem")
    parser.add_argument("--lm-steps", type=int, default=LM_STEPS)
    parser.add_argument("--lm-shape", type=json.loads, default={}, help="heads, width, layers")
    arguments = parser.parse_args()
    arguments.models.mkdir(parents=True, exist_ok=True)
    for name in arguments.only:
        if name == "qwen2":
            train_language(arguments)
        else:
            train_images(int(name.partition("-")[2]), arguments)


if __name__ == "__main__":
    main()

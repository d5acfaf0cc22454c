"""A small vision transformer for `headcount inspect`: handwritten digits, trained in about a minute.

    pip install -e '.[examples,torch,transformers]'
    python examples/vit.py
    headcount inspect vit samples.npz --metric examples/vit.py:right --tolerance 0.03

The 1,797 images of 8 by 8 pixels come with scikit-learn. 600 train the model, shifted by up to one pixel; 800
others go to samples.npz, to inspect it with. The rest, test.npz, decides nothing: the last line prints the
accuracy on it.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import ViTConfig, ViTForImageClassification

CUTS = (600, 1400)  # images for training, for inspecting, for the test
EPOCHS, BATCH, RATE = 150, 50, 2e-3


def right(outputs: Any, batch: Mapping[str, Tensor]) -> Tensor:
    """1 for each image that the model gets right, 0 for the others."""
    return (outputs.logits.argmax(-1) == batch["labels"]).float()


def digits() -> list[dict[str, Tensor]]:
    """The three parts: images of one channel, from -1 to 1, and labels."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    images = (images.reshape(-1, 1, 8, 8) / 8 - 1).astype(np.float32)
    return [
        {"pixel_values": torch.from_numpy(images[some]), "labels": torch.from_numpy(labels[some])}
        for some in np.split(order, CUTS)
    ]


def shifted(images: Tensor) -> Tensor:
    """A batch of images, moved by at most one pixel in each direction."""
    down, across = torch.randint(3, (2,)).tolist()
    padded = torch.nn.functional.pad(images, (1, 1, 1, 1), value=-1.0)
    return padded[:, :, down : down + 8, across : across + 8]


def model() -> ViTForImageClassification:
    """4 layers of 8 heads of 8 numbers; an image is 16 patches of 2 by 2."""
    config = ViTConfig(
        image_size=8,
        patch_size=2,
        num_channels=1,
        hidden_size=64,
        num_hidden_layers=4,
        num_attention_heads=8,
        intermediate_size=128,
        num_labels=10,
        initializer_range=0.1,  # the usual 0.02 is for wider models
    )
    return ViTForImageClassification(config)


def train(network: ViTForImageClassification, samples: Mapping[str, Tensor]) -> None:
    """AdamW with one cycle of the learning rate."""
    images, labels = samples["pixel_values"], samples["labels"]
    optimizer = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=0.05)
    steps = EPOCHS * -(-len(labels) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps)
    network.train()
    for _ in range(EPOCHS):
        for places in torch.randperm(len(labels)).split(BATCH):
            optimizer.zero_grad()
            network(pixel_values=shifted(images[places]), labels=labels[places]).loss.backward()
            optimizer.step()
            schedule.step()
    network.eval()


def main() -> None:
    """Write the folder vit, samples.npz and test.npz."""
    torch.manual_seed(0)
    training, samples, test = digits()
    network = model()
    train(network, training)
    network.save_pretrained("vit")
    np.savez("samples.npz", **{name: each.numpy() for name, each in samples.items()})
    np.savez("test.npz", **{name: each.numpy() for name, each in test.items()})
    with torch.no_grad():
        accuracy = right(network(test["pixel_values"]), test).mean().item()
    print(f"Wrote vit, samples.npz and test.npz. Accuracy on test.npz: {accuracy:.1%}")


if __name__ == "__main__":
    main()

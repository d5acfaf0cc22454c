"""Whether `Transformer.to_torch` gives the same function: every architecture of the tests' table, in float64.

    python benchmarks/torch_module.py

Compares the outputs of a batch, and the gradients of their sum with respect to inputs and parameters, with
and without hidden tokens. Writes the largest relative difference of each architecture to
benchmarks/results/torch_module.json; fails where one is above the tolerance.
"""

import importlib
import platform
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from recording import RESULTS, about, parser_of, write_json

from headcount.models.saving import named_leaves
from headcount.models.torch_module import torch_name
from headcount.models.transformer import Transformer

TOLERANCE = 1e-10
BATCH = 3

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "models"))
table: Any = importlib.import_module("model_references")


def ours(model: Transformer, x: np.ndarray, mask: np.ndarray | None) -> dict[str, np.ndarray]:
    """Outputs and gradients by JAX, under the names of the PyTorch module."""
    hidden = np.ones(x.shape[:2], bool) if mask is None else mask

    def summed(model: Transformer, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        outputs = jax.vmap(lambda one, seen: model(one, mask=seen))(x, hidden)
        return outputs.sum(), outputs

    (_, outputs), (gradient, of_x) = jax.value_and_grad(summed, argnums=(0, 1), has_aux=True)(
        model, jnp.asarray(x)
    )
    gradients = {torch_name(name): leaf for name, leaf in named_leaves(gradient).items()}
    return {"outputs": np.asarray(outputs), "x": np.asarray(of_x), **gradients}


def theirs(model: Transformer, x: np.ndarray, mask: np.ndarray | None) -> dict[str, np.ndarray]:
    """The same by PyTorch."""
    module, inputs = model.to_torch(), torch.tensor(x, requires_grad=True)
    outputs = module(inputs, None if mask is None else torch.tensor(mask))
    outputs.sum().backward()
    found = {"outputs": outputs, "x": inputs.grad}
    # A model that is read at its last token does not use its class token.
    found |= {
        name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        for name, parameter in module.named_parameters()
    }
    return {name: tensor.detach().numpy() for name, tensor in found.items()}


def difference(model: Transformer, x: np.ndarray, mask: np.ndarray | None) -> float:
    """The largest difference, relative to the largest output, or to the largest entry of any gradient.

    Single arrays will not do: where attention is close to uniform, the gradient of a query is rounding alone.
    """
    wanted, found = ours(model, x, mask), theirs(model, x, mask)
    assert wanted.keys() == found.keys()
    gradients = wanted.keys() - {"outputs"}
    return max(
        max(float(np.abs(found[name].ravel() - wanted[name].ravel()).max()) for name in names)
        / max(float(np.abs(wanted[name]).max()) for name in names)
        for names in ({"outputs"}, gradients)
    )


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    random = np.random.default_rng(0)
    mask = np.arange(table.LENGTH) != np.arange(1, 1 + BATCH)[:, None]
    mask[-1, -1] = False  # the last token that is left is another one here
    found = {}
    with jax.enable_x64(True):
        for name, architecture in table.ARCHITECTURES.items():
            model = table.double(Transformer.initialise(architecture, seed=3))
            x = random.normal(size=(BATCH, table.LENGTH, architecture.token_dim))
            found[name] = max(difference(model, x, None), difference(model, x, mask))
            print(f"{name:60} {found[name]:.1e}")
    result = {
        "tolerance": TOLERANCE,
        "largest_relative_difference": found,
        **about(f"torch {torch.__version__}", f"python {platform.python_version()}"),
    }
    write_json(arguments.out / "torch_module.json", result)
    if max(found.values()) > TOLERANCE:
        sys.exit(f"the two differ by more than {TOLERANCE}")


if __name__ == "__main__":
    main()

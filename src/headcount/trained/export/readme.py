"""The README of a shrunk model: what it is, how it is loaded, and how that is checked."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from headcount.trained.export.check import CHECK, ONE, PREFIX, tolerance_of
from headcount.trained.export.inputs import PREFIX as INPUT
from headcount.trained.export.inputs import Inputs
from headcount.trained.export.smaller import Loading

KINDS = {
    "stock": "Stock: transformers loads this folder as it is",
    "code": "Remote code: transformers loads this folder with the few lines of code in it",
    "export": "torch.export: torch alone loads this program",
}


def readme(
    kind: str,
    loading: Loading,
    *,
    folder: str,
    counts: Sequence[tuple[str, int, int]],
    inputs: Inputs,
    outputs: Mapping[str, Tensor],
) -> str:
    """The text of the file.

    - `counts`: of every layer its name, and its heads before and after.
    """
    before, after = sum(whole for _, whole, _ in counts), sum(left for _, _, left in counts)
    rows = "\n".join(f"| {name} | {whole} | {left} |" for name, whole, left in counts)
    return f"""# {KINDS[kind]}

{after} of {before} attention heads. {" ".join(loading.says)}

```python
{lines_of(loading, folder)}
```

## Check it

`{CHECK}` holds inputs that were drawn at random and what this model made of them.

```python
{check_lines(folder, inputs, outputs)}
```

## Heads of each layer

| layer | before | after |
|---|---|---|
{rows}

Written by headcount.
"""


def lines_of(loading: Loading, folder: str) -> str:
    """The Python that loads a folder."""
    return "\n".join(loading.lines).replace("{folder}", folder)


def check_lines(folder: str, inputs: Inputs, outputs: Mapping[str, Tensor]) -> str:
    """The Python that holds the outputs of the loaded model against those in the file."""
    given = [f'check["{INPUT}{place}"]' for place in range(len(inputs.positional))]
    given += [f'{name}=check["{INPUT}{name}"]' for name in inputs.named]
    pairs = [
        ("outputs" if name == ONE else f'outputs["{name.removeprefix(PREFIX)}"]', f'check["{name}"]')
        for name in outputs
    ]
    tolerance = f"{tolerance_of(outputs):g}"
    return "\n".join(
        [
            "import torch",
            "from safetensors.torch import load_file",
            "",
            f'check = load_file("{folder}/{CHECK}")',
            "with torch.no_grad():",
            f"    outputs = model({', '.join(given)})",
            *(
                f"torch.testing.assert_close({found}, {wanted}, rtol={tolerance}, atol={tolerance})"
                for found, wanted in pairs
            ),
        ]
    )

"""`headcount demo`: an example whose answer is known, asked as a user would ask."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headcount.commands.estimate import estimate_samples
from headcount.commands.options import AsJson, Out
from headcount.validation import expected

if TYPE_CHECKING:
    import numpy as np

DIMENSION, LENGTH, SAMPLES, NOISE = 3, 16, 4_000, 0.02


def demo(
    out: Out = Path("demo"),
    seed: Annotated[int, typer.Option(help="Seed of the data and of the members.", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """How many heads does an example need? The main job, in a minute or two.

    Writes samples of y = sum of three maxima, with a little noise, to a file beside OUT, and runs `headcount
    estimate` on them. Three is right: each maximum needs a head of its own.
    """
    import numpy as np

    from headcount.data.arrays import data_set
    from headcount.results.files import check_writable, write_whole

    place = out.resolve()
    if not place.name:
        raise expected("--out", "a folder with a name", str(out))
    example = out.parent / f"{place.name}.npz" if out.name else place.with_name(f"{place.name}.npz")
    check_writable("--out", out)
    parts = example_data(seed=seed)
    write_whole(example, lambda file: np.savez(file, **parts))  # type: ignore[arg-type]
    command = f"headcount estimate {shlex.quote(str(example))} --out {shlex.quote(str(out))} --seed {seed}"
    samples = data_set(parts["x"], parts["y"], name=example.name)
    estimate_samples(samples, out, seed=seed, as_json=as_json, command=command)


def example_data(*, seed: int = 0) -> dict[str, "np.ndarray"]:
    """Sums of the largest first, second and third feature of a sequence, plus a little noise.

    Features are uniform: without rare sequences far from all others, error and distance fall alike.
    """
    import numpy as np

    random = np.random.default_rng(seed)
    x = random.uniform(size=(SAMPLES, LENGTH, DIMENSION)).astype(np.float32)
    y = x.max(axis=1).sum(axis=1)
    return {"x": x, "y": y + NOISE * y.std() * random.normal(size=SAMPLES)}

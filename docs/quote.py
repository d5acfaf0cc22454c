"""Fills the quoted parts of the README and its picture from committed results: `make docs`.

A quoted part stands between `<!-- quote: NAME -->` and `<!-- end -->`. With `--check` nothing is written
and the exit code says whether anything is out of date.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from headcount.estimate import transitions
from headcount.report import error_against_length, save_chart

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PICTURE = ROOT / "docs" / "transition.svg"


def demo() -> str:
    frame = pd.read_parquet(RESULTS / "demo.parquet")
    sentences = "\n".join(str(transition) for transition in transitions(frame))
    machine = frame["device"].iloc[0]
    return f"```\n{sentences}\n```\n\n({len(frame)} members, {frame['seconds'].sum():.0f} s on {machine}.)"


def engine() -> str:
    rows = [
        "| machine | eager PyTorch | this engine | ratio | compile | of the product rate |",
        "|---|---|---|---|---|---|",
    ]
    for kind in ("cpu", "gpu"):
        result = json.loads((RESULTS / f"engine-{kind}.json").read_text())
        cells = (
            f"{result['machine']}, {result['members']} members",
            _time(result["torch_eager_us"]),
            _time(result["engine_us"]),
            f"**{result['ratio']:.0f}×**",
            f"{result['compile_seconds']:.1f} s",
            f"{result['fraction_of_product_rate']:.1%}",
        )
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _time(microseconds: float) -> str:
    return f"{microseconds / 1000:.1f} ms" if microseconds >= 1000 else f"{microseconds:.0f} µs"


QUOTES: dict[str, Callable[[], str]] = {"demo": demo, "engine": engine}


def quoted(text: str) -> str:
    """The text with every quoted part made anew."""
    pattern = re.compile(r"(<!-- quote: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
    return pattern.sub(lambda found: f"{found[1]}{QUOTES[found[2]]()}\n{found[3]}", text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    if check:
        sys.exit(None if quoted(text) == text else "README.md is out of date: run `make docs`")
    readme.write_text(quoted(text), encoding="utf-8")
    frame = pd.read_parquet(RESULTS / "demo.parquet")
    save_chart(error_against_length(frame[frame["dimension"] == 3]), PICTURE)


if __name__ == "__main__":
    main()

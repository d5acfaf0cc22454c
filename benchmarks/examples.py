"""The two estimates that the docs show, as the command line prints them: the demo, and handwritten digits.

    python benchmarks/examples.py [demo] [digits] [--pages FOLDER]

Writes benchmarks/results/demo.json and digits.json: the content of estimate.json, and the printed lines.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from recording import RESULTS, about, parser_of, write_json

ROOT = Path(__file__).parent.parent
ESTIMATES = {"demo": ("demo",), "digits": ("estimate", "digits.npz")}
DIGITS = ROOT / "examples" / "digits.py"


def recorded(name: str, folder: Path) -> dict[str, object]:
    """An estimate in a terminal of 80 columns, nothing compiled before."""
    own = {"COLUMNS": "80", "HEADCOUNT_CACHE": str(folder / "cache")}
    if name == "digits":
        subprocess.run([sys.executable, str(DIGITS)], cwd=folder, check=True)
    command = [str(Path(sys.executable).with_name("headcount")), *ESTIMATES[name], "--out", name]
    done = subprocess.run(
        command, cwd=folder, env=os.environ | own, stdout=subprocess.PIPE, text=True, check=True
    )
    printed = [line.rstrip() for line in done.stdout.splitlines() if not line.startswith("Page:")]
    found = json.loads((folder / name / "estimate.json").read_text())
    return {**found, "printed": printed, **about()}


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ESTIMATES)}; all by default")
    parser.add_argument("--pages", type=Path, help="folder for the page of each")
    chosen = parser.parse_args()
    for name in chosen.names or ESTIMATES:
        with TemporaryDirectory() as folder:
            found = recorded(name, Path(folder))
            write_json(RESULTS / f"{name}.json", found)
            if chosen.pages is not None:
                page = (Path(folder) / name / "report.html").read_bytes()
                (chosen.pages / f"{name}.html").write_bytes(page)
        print("\n".join(found["printed"]))  # type: ignore[arg-type]  # a list of lines


if __name__ == "__main__":
    main()

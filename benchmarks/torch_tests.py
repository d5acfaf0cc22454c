"""The tests marked `torch`, with the real packages: `make test-torch` installs these and calls this.

Writes when they ran, with which versions, and how many passed to benchmarks/results/torch_tests.json; fails
where one does not pass.
"""

import platform
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

from recording import RESULTS, about, parser_of, write_json

ROOT = Path(__file__).parents[1]
TESTS = ("tests/with_torch", "tests/docs/test_documents.py")


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS)
    out = parser.parse_args().out
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [sys.executable, "-m", "pytest", "-m", "torch", f"--junitxml={report}", *TESTS]
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
        suite = ElementTree.parse(report).getroot()[0]
    counts = {name: int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped")}
    passed = counts["tests"] - counts["failures"] - counts["errors"] - counts["skipped"]
    named = ("torch", "datasets", "transformers", "timm")
    packages = [f"{package} {version(package)}" for package in named if find_spec(package)]
    result = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "passed": passed,
        **counts,
        **about(*packages, f"python {platform.python_version()}"),
    }
    write_json(out / "torch_tests.json", result)
    sys.exit(code)


if __name__ == "__main__":
    main()

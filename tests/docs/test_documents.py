"""What the README and the docs show must run, and what they quote must be what the results say."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import headcount

ROOT = Path(__file__).parent.parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TORCH = re.compile(r"^(import|from) (torch|datasets)\b", re.MULTILINE)
EXAMPLES = [
    pytest.param(code, id=f"{path.name}-{place}", marks=[pytest.mark.torch] if TORCH.search(code) else [])
    for path in DOCUMENTS
    for place, code in enumerate(re.findall(r"```python\n(.*?)```", path.read_text("utf-8"), re.DOTALL))
]
# Few steps and small members: that the example runs is what is asked here.
SOONER = """
import functools
from headcount.estimate import study
study.MemberRecipe = functools.partial(study.MemberRecipe, steps=100, batch_size=32, width=8, hidden=8)
"""
# How data is read and what is printed of it, without training.
READ_ALONE = """
from headcount.api import head_count
def read(self, drawn, *_):
    print(drawn(0)[0].summary)
head_count.HeadCount._fit = read
"""
DATA_PAGE = (ROOT / "docs" / "data.md").read_text("utf-8")
QUICKLY = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "true"}  # an example compiles longer than it computes


@pytest.mark.parametrize("code", EXAMPLES)
def test_examples_run(code, tmp_path):
    script = tmp_path / "example.py"
    if code in DATA_PAGE:
        script.write_text(READ_ALONE + code)
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
        assert done.stdout.strip() in code.replace("\n# ", " ")
        return
    fewer = re.sub(r"\bsteps=[\d_]+", "steps=100", code)
    script.write_text(SOONER + fewer if "HeadCount" in code else fewer)
    subprocess.run([sys.executable, script], cwd=tmp_path, env={**os.environ, **QUICKLY}, check=True)


def test_quoted_numbers_are_those_of_the_results():
    subprocess.run([sys.executable, ROOT / "docs" / "quote.py", "--check"], check=True)


def test_the_api_page_lists_each_public_name_once():
    names = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "api.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(names) == sorted(headcount.__all__)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text("utf-8")):
        assert (document.parent / target).exists(), target

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


def test_links_lead_somewhere():
    subprocess.run([sys.executable, ROOT / "docs" / "links.py"], check=True)


@pytest.mark.parametrize("link", ["missing.md", "page.md#no-such-heading", "#neither", "page.md#in-code"])
def test_a_broken_link_is_found(link, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    from links import broken

    page = tmp_path / "page.md"
    page.write_text(
        f"# What is `h`?\n\n```\n# In code\n```\n\n[fine](#what-is-h) [other](page.md) [not]({link})"
    )
    assert [problem.split(":")[0] for problem in broken(page)] == [link]


@pytest.mark.long
def test_the_tutorial_runs_and_finds_what_it_says():
    import nbformat
    from nbclient import NotebookClient

    path = ROOT / "docs" / "tutorial.ipynb"
    committed, again = (nbformat.read(path, as_version=4) for _ in range(2))
    NotebookClient(again, timeout=None, kernel_name="python3").execute()
    assert answers_of(again) == answers_of(committed)


def answers_of(notebook):
    """What its cells give as text: errors vary with the machine, answers do not."""
    texts = (
        output["data"]["text/plain"]
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "execute_result"
    )
    return [text for text in texts if "e-0" not in text]

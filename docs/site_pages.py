"""What the site needs beside the Markdown of the repository; mkdocs.yml loads it.

- README.md is the first page, CONTRIBUTING.md another, the notebook a third.
- A file outside docs/ to which a page links is copied to `repository/`.
- `<details>` hold Markdown, as on GitHub.
- The API page goes on with the docstrings of the names in its tables.
"""

import json
import os
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from links import LINK, ROOT, broken, documents, outside_code, text_of
from mkdocs.structure.files import File, Files

import headcount

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

MOVED = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "docs/tutorial.ipynb": "tutorial.md"}
COPIES = "repository"
NAME = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)
SECTION = re.compile(r"^(?=## )", re.MULTILINE)


def on_files(files: Files, config: "MkDocsConfig") -> Files:
    """Adds the pages from outside docs/ and the files that pages link to."""
    for source, uri in MOVED.items():
        text = (ROOT / source).read_text("utf-8")
        content = paged(json.loads(text)) if source.endswith(".ipynb") else text
        files.append(File.generated(config, uri, content=content))
    for path in sorted(linked_outside()):
        files.append(File.generated(config, f"{COPIES}/{path}", abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: "Page", config: "MkDocsConfig", files: Files) -> str:
    """The Markdown of a page as the site needs it."""
    uri = page.file.src_uri
    origin = next((source for source, moved in MOVED.items() if moved == uri), f"docs/{uri}")
    markdown = outside_code(markdown, lambda prose: _relinked(prose, origin, uri))
    markdown = markdown.replace("<details>", '<details markdown="1">')
    return documented(markdown) if uri == "api.md" else markdown


def _relinked(prose: str, origin: str, uri: str) -> str:
    def there(found: re.Match[str]) -> str:
        target, anchor = found[1], f"#{found[2]}" if found[2] else ""
        if not target or re.match(r"\w+:", target):
            return found[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))
        return posixpath.relpath(place_of(path), posixpath.dirname(uri) or ".") + anchor

    return LINK.sub(there, prose)


def place_of(path: str) -> str:
    """Where a file of the repository stands on the site."""
    if path in MOVED:
        return MOVED[path]
    return path.removeprefix("docs/") if path.startswith("docs/") else f"{COPIES}/{path}"


def linked_outside() -> set[str]:
    """The files that documents link to and that are neither under docs/ nor a page."""
    found = set()
    for document in documents(ROOT):
        problems = list(broken(document))
        assert not problems, f"{document}: {problems}"
        for target, _ in LINK.findall(text_of(document)):
            path = Path(os.path.normpath(document.parent / target)) if target else document
            if ":" not in target and path.is_file():
                found.add(path.relative_to(ROOT).as_posix())
    return {path for path in found if not path.startswith("docs/")} - set(MOVED)


def paged(notebook: dict[str, Any]) -> str:
    """A notebook with its outputs as Markdown."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        parts += [_output(output) for output in cell.get("outputs", ())]
    return "\n\n".join(parts)


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {"text/plain": output.get("text", "")})
    if "text/html" not in data:
        return f"```text\n{''.join(data['text/plain'])}\n```"
    html = re.sub(r"<style.*?</style>", "", "".join(data["text/html"]), flags=re.DOTALL)
    return f"<div>\n{re.sub('<table[^>]*>', '<table>', html)}\n</div>"


def documented(markdown: str) -> str:
    """The API page with the docstrings of every section's names below its table."""
    homes = headcount._HOMES
    sections = []
    for section in SECTION.split(markdown):
        names = [name for name in NAME.findall(section) if name in homes]
        sections += [section, *(f"\n::: headcount.{homes[name]}.{name}\n\n" for name in names)]
    return "".join(sections)

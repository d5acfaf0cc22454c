"""Checks every link between the documents, anchors included: `python docs/links.py`.

Anchors are those that GitHub gives to headings; mkdocs.yml asks for the same on the site.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"(?<=\]\()([^()\s#]*)(?:#([^()\s]*))?(?=\))")
FENCED = re.compile(r"(^ *```.*?^ *```[^\n]*$|`[^`\n]+`)", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


def documents(root: Path) -> list[Path]:
    """Everything that a reader finds links in."""
    return [*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md")), *notebooks(root)]


def notebooks(root: Path) -> list[Path]:
    return sorted((root / "docs").glob("*.ipynb"))


def text_of(document: Path) -> str:
    """Its Markdown: of a notebook, the cells that hold some."""
    text = document.read_text("utf-8")
    if document.suffix != ".ipynb":
        return text
    cells = json.loads(text)["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """The text, changed wherever it is not code."""
    parts = FENCED.split(text)
    return "".join(part if place % 2 else change(part) for place, part in enumerate(parts))


def anchors(text: str) -> set[str]:
    r"""The anchors of all headings, as GitHub makes them.

    >>> sorted(anchors("# What is `h`?\n\n## Twice\n\n## Twice"))
    ['twice', 'twice-1', 'what-is-h']
    """
    found: dict[str, int] = {}
    for heading in HEADING.findall(re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        found[slug] = found.get(slug, -1) + 1
    again = {f"{slug}-{time}" for slug, last in found.items() for time in range(1, last + 1)}
    return {*found, *again}


def broken(document: Path) -> Iterator[str]:
    """Every link of a document that leads nowhere."""
    prose = FENCED.sub("", text_of(document))
    for target, anchor in LINK.findall(prose):
        if re.match(r"\w+:", target):
            continue
        place = document if not target else (document.parent / target).resolve()
        if not place.exists():
            yield f"{target}: no such file"
        elif anchor and place.suffix in (".md", ".ipynb") and anchor not in anchors(text_of(place)):
            yield f"{target}#{anchor}: no such heading"


def main() -> None:
    found = [f"{each.relative_to(ROOT)}: {problem}" for each in documents(ROOT) for problem in broken(each)]
    sys.exit("\n".join(found) if found else None)


if __name__ == "__main__":
    main()

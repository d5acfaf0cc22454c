import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from believable import ODD_FRAMES, believable_frame, diverge, in_cell

from headcount.errors import StorageError
from headcount.report.page import error_against_length, heat_map, render_page, write_page

WORDS = {"title": "Heads", "findings": ["It needs 4 heads.", "Give it 4."], "command": "headcount demo"}
EVIL = "</script><script>alert('x')</script>&\"<b>"


class Elements(HTMLParser):
    """Every start tag with its attributes, and the text inside."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def handle_data(self, text):
        if self.found:
            self.texts.append((self.found[-1][0], text))

    def tags(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.found if tag == name]

    def text_of(self, name: str) -> str:
        return "".join(text for tag, text in self.texts if tag == name)


@pytest.mark.parametrize("name", ["one member", "everyone diverged", "dimension not known"])
def test_odd_frames_have_a_page(name):
    assert render_page(ODD_FRAMES[name], **WORDS).rstrip().endswith("</html>")


def test_each_task_and_dimension_has_a_section_after_the_findings():
    frames = [believable_frame(task="a", seeds=1), believable_frame(task="b", dimension=2, seeds=1)]
    page = render_page(pd.concat(frames), **WORDS)
    elements = Elements(page)
    assert elements.text_of("h2").split() == ["a", "b", "How", "it", "was", "computed"]
    assert len(elements.tags("table")) == 2
    first, second = map(page.index, WORDS["findings"])
    assert first < second < page.index("<section")


def test_the_page_holds_the_charts_as_they_are():
    frame = believable_frame(seeds=1)
    page = render_page(frame, **WORDS)
    plot, heat = re.findall(r'<script type="application/json" id="[^"]*">(.*?)</script>', page, re.DOTALL)
    assert json.loads(plot) == error_against_length(frame).to_dict()
    assert json.loads(heat) == heat_map(frame).to_dict()


def test_everything_a_user_could_write_is_escaped():
    names = ("task", "device", "precision", "versions", "metric")
    frame = believable_frame(seeds=1).assign(**dict.fromkeys(names, EVIL))
    page = render_page(frame, title=EVIL, findings=[EVIL, EVIL], command=EVIL)
    assert "alert('x')" not in page
    plain = Elements(render_page(believable_frame(seeds=1), **WORDS))
    assert [tag for tag, _ in Elements(page).found] == [tag for tag, _ in plain.found]


def test_nothing_is_fetched_from_anywhere():
    elements = Elements(render_page(believable_frame(seeds=1), **WORDS))
    leading = {"src", "href", "srcset", "data", "action"}
    found = [attributes[name] for _, attributes in elements.found for name in leading & set(attributes)]
    assert found == ["data:,"]
    assert "url(" not in elements.text_of("style")
    (policy,) = [meta["content"] for meta in elements.tags("meta") if "http-equiv" in meta]
    assert policy.startswith("default-src 'none'")


def test_every_table_cell_has_its_headers():
    elements = Elements(render_page(believable_frame(seeds=1), **WORDS))
    scopes = [header["scope"] for header in elements.tags("th")]
    assert (scopes.count("row"), scopes.count("col")) == (6, 1 + 5)
    assert len(elements.tags("td")) == 6 * 5


def test_the_page_says_how_it_was_computed_and_how_many_failed():
    frame = believable_frame(seeds=3)
    page = render_page(diverge(frame, in_cell(frame, heads=1, length=8)), **WORDS)
    facts = [line.strip() for line in Elements(page).text_of("dd").split("\n") if line.strip()]
    assert facts == ["180", "6", "cpu", "float32", "headcount 0.1.0, jax 0.10.2", "4 min 30 s"]
    assert "6 of 6 failed" in page


def test_a_new_page_replaces_the_old_one_unless_the_place_is_unwritable(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")

    def refuse(self, target):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", refuse)
        with pytest.raises(StorageError, match=r"report\.html.*Permission denied"):
            write_page(believable_frame(seeds=1), path, **WORDS)
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]
    write_page(believable_frame(seeds=1), path, **WORDS)
    assert path.read_text(encoding="utf-8") == render_page(believable_frame(seeds=1), **WORDS)
    assert list(tmp_path.iterdir()) == [path]

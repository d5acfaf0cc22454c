import json
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from believable import ODD_FRAMES, believable_frame, diverge, in_cell

from headcount.errors import StorageError
from headcount.report.page import error_against_length, heat_map, render_page, write_page

WORDS = {"title": "Heads", "findings": ["It needs 4 heads."], "command": "headcount demo"}
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


def test_each_task_and_dimension_has_a_section():
    frames = [believable_frame(task="a", seeds=1), believable_frame(task="b", dimension=2, seeds=1)]
    elements = Elements(render_page(pd.concat(frames), **WORDS))
    assert elements.text_of("h2").split() == ["a", "b", "How", "it", "was", "computed"]
    assert len(elements.tags("table")) == 2


def test_the_page_holds_the_charts_as_they_are():
    frame = believable_frame(seeds=1)
    page = render_page(frame, **WORDS)
    blocks = [
        part.partition("</script>")[0] for part in page.split('<script type="application/json" id="')[1:]
    ]
    plot, heat = (json.loads(block.partition('">')[2]) for block in blocks)
    assert plot == error_against_length(frame).to_dict()
    assert heat == heat_map(frame).to_dict()


def test_everything_a_user_could_write_is_escaped():
    frame = believable_frame(task=EVIL, seeds=1).assign(
        device=EVIL, precision=EVIL, versions=EVIL, metric=EVIL
    )
    page = render_page(frame, title=EVIL, findings=[EVIL], command=EVIL)
    assert "alert('x')" not in page
    plain = Elements(render_page(believable_frame(seeds=1), **WORDS))
    assert [tag for tag, _ in Elements(page).found] == [tag for tag, _ in plain.found]


def test_nothing_is_fetched_from_anywhere():
    elements = Elements(render_page(believable_frame(seeds=1), **WORDS))
    addresses = [
        attributes[name]
        for _, attributes in elements.found
        for name in ("src", "href", "srcset", "data", "action")
        if name in attributes
    ]
    assert addresses == ["data:,"]
    assert "url(" not in elements.text_of("style")
    (policy,) = [meta["content"] for meta in elements.tags("meta") if "http-equiv" in meta]
    assert policy.startswith("default-src 'none'")


def test_findings_stand_before_the_first_section_in_their_order():
    page = render_page(believable_frame(seeds=1), title="t", findings=["First.", "Second."], command="c")
    assert page.index("First.") < page.index("Second.") < page.index("<section")


def test_every_table_cell_has_its_headers():
    elements = Elements(render_page(believable_frame(seeds=1), **WORDS))
    scopes = [header["scope"] for header in elements.tags("th")]
    assert scopes.count("row") == 6
    assert scopes.count("col") == 1 + 5
    assert len(elements.tags("td")) == 6 * 5


def test_the_page_says_how_it_was_computed():
    frame = believable_frame(seeds=3)
    frame = diverge(frame, in_cell(frame, heads=1, length=8))
    text = Elements(render_page(frame, **WORDS)).text_of("dd").split("\n")
    facts = [line.strip() for line in text if line.strip()]
    assert facts == ["180", "6", "cpu", "float32", "headcount 0.1.0, jax 0.10.2", "4 min 30 s"]


def test_a_cell_that_diverged_shows_how_many_failed():
    frame = believable_frame(seeds=3)
    page = render_page(diverge(frame, in_cell(frame, heads=1, length=8)), **WORDS)
    assert "6 of 6 failed" in page


def test_an_unwritable_place_is_named_and_leaves_the_old_page(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")

    def refuse(self, target):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(StorageError, match=r"report\.html.*Permission denied"):
        write_page(believable_frame(seeds=1), path, **WORDS)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_new_page_takes_the_place_of_the_old_one(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    write_page(believable_frame(seeds=1), path, **WORDS)
    assert path.read_text(encoding="utf-8") == render_page(believable_frame(seeds=1), **WORDS)
    assert list(tmp_path.iterdir()) == [path]

"""The page of public names has all of them, each once, and no other."""

import re
from pathlib import Path

import headcount

PAGE = Path(__file__).parents[2] / "docs" / "api.md"


def test_the_page_lists_exactly_the_public_names():
    assert sorted(re.findall(r"^\| `(\w+)` \|", PAGE.read_text("utf-8"), re.MULTILINE)) == sorted(
        headcount.__all__
    )

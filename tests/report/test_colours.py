import re
from importlib.resources import files

import numpy as np
import pytest

from headcount.report.theme import head_colours

PAGES = re.findall(r"--page: (#\w{6});", (files("headcount.report") / "templates/page.css").read_text())
SIDES = [(below, enough) for below in (0, 1, 3, 15) for enough in (0, 1, 3, 16)]


def luminance(colour: str) -> float:
    channels = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted([luminance(one), luminance(other)])
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize(("below", "enough"), SIDES)
def test_every_number_of_heads_has_a_colour_of_its_own(below, enough):
    colours = head_colours(below=below, enough=enough)
    assert len(set(colours)) == below + enough


@pytest.mark.parametrize(("below", "enough"), SIDES)
def test_each_side_darkens_with_heads(below, enough):
    lights = [luminance(colour) for colour in head_colours(below=below, enough=enough)]
    for side in (lights[:below], lights[below:]):
        assert side == sorted(side, reverse=True)


@pytest.mark.parametrize(("below", "enough"), SIDES)
def test_every_colour_stands_out_on_the_light_and_on_the_dark_page(below, enough):
    assert len(PAGES) == 2
    for colour in head_colours(below=below, enough=enough):
        assert min(contrast(colour, page) for page in PAGES) >= 3

"""The page as a user opens it: from disk, without a network, in a real browser."""

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from believable import believable_frame, diverge, in_cell
from believable_estimate import write_believable_page
from believable_inspection import FULL, believable_inspection
from playwright.sync_api import Browser, Locator, Page, sync_playwright

from headcount.report.inspection import write_inspection
from headcount.report.page import write_page
from headcount.report.plan_chart import write_plan
from headcount.theory.model_config import model_config
from headcount.theory.plan import Family, plan
from headcount.theory.plan_answer import PlanAnswer

QUIET = ("background-networking", "component-update", "gpu", "sync")
FLAGS = ["--no-sandbox", "--no-first-run", *(f"--disable-{feature}" for feature in QUIET)]

pytestmark = pytest.mark.browser


@dataclass
class Opened:
    """A page together with everything it asked for and complained about."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def chart(self, name: str) -> Locator:
        return self.page.locator(f'[data-specification="{name}-1"]')


def open_page(
    browser: Browser, path: Path, *, width: int = 1200, scheme: str = "light", last: str = "heat-1"
) -> Opened:
    """The page once its last chart is drawn."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True, service_workers="block"
    )
    opened = Opened(context.new_page())
    opened.page.on("request", lambda request: opened.requests.append(request.url))
    opened.page.on("pageerror", lambda error: opened.complaints.append(str(error)))
    opened.page.on("console", lambda message: opened.complaints.append(f"{message.type}: {message.text}"))
    opened.page.goto(path.as_uri())
    opened.page.locator(f'[data-specification="{last}"] svg').wait_for()
    return opened


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("Chromium was not found: the browser test did not run")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    frame = believable_frame(seeds=2)
    frame = diverge(frame, in_cell(frame, heads=3, length=32))
    path = tmp_path_factory.mktemp("page") / "report of 100 %.html"
    write_page(frame, path, title="Heads", findings=["It needs 4 heads."], command="headcount demo")
    return path


@pytest.fixture(scope="module")
def opened(browser: Browser, path: Path) -> Opened:
    return open_page(browser, path)


def test_every_number_of_heads_every_member_and_every_cell_is_drawn(opened: Opened):
    lines = opened.chart("plot").locator('path[aria-roledescription="line mark"]')
    assert lines.count() == 6 and all(line.bounding_box()["width"] > 100 for line in lines.all())
    points = opened.chart("plot").locator('path[aria-roledescription="point"][aria-label*="seed"]')
    members, selected, crosses = 6 * 5 * 4 - 4, 6 * 5 - 1, 1
    assert points.count() == members + selected + crosses
    cells = opened.chart("heat").locator(".mark-text.role-mark text").all_text_contents()
    assert len(cells) == 6 * 5 and cells.count("×") == 1


def test_a_point_shows_its_value_when_pointed_at(opened: Opened):
    point = opened.chart("plot").locator('path[aria-roledescription="point"][aria-label*="heads: 4"]').last
    (error,) = re.findall(r"; test error: ([^;]+);", point.get_attribute("aria-label"))
    point.hover()
    tooltip = opened.page.locator("#vg-tooltip-element.visible")
    tooltip.wait_for()
    text = tooltip.inner_text()
    assert all(word in text for word in (error, "heads", "length", "seed", "learning rate"))


def test_a_click_on_the_legend_fades_the_other_lines_and_a_second_restores_them(opened: Opened):
    chart, line = opened.chart("plot"), 'path[aria-roledescription="line mark"]'
    entry = chart.locator(".role-legend-label text", has_text="4 = D")

    def opacities() -> list[float]:
        return [float(each.get_attribute("opacity") or 1) for each in chart.locator(line).all()]

    before = opacities()
    entry.click()
    chart.locator(f'{line}[opacity="0.08"]').first.wait_for()
    clicked = opacities()
    entry.click()
    opened.page.wait_for_function(f"!document.querySelector('{line}[opacity=\"0.08\"]')")
    assert before == opacities() == [1] * 6
    assert sorted(clicked) == [0.08] * 5 + [1]


@pytest.mark.parametrize(
    ("width", "scheme", "ink"),
    [(400, "dark", "rgb(228, 230, 234)"), (1200, "light", "rgb(29, 32, 37)"), (2000, "dark", None)],
)
def test_the_page_fits_its_window_takes_its_colours_and_asks_for_nothing_else(
    browser: Browser, path: Path, width, scheme, ink
):
    opened = open_page(browser, path, width=width, scheme=scheme)
    opened.page.wait_for_load_state("networkidle")
    assert opened.page.evaluate("document.documentElement.scrollWidth") == width
    for name in ("plot", "heat"):
        assert opened.chart(name).locator("svg").bounding_box()["width"] > width / 4
    legend = opened.chart("plot").locator(".role-legend-label text").all()
    boxes = [entry.bounding_box() for entry in legend]
    assert len(boxes) == 6 and max(box["x"] + box["width"] for box in boxes) <= width
    label = opened.chart("plot").locator(".role-axis-label text").first
    ink = {"light": "rgb(29, 32, 37)", "dark": "rgb(228, 230, 234)"}[scheme]
    assert label.evaluate("element => getComputedStyle(element).fill") == ink
    assert opened.complaints == [] and opened.requests == [path.as_uri()]
    opened.page.context.close()


LLAMA = model_config(
    {
        "model_type": "llama",
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "hidden_size": 2048,
        "intermediate_size": 8192,
    }
)
COMMAND = f"headcount plan 700 --config {'a-long-folder/' * 9}config.json"


def plan_of_depths(path: Path) -> None:
    write_plan(PlanAnswer(4, Family(), plan(4)), path, command=COMMAND)


def plan_of_model(path: Path) -> None:
    depths = plan(700, layers=(16,), family=LLAMA.family())
    write_plan(PlanAnswer(700, LLAMA.family(), depths, LLAMA), path, command=COMMAND)


def estimate_of_labels(path: Path) -> None:
    write_believable_page(path, labels=True, length=200)


def inspection(path: Path) -> None:
    write_inspection(*believable_inspection(entries=FULL), path, plan_file=f"{'a-long-folder/' * 9}plan.json")


def inspection_of_many_heads(path: Path) -> None:
    groups = [[list(range(start, start + 8)) for start in range(0, 32, 8)]] * 6
    grouped = {"kv_heads": 4, "groups": groups}
    files = believable_inspection(layers=6, heads=32, kv_heads=8, measure="metric", grouped=grouped)
    write_inspection(*files, path, plan_file="plan.json")


PAGES = {
    "estimate": (write_believable_page, "chart-attention-3"),
    "estimate of labels": (estimate_of_labels, "chart-attention-3"),
    "inspection": (inspection, "chart-map-2"),
    "inspection of many heads": (inspection_of_many_heads, "chart-map-3"),
    "plan": (plan_of_depths, "chart-constructed"),
    "plan of a model": (plan_of_model, "chart-constructed"),
}
# Whatever reaches beyond the window, or has more inside than it shows; text in charts is seen by its box.
HIDDEN = """() => [...document.querySelectorAll("body *")].filter(each => {
  const style = getComputedStyle(each), box = each.getBoundingClientRect();
  const scrolls = style.overflowX !== "visible" && each.scrollWidth > each.clientWidth;
  return box.width && (scrolls || box.right > innerWidth || box.left < 0);
}).map(each => `${each.tagName} ${each.textContent.slice(0, 40)}`)"""


@pytest.mark.parametrize("width", [400, 900, 1400])
@pytest.mark.parametrize(("write", "last"), PAGES.values(), ids=PAGES)
def test_nothing_scrolls_sideways_or_is_cut_off(browser: Browser, write, last, width, tmp_path):
    write(tmp_path / "page.html")
    opened = open_page(browser, tmp_path / "page.html", width=width, last=last)
    opened.page.wait_for_load_state("networkidle")
    assert opened.page.evaluate("document.documentElement.scrollWidth") == width
    assert opened.page.evaluate(HIDDEN) == []
    assert opened.complaints == [] and opened.requests == [(tmp_path / "page.html").as_uri()]
    opened.page.context.close()


def test_layers_stand_two_in_a_row_in_a_narrow_window_and_more_in_a_wide_one(browser, tmp_path):
    inspection(tmp_path / "page.html")
    for width, in_a_row in ((400, 2), (1400, 4)):
        opened = open_page(browser, tmp_path / "page.html", width=width, last="chart-map-2")
        boxes = [box.bounding_box() for box in opened.page.locator(".multiples svg").all()]
        assert len(boxes) == 12 and len({round(box["x"]) for box in boxes}) == in_a_row
        summary = opened.page.locator("summary")
        summary.click()
        assert "upper bound" in opened.page.locator("details p").inner_text()
        opened.page.context.close()


def test_attention_maps_are_stacked_in_a_narrow_window_and_side_by_side_in_a_wide_one(browser, tmp_path):
    write_believable_page(tmp_path / "page.html")
    for width, rows in ((400, 3), (1400, 1)):
        opened = open_page(browser, tmp_path / "page.html", width=width, last="chart-attention-3")
        boxes = [box.bounding_box() for box in opened.page.locator(".maps svg").all()]
        assert len({round(box["y"]) for box in boxes}) == rows
        assert min(box["width"] for box in boxes) > 250
        opened.page.context.close()

"""Opens every page of the site from disk, without a network: `python docs/look.py` after `mkdocs build`.

No page may scroll sideways, complain in the console or ask for anything from elsewhere, and search must find.
With `--pictures FOLDER` every page is photographed too.
"""

import argparse
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from links import ROOT
from playwright.sync_api import Browser, Page, sync_playwright

SITE = ROOT / "site"
HERE = ("file:", "data:", "blob:")
READY = """[...document.querySelectorAll(".md-typeset table:not([class])")]
    .every(table => table.closest(".md-typeset__scrollwrap"))"""  # the last that the theme does
WIDTHS = (400, 900, 1400)
PATIENCE = 120_000  # milliseconds, of a machine that has much else to do


def problems(page: Page, path: Path, width: int, pictures: Path | None) -> Iterator[str]:
    """What is wrong with a page at this width."""
    reported: list[str] = []
    page.on("console", lambda message: reported.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: reported.append(str(error)))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_function(READY)
    wide = page.evaluate("document.documentElement.scrollWidth")
    if wide > width:
        yield f"scrolls sideways to {wide} px"
    if pictures is not None:
        name = path.relative_to(SITE).with_suffix("").as_posix().replace("/", "-")
        page.screenshot(path=pictures / f"{name}-{width}.png")
    yield from (*reported, *(f"asks for {url}" for url in asked if not url.startswith(HERE)))


def search_finds(page: Page) -> Iterator[str]:
    """Whether a word of the glossary is found, from disk."""
    page.goto((SITE / "index.html").as_uri())
    page.locator(".md-search__input").click()
    page.keyboard.type("reversal", delay=20)
    try:
        page.locator(".md-search-result__item").first.wait_for(timeout=PATIENCE)
    except Exception as error:
        yield f"search finds nothing: {error}"


def look(browser: Browser, pictures: Path | None) -> Iterator[str]:
    for width in WIDTHS:
        context = browser.new_context(viewport={"width": width, "height": 900}, offline=True)
        context.set_default_timeout(PATIENCE)
        for path in sorted(SITE.rglob("*.html")):
            if path.name == "404.html" or {"repository", "examples"} & set(path.parts):  # not of the theme
                continue
            page = context.new_page()
            where = f"{path.relative_to(SITE)} at {width} px"
            yield from (f"{where}: {each}" for each in problems(page, path, width, pictures))
            page.close()
        context.close()
    yield from search_finds(browser.new_page(viewport={"width": WIDTHS[-1], "height": 900}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=Path)
    pictures = parser.parse_args().pictures
    if pictures is not None:
        pictures.mkdir(parents=True, exist_ok=True)
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        sys.exit("Chromium was not found: nobody looked at the site")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        found = list(look(browser, pictures))
        browser.close()
    sys.exit("\n".join(found) if found else None)


if __name__ == "__main__":
    main()

"""Take a picture of a release's page for the docs: ``picture.py REPORT.html OUT.png [ADDRESS]``.

ADDRESS is what the page takes after its name, as "#slot=06:00". Needs Chromium and playwright.
flights-map.png (README) is that of `hexveil demo`, city-map.png (first-map.md, index.md) that of
`hexveil demo --city`: docs/images has no other pictures than these, those of `python -m
hexveil_research.pictures` and those of `python -m hexveil_research.papers.gallery.paper_gallery`.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from hexveil_research.pictures.png_files import with_palette

SIZE = {"width": 1200, "height": 1080}


def main() -> None:
    """Write the picture."""
    report, out, *address = sys.argv[1:]
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE)
        page.goto(Path(report).absolute().as_uri() + "".join(address))
        page.wait_for_selector("body[data-ready=true]")
        page.wait_for_timeout(500)
        end = page.locator(".map-grid").bounding_box()
        top = page.locator("h1").bounding_box()
        if end is None or top is None:
            raise SystemExit("the page has no map.")
        clip = {"x": 14, "y": top["y"] - 12, "width": SIZE["width"] - 28, "height": 0}
        clip["height"] = min(end["y"] + end["height"], SIZE["height"]) - clip["y"] + 8
        taken = page.screenshot(clip=clip)
        browser.close()
    Path(out).write_bytes(with_palette(taken))


if __name__ == "__main__":
    main()

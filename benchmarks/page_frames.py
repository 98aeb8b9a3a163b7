"""Frames per second while the page of ten thousand hexagons is dragged, without a GPU.

Usage: python benchmarks/page_frames.py

Draws a page of invented numbers in headless Chromium without WebGL, drags its map back and forth,
and zooms, by real pointer events. Prints the median and the 95% quantile of the time between
frames, and the size of the page. Needs Chromium and the `dev` extra. Exits with 1 where the
median frame takes longer than 1/55 s.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import h3
import numpy as np
import pyarrow as pa

from hexveil.report import render

RINGS = 57
"""Around the middle: 9,919 hexagons."""
LONGEST = 1000 / 55
"""Milliseconds: a frame of a 60 Hz display, with some slack for its clock."""
WATCH = """() => {
    window.frames_seen = [];
    let last = performance.now();
    const next = (now) => {
        window.frames_seen.push(now - last);
        last = now;
        requestAnimationFrame(next);
    };
    requestAnimationFrame(next);
}"""


def page_text() -> str:
    """Return a page of invented numbers, in four grades."""
    names = sorted(h3.grid_disk(h3.latlng_to_cell(52.23, 21.0, 8), RINGS))
    n = len(names)
    generator = np.random.default_rng(0)
    raw = generator.uniform(5, 60, n)
    bound = generator.choice([2.0, 10.0, 30.0], n)
    table = pa.table(
        {
            "cell": names, "hexagon": names,
            "users": np.full(n, 50), "records": np.full(n, 900),
            "mean_raw": raw, "mean_scale": bound / 3, "mean_bias": np.zeros(n),
            "mean_bound95": bound, "mean_low": np.clip(raw - bound, 0, 65),
            "mean_high": np.clip(raw + bound, 0, 65),
            "mean_quality": np.select([bound < 5, bound < 20], ["good", "caution"], "noise"),
        }
    )  # fmt: skip
    manifest = {
        "dataset": {"name": "invented", "value": "speed", "value_unit": "km/h"},
        "guarantee": {"privacy_unit": "user", "promise": "None: the numbers are invented."},
        "bounds": {"lower": "0", "upper": "65"}, "grid": {"kind": "hexagons"}, "plan": {},
    }  # fmt: skip
    return render(table, manifest)


def frames(page: Any) -> dict[str, np.ndarray[Any, Any]]:  # noqa: ANN401  playwright's page
    """Return the milliseconds between frames while the map is dragged, and while it is zoomed."""
    box = page.locator("#map-frame").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    for _ in range(2):  # near enough that hexagons fill the map
        page.locator("#zoom-in").click()
        page.wait_for_timeout(400)
    measured = {}
    page.evaluate(WATCH)
    page.mouse.move(x, y)
    page.mouse.down()
    page.evaluate("window.frames_seen.length = 0")
    for step in range(240):
        angle = 2 * np.pi * step / 120
        page.mouse.move(x + 180 * np.sin(angle), y + 90 * np.sin(2 * angle))
    page.mouse.up()
    measured["dragged"] = np.array(page.evaluate("window.frames_seen"))
    page.evaluate("window.frames_seen.length = 0")
    for step in range(60):
        page.mouse.wheel(0, -60 if step < 30 else 60)
    page.wait_for_timeout(500)
    measured["zoomed"] = np.array(page.evaluate("window.frames_seen"))
    return measured


def main() -> int:
    """Measure; return the exit code."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  a tool of developers

    text = page_text()
    print(f"page of {len(text.encode()) / 1e6:.2f} MB")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        print("not measured: there is no Chromium on this machine")
        return 0
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "report.html"
        file.write_text(text, "utf-8")
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu", "--disable-webgl"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(file.as_uri())
        page.wait_for_selector("body[data-ready=true]")
        measured = frames(page)
        browser.close()
    for what, times in measured.items():
        median, slow = np.median(times), np.quantile(times, 0.95)
        print(
            f"{what}: {1000 / median:.0f} frames a second (median of {times.size}); "
            f"95% of frames within {slow:.0f} ms"
        )
    return int(np.median(measured["dragged"]) > LONGEST)


if __name__ == "__main__":
    sys.exit(main())

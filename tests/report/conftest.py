"""Releases of an invented city, made with seeded numbers, and a page opened in a browser."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import h3
import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from publishing.releases import release_of
from report.pages import restated, write_layer


def _numbers(rng: np.random.Generator, true: np.ndarray, scale: np.ndarray, span: float) -> dict:
    """Released columns of cells whose true averages and noise scales are given."""
    noisy = true + rng.laplace(size=true.size) * scale
    raw = np.clip(noisy, 0, span)
    bias = 0.05 * scale
    bound = bias + scale * math.log(20)
    quality = np.where(bound <= span / 10, "good", np.where(bound <= span / 4, "caution", "noise"))
    return {
        "users": rng.integers(10, 300, true.size),
        "records": rng.integers(1_000, 40_000, true.size),
        "mean_noisy": noisy,
        "mean_raw": raw,
        "mean_scale": scale,
        "mean_bias": bias,
        "mean_error": bias + scale,
        "mean_bound95": bound,
        "mean_low": np.clip(raw - bound, 0, span),
        "mean_high": np.clip(raw + bound, 0, span),
        "mean_quality": quality.tolist(),
    }


@pytest.fixture(scope="session")
def stated(tmp_path_factory) -> hv.Release:
    """Return a small release with statements as if it were of the city."""
    release = release_of(tmp_path_factory.mktemp("stated") / "map", "means", mapped=True)
    own = {"dataset": {"version": "2024-02"}, "bounds": {"upper": "65"}}
    return restated(
        release, own=own, dataset={"name": "Rivertown buses"}, grid={"resolution": 8}, ledger=None
    )


def hexagon_table(
    names: list[str], starts: list[str], ends: list[str], missing: float = 0.12
) -> pa.Table:
    """Every hexagon in every slot but a few; noise grows away from the first hexagon."""
    rng = np.random.default_rng(7)
    middle = np.array([h3.cell_to_latlng(name) for name in names])
    away = np.hypot(*(middle - middle[0]).T)
    away = away / (away.max() or 1.0)
    hexagon, slot = np.meshgrid(
        np.arange(len(names)), np.arange(max(1, len(starts))), indexing="ij"
    )
    keep = rng.random(hexagon.shape) > missing * away[hexagon]
    hexagon, slot = hexagon[keep], slot[keep]
    rush = 1 - 0.35 * np.sin(np.pi * slot / max(1, len(starts)))
    true = (14 + 26 * away[hexagon]) * rush
    scale = 0.5 + 6.5 * away[hexagon] ** 3
    columns = {"hexagon": [names[i] for i in hexagon]}
    cell = columns["hexagon"]
    if starts:
        columns["slot"] = [starts[i] for i in slot]
        columns["slot_end"] = [ends[i] for i in slot]
        cell = [f"{h}/{s}" for h, s in zip(cell, columns["slot"], strict=True)]
    return pa.table({"cell": cell, **columns, **_numbers(rng, true, scale, 65.0)})


@pytest.fixture(scope="session")
def city(stated) -> hv.Release:
    """Return a city of 91 hexagons in six hours."""
    names = h3.grid_disk(h3.latlng_to_cell(21.17, 72.83, 8), 5)
    starts = [f"2024-02-19T{hour:02d}:00" for hour in range(7, 13)]
    ends = [f"2024-02-19T{hour:02d}:00" for hour in range(8, 14)]
    return restated(stated, hexagon_table(names, starts, ends))


@pytest.fixture(scope="session")
def context(tmp_path_factory) -> Path:
    """Return a file of lines, an area and a point of the city."""
    river = [(72.76 + 0.002 * i, 21.17 + 0.02 * math.sin(i / 9)) for i in range(80)]
    ring = [(72.83 + 0.03 * math.cos(a / 9), 21.17 + 0.03 * math.sin(a / 9)) for a in range(58)]
    return write_layer(
        tmp_path_factory.mktemp("context"),
        ({"name": "Long Street", "note": "secret"}, "LineString", river),
        ({}, "Polygon", [ring]),
        ({"name": "Old Town"}, "Point", (72.84, 21.18)),
    )


@pytest.fixture(scope="session")
def wards(stated) -> hv.Release:
    """Return a release of labels, one of which tries to be HTML."""
    rng = np.random.default_rng(3)
    names = ["<img src=x onerror=alert(1)>", "O'Brien & Sons", "</script><b>", "Zürich", "12"]
    names += [f"Ward {i}" for i in range(9)]
    true, scale = rng.uniform(10, 50, len(names)), np.linspace(0.5, 6.5, len(names))
    labels = {"cell": names, "ward": names, "hour": ["7"] * len(names)}
    table = pa.table(labels | _numbers(rng, true, scale, 65.0))
    return restated(stated, table, grid={"kind": "labels", "columns": ["ward", "hour"]})


@pytest.fixture(scope="session")
def windows(browser) -> Iterator[Callable]:
    """Return a function that gives the one window of a size: what it has compiled it keeps."""
    opened = {}

    def window(width: int, height: int, touch: bool, scheme: str):
        size = width, height, touch, scheme
        if size not in opened:
            opened[size] = browser.new_context(
                viewport={"width": width, "height": height}, has_touch=touch, is_mobile=touch,
                color_scheme=scheme,
            )  # fmt: skip
        return opened[size]

    yield window
    for context in opened.values():
        context.close()


@pytest.fixture
def show(windows, tmp_path) -> Iterator[Callable]:
    """Return a function that opens a page's text at a width, and watches what it does."""
    pages = []

    def open_page(
        html: str, width: int, height: int = 844, *, touch: bool = False, at: str = "",
        scheme: str = "light",
    ):  # fmt: skip
        file = tmp_path / f"report-{len(pages)}.html"
        file.write_text(html, encoding="utf-8")
        page = windows(width, height, touch, scheme).new_page()
        pages.append(page)
        page.complaints = []
        page.requests = []
        page.on(
            "console",
            lambda m: page.complaints.append(m.text) if m.type in ("error", "warning") else None,
        )
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("request", lambda request: page.requests.append(request.url))
        page.goto(file.as_uri() + at)
        page.wait_for_selector("body[data-ready=true]")
        return page

    yield open_page
    for page in pages:
        page.close()

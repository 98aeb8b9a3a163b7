"""Releases of an invented city, made with seeded numbers, and a page opened in a browser."""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from types import SimpleNamespace

import h3
import numpy as np
import pyarrow as pa
import pytest

from hexveil.report.geography.context import Layer, Shape
from hexveil.report.promise_wording import promise


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


def manifest_of(table: pa.Table, **changes: object) -> dict:
    """Return the manifest of an invented release, with parts changed by name."""
    manifest = {
        "schema_version": 4,
        "software": {"hexveil": "0.1.0", "opendp": "0.14.1"},
        "dataset": {
            "name": "Rivertown buses",
            "version": "2024-02",
            "sources": ["buses.parquet"],
            "columns": {"user": "vehicle", "value": "speed"},
            "value": "speed",
            "value_unit": "km/h",
        },
        "guarantee": {
            "privacy_unit": "user",
            "neighbours": "The same users and counts; all values of one user may change.",
            "epsilon_requested": "1",
            "epsilon_spent": "0.99999999999137821",
            "promise": promise("user", Fraction(1)),
            "probability_factor": math.e,
            "l0_epsilon": "17.25",
            "assumptions": ["Whether a record carries a usable value is public."],
            "not_protected": "Presence, places, times and counts.",
        },
        "bounds": {"lower": "0", "upper": "65", "quantum": "0.001"},
        "grid": {
            "kind": "hexagons",
            "resolution": 8,
            "timeslot": "1h",
            "timezone": "Asia/Kolkata",
            "slot": "calendar",
        },
        "rules": {},
        "selection": {},
        "plan": {
            "method": "per-cell",
            "mechanism": "OptimalClipping()",
            "statistics": ["mean"],
            "mean_error": float(np.mean(table["mean_error"].to_numpy())),
            "max_error": float(np.max(table["mean_error"].to_numpy())),
        },
        "losses": {"max": 0.99999999, "median": 0.21, "p90": 0.83, "units": 268},
        "cells": [],
    }
    for part, change in changes.items():
        manifest[part] = {**manifest[part], **change} if isinstance(change, dict) else change
    return manifest


def hexagon_table(names: list[str], starts: list[str], ends: list[str], seed: int = 7) -> pa.Table:
    """Every hexagon in every slot but a few; noise grows away from the first hexagon."""
    rng = np.random.default_rng(seed)
    middle = np.array([h3.cell_to_latlng(name) for name in names])
    away = np.hypot(*(middle - middle[0]).T)
    away = away / (away.max() or 1.0)
    hexagon, slot = np.meshgrid(
        np.arange(len(names)), np.arange(max(1, len(starts))), indexing="ij"
    )
    keep = rng.random(hexagon.shape) > (0.12 * away[hexagon] if len(names) > 1 else 0)
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
def city() -> SimpleNamespace:
    """Return a city of 91 hexagons in six hours: table, manifest and context."""
    names = h3.grid_disk(h3.latlng_to_cell(21.17, 72.83, 8), 5)
    starts = [f"2024-02-19T{hour:02d}:00" for hour in range(7, 13)]
    ends = [f"2024-02-19T{hour:02d}:00" for hour in range(8, 14)]
    table = hexagon_table(names, starts, ends)
    river = [(72.76 + 0.002 * i, 21.17 + 0.02 * math.sin(i / 9)) for i in range(80)]
    ring = [(72.83 + 0.03 * math.cos(a / 9), 21.17 + 0.03 * math.sin(a / 9)) for a in range(58)]
    shapes = ("Long Street", True, river), ("", False, ring), ("Old Town", False, [(72.84, 21.18)])
    context = Layer([Shape(name, is_line, [line]) for name, is_line, line in shapes])
    return SimpleNamespace(table=table, manifest=manifest_of(table), context=context)


@pytest.fixture(scope="session")
def wards() -> SimpleNamespace:
    """Return a release of labels, one of which tries to be HTML."""
    rng = np.random.default_rng(3)
    names = ["<img src=x onerror=alert(1)>", "O'Brien & Sons", "</script><b>", "Zürich", "12"]
    names += [f"Ward {i}" for i in range(9)]
    true, scale = rng.uniform(10, 50, len(names)), np.linspace(0.5, 6.5, len(names))
    table = pa.table(
        {"cell": names, "ward": names, "hour": ["7"] * len(names)}
        | _numbers(rng, true, scale, 65.0)
    )
    grid = {"kind": "labels", "columns": ["ward", "hour"]}
    manifest = manifest_of(table) | {"grid": grid}
    return SimpleNamespace(table=table, manifest=manifest)


@pytest.fixture(scope="session")
def make() -> SimpleNamespace:
    """Return the makers of other releases: table(names, starts, ends) and manifest(table)."""
    return SimpleNamespace(table=hexagon_table, manifest=manifest_of)


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

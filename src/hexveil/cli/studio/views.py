"""Content of the studio's pages: files of records, the account, maps as pictures.

Hexagons of a proposed map are coloured by how far their averages are expected to be off.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.base import hexagons
from hexveil.base.errors import InputError
from hexveil.cli import formatting
from hexveil.cli.commands import ledger_command
from hexveil.ledger import inspection
from hexveil.ledger.databases import connect_existing
from hexveil.ledger.promises import booked_epsilon
from hexveil.records.sources.source_files import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from hexveil.base.arrays import Floats
    from hexveil.cli.formatting import Row
    from hexveil.cli.guided import Offer
    from hexveil.config import Run

DEPTH, LISTED = 3, 500
"""Folders below the chosen one that are looked into; files that are listed."""


def record_files(folder: Path) -> Iterator[str]:
    """Yield the files of records in a folder and below it, by name; links that leave it are not.

    Folders of releases are left out.
    """
    for place, inner, names in os.walk(folder):
        inside = Path(place).relative_to(folder)
        inner[:] = sorted(
            name
            for name in inner
            if len(inside.parts) < DEPTH
            and not name.startswith(".")
            and not Path(place, name, "manifest.json").exists()
        )
        for name in sorted(names):
            path = Path(place, name)
            is_record = kind_of(path) is not None and not name.lower().endswith(".txt")
            is_inside = path.is_file() and path.resolve().is_relative_to(folder)
            if is_record and is_inside and not name.startswith("."):
                yield str(inside / name)


def free_stem(stem: str) -> str:
    """Return a stem without a run file and a map."""
    number, name = 1, stem
    while Path(f"{name}.toml").exists() or Path(f"{name}-map").exists():
        number += 1
        name = f"{stem}-{number}"
    return name


def statement(run: Run) -> dict[str, Any] | None:
    """Return the account of the data set as a statement; None while there is no ledger."""
    ledger = run.ledger
    try:
        engine = connect_existing(ledger.url)
        (status,) = inspection.overview(engine, ledger.dataset).accounts
    except InputError:
        return None
    events = inspection.history(engine, ledger.dataset)
    lines = [
        (event.at, event.dataset, formatting.price(float(booked_epsilon(event.body))))
        for event in events
        if event.kind == "reserved"
    ]
    spent, budget = float(status.spend.window), float(status.account.budget)
    rows = texts_of(ledger_command.account_rows(status))
    return {"rows": rows, "lines": lines, "spent": spent, "budget": budget}


def texts_of(rows: list[Row]) -> list[tuple[str, str]]:
    """Return rows with a text, as pairs of label and text."""
    pairs = [("", row) if isinstance(row, str) else row for row in rows]
    return [(label, text) for label, text in pairs if text]


# ---- pictures of maps ----

SHARES = (0.25, 0.5, 0.75, 1.0)
"""Ends of the grades, as parts of what one number for the whole map is off by."""
WIDTH = 600.0
HIGHEST = 1.25
"""Height of a picture at most, in widths."""
MOST = 3_000
"""Hexagons that are drawn at most."""


def grades_of(offers: Sequence[Offer], unit: str) -> tuple[tuple[float, ...], list[str]]:
    """Return the upper ends of the grades for some maps, in value units, and their legend."""
    baseline = max(offer.baseline_error for offer in offers)
    ends = tuple(share * baseline for share in SHARES)
    texts = [formatting.measured(float(f"{end:.2g}"), unit) for end in ends]
    legend = [f"up to ± {texts[0]}", *(f"to {text}" for text in texts[1:])]
    return ends, [*legend, "more: one number for the whole map says as much"]


def picture(offer: Offer, ends: Sequence[float], unit: str) -> dict[str, object]:
    """Return the size of the picture, and of each hexagon its outline, grade and text."""
    hexagon, errors = _drawn(offer)
    rings = [np.array(hexagons.outline(int(index))) for index in hexagon]
    points = np.concatenate(rings)
    stretch = math.cos(math.radians(float(points[:, 1].mean())))
    low, high = points.min(axis=0), points.max(axis=0)
    span = (high - low) * (stretch, 1.0)
    # The larger of both fits; the smallest area still has a size.
    factor = min(WIDTH / max(span[0], 1e-6), HIGHEST * WIDTH / max(span[1], 1e-6))
    width, height = (max(float(side), 1.0) for side in span * factor)
    levels = np.searchsorted(ends, errors, side="left")
    shapes = []
    for ring, error, level in zip(rings, errors, levels, strict=True):
        x = (ring[:, 0] - low[0]) * stretch * factor
        y = (high[1] - ring[:, 1]) * factor
        outline = "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True))
        text = f"± {formatting.measured(float(f'{error:.2g}'), unit)}"
        shapes.append((f"M{outline}Z", int(level), text))
    return {"width": f"{width:.0f}", "height": f"{height:.0f}", "shapes": shapes}


def _drawn(offer: Offer) -> tuple[NDArray[np.uint64], Floats]:
    """Return the hexagons that are drawn, with their errors: of too many, those around them."""
    hexagon, errors = offer.hexagon, offer.error
    while hexagon.size > MOST:
        around = hexagons.parents(hexagon, hexagons.resolution_of(int(hexagon[0])) - 1)
        hexagon, row = np.unique(around, return_inverse=True)
        errors = np.bincount(row, weights=errors) / np.bincount(row)
    return hexagon, errors

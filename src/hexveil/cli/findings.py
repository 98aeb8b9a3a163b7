"""Three lines of what the demo's map says, from its noisy numbers and public facts only."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil import hexagons
from hexveil.cli import words

if TYPE_CHECKING:
    import pyarrow as pa

NAMED = 2
"""Airports that stand for a hexagon; its busiest."""


def lines(cells: pa.Table, destinations: pa.Table) -> list[str]:
    """Return the fastest and the slowest cell, and how far the numbers can be trusted.

    Parameters
    ----------
    cells : pyarrow.Table
        A release.
    destinations : pyarrow.Table
        Columns dest, lat and lon, the busiest first.
    """
    rows = sorted(cells.to_pylist(), key=lambda row: row["mean_noisy"])
    quality = Counter(row["mean_quality"] for row in rows)
    counted = ", ".join(f"{quality[name]} {name}" for name in ("good", "caution", "noise"))
    return [
        *words.wrapped("Fastest", _said(rows[-1], destinations)),
        *words.wrapped("Slowest", _said(rows[0], destinations)),
        *words.wrapped("Trust", f"of {len(rows)} cells: {counted}. The map marks each."),
    ]


def _said(row: dict[str, Any], destinations: pa.Table) -> str:
    names = airports(row["hexagon"], destinations)
    more = ", ..." if len(names) > NAMED else ""
    return (
        f"{row['mean_noisy']:.0f} mph to {', '.join(names[:NAMED])}{more}, {row['slot']} to "
        f"{row['slot_end']}; off by {row['mean_bound95']:.0f} at most, 19 times in 20."
    )


def airports(hexagon: str, destinations: pa.Table) -> list[str]:
    """Return the destinations in a hexagon, the busiest first."""
    index = np.uint64(int(hexagon, 16))
    resolution = hexagons.resolution_of(int(index))
    lat, lon = (destinations[name].combine_chunks() for name in ("lat", "lon"))
    inside = np.asarray(hexagons.of_places(lat, lon, resolution)) == index
    return [str(code) for code in np.asarray(destinations["dest"].to_pylist())[inside]]

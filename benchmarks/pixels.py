"""Hexagons of places from a table of pixels, beside the library: ``python benchmarks/pixels.py``.

`--places` places of each of two areas, held for a while as vehicles hold them, at resolutions 7, 8
and 9. The table is filled by a first look at all of them, which is told apart; then each place is
asked for in batches as reading does. Times are CPU seconds of one thread, the least of five. The
floor is the library's own call for as many places; both must agree on all. An edge of the
icosahedron crosses the first area: hexagons that it bends are computed, not tabled. Exits 1 where
a place takes longer than its limit, and where an answer differs.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hexveil.base import hexagons
from hexveil.records.duckdb.hexagon_table import HexagonTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

LIMITS = {7: 15.0, 8: 33.0, 9: 74.0}
"""Nanoseconds a place."""
AREAS = {"Surat": (21.05, 72.65), "Warsaw": (52.1, 20.8)}
"""South and west end of areas of 0.3 by 0.35 degrees."""
HELD, RUNS = 50, 5
PLACES = 1 << 15


def places(area: str, size: int) -> tuple[Floats, Floats]:
    """Return latitudes and longitudes: some places, each held with a spread of 200 metres."""
    rng = np.random.default_rng([8, size])
    held = rng.integers(0, max(size // HELD, 1), size)
    around = rng.uniform((0.0, 0.0), (0.3, 0.35), (max(size // HELD, 1), 2))[held]
    found = np.array(AREAS[area]) + around + rng.uniform(-0.002, 0.002, (size, 2))
    return np.ascontiguousarray(found[:, 0]), np.ascontiguousarray(found[:, 1])


def seconds(work: Callable[[], object]) -> float:
    """Return the CPU seconds of this thread for some work."""
    begin = time.thread_time()
    work()
    return time.thread_time() - begin


def measure(area: str, resolution: int, size: int) -> bool:
    """Print a line for an area and a resolution; return whether its limit is kept."""
    lat, lon = places(area, size)
    table = HexagonTable(resolution, size)
    found = np.empty(size, dtype=np.int32)

    def ask() -> None:
        for start in range(0, size, PLACES):
            some = slice(start, start + PLACES)
            found[some] = table.numbers(lat[some], lon[some])

    first = seconds(ask)
    again = min(seconds(ask) for _ in range(RUNS))
    answers: list[pa.Array] = []
    floor = seconds(
        lambda: answers.append(hexagons.of_places(pa.array(lat), pa.array(lon), resolution))
    )
    differ = int((table.names[found] != answers[0].to_numpy()).sum())
    limit, taken = LIMITS[resolution], again / size * 1e9
    kept = taken <= limit and not differ
    print(
        f"{area:<8}{resolution:>11}{floor / size * 1e9:>11.0f}{first / size * 1e9:>13.0f}"
        f"{taken:>11.0f}{limit:>7.0f}{floor / again:>14.1f}{differ:>8}"
        f"{'' if kept else '  MISSED'}"
    )
    return kept


def main() -> int:
    """Print the table; return 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--places", type=int, default=5_000_000)
    asked = parser.parse_args()
    print(f"{asked.places:,} places an area; nanoseconds a place")
    print(
        f"{'area':<8}{'resolution':>11}{'library':>11}{'first look':>13}{'table':>11}{'limit':>7}"
        f"{'library/table':>15}{'differ':>7}"
    )
    kept = [measure(area, resolution, asked.places) for area in AREAS for resolution in LIMITS]
    return int(not all(kept))


if __name__ == "__main__":
    sys.exit(main())

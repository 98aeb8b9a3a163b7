"""Columns that name a cell for people, in both privacy models, and the digits of CSV."""

import csv
import json
import struct
from itertools import pairwise

import h3
import numpy as np
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from publishing.releases import release_of

FIRST = ["cell", "name", "date", "slot", "lat", "lon", "hexagon", "slot_end"]


@pytest.fixture(scope="module")
def mapped(tmp_path_factory):
    """Return the folder of a release of hexagons in calendar hours."""
    place = tmp_path_factory.mktemp("places") / "map"
    return release_of(place, "means", mapped=True).write(place)


def rows_of(folder):
    """Return the rows of cells.csv as texts."""
    with (folder / "cells.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_cell_is_named_for_people(mapped):
    """Words, day and centre stand before the columns of programs, in CSV, Parquet and GeoJSON."""
    rows = rows_of(mapped)
    assert list(rows[0])[: len(FIRST)] == FIRST
    assert pq.read_schema(mapped / "cells.parquet").names[: len(FIRST)] == FIRST
    features = json.loads((mapped / "cells.geojson").read_text("utf-8"))["features"]
    for row, feature in zip(rows, features, strict=True):
        lat, lon = h3.cell_to_latlng(row["hexagon"])
        assert (float(row["lat"]), float(row["lon"])) == pytest.approx((lat, lon), abs=1e-6)
        assert row["date"] == row["slot"][:10]
        assert row["name"] == feature["properties"]["name"]
    # Words differ from hexagon to hexagon, and are those of the page.
    names = {row["hexagon"]: row["name"] for row in rows}
    assert len(set(names.values())) > 1
    page = (mapped / "report.html").read_text("utf-8")
    assert all(json.dumps(name, ensure_ascii=False)[1:-1] in page for name in names.values())


def test_a_declared_period_dates_cells_without_days(tmp_path):
    """Labels have no days of their own: the publisher declares the period, or says none."""
    routes = release_of(tmp_path / "routes", "means")
    silent = routes.write(tmp_path / "silent")
    assert {row["date"] for row in rows_of(silent)} == {""}
    assert "The publisher declared no period" in (silent / "README.txt").read_text("utf-8")
    assert "The publisher declared no period" in (silent / "report.html").read_text("utf-8")
    stated = hv.Catalogue(temporal=("2023-11-01", "2023-11-30"))
    dated = routes.write(tmp_path / "dated", catalogue=stated)
    assert {row["date"] for row in rows_of(dated)} == {"2023-11-01/2023-11-30"}
    assert hv.load(dated)["date"][0] == "2023-11-01/2023-11-30"
    assert "1 November to" in (dated / "report.html").read_text("utf-8")
    # The label that would be a formula has its apostrophe, in the name too.
    assert rows_of(dated)[0]["name"].startswith("'=route")


def test_csv_has_the_digits_that_intervals_carry(mapped):
    """A twentieth of the narrowest interval, ends outwards, bounds upwards; Parquet has doubles."""
    table = pq.read_table(mapped / "cells.parquet").drop_columns("geometry")
    rows = rows_of(mapped)
    shown = {
        name: np.array([float(row[name]) for row in rows])
        for name in rows[0]
        if name.startswith("mean_") and name != "mean_quality"
    }
    low, high = (table[f"mean_{end}"].to_numpy() for end in ("low", "high"))
    half = (high - low).min() / 2
    assert (shown["mean_low"] <= low + 1e-9).all()
    assert (shown["mean_high"] >= high - 1e-9).all()
    for name in ("mean_scale", "mean_bound95"):
        assert (shown[name] >= table[name].to_numpy() - 1e-9).all()
    off = np.abs(shown["mean_raw"] - table["mean_raw"].to_numpy())
    assert 0 < off.max() <= half / 20
    assert max(len(row["mean_raw"]) for row in rows) <= 6


def test_geoparquet_rings_are_the_outlines(mapped):
    """Each WKB polygon is the closed outline of its hexagon, counter-clockwise."""
    table = pq.read_table(mapped / "cells.parquet")
    for name, wkb in zip(table["hexagon"].to_pylist(), table["geometry"].to_pylist(), strict=True):
        order, kind, rings, corners = struct.unpack_from("<BIII", wkb)
        assert (order, kind, rings, len(wkb)) == (1, 3, 1, 13 + 16 * corners)
        flat = struct.unpack_from(f"<{2 * corners}d", wkb, 13)
        ring = list(zip(flat[::2], flat[1::2], strict=True))
        assert ring[0] == ring[-1]
        outline = [(lon, lat) for lat, lon in h3.cell_to_boundary(name)]
        assert np.array(ring[:-1]) == pytest.approx(np.array(outline), abs=1e-9)
        assert sum(a[0] * b[1] - b[0] * a[1] for a, b in pairwise(ring)) > 0

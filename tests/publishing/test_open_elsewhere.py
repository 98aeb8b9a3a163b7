"""Released tables opened by other programs, unchanged: DuckDB, GDAL (as QGIS has it), GeoPandas."""

import datetime as dt

import duckdb
import pytest

import hexveil as hv
from publishing.releases import records, release_of

HOUR = dt.timedelta(hours=1)


@pytest.fixture(scope="module")
def calendar(tmp_path_factory):
    """Return a folder of hexagons in calendar hours."""
    place = tmp_path_factory.mktemp("open") / "map"
    return release_of(place, "means", mapped=True).write(place)


@pytest.fixture(scope="module")
def pooled(tmp_path_factory):
    """Return a folder of hexagons in pooled hours, the last of which ends at midnight."""
    place = tmp_path_factory.mktemp("open") / "map"
    dataset = hv.read(
        records(), user="bus", value="speed", time="time", bounds=(0, 60), value_unit="km/h",
        lat="lat", lon="lon", repeats="keep", cells=hv.Cells(7, "1h", "Etc/GMT-1", "pooled"),
    )  # fmt: skip
    book = hv.Ledger(f"{place}.sqlite", dataset="buses", budget=100)
    plan = hv.plan(dataset, epsilon=2, advise=False)
    return hv.release(dataset, plan, ledger=book, accept_noise=True).write(place)


def slots(rows):
    """Return the distinct pairs of starts and ends, in order."""
    return sorted(set(rows))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_duckdb_reads_times(calendar, pooled, ending):
    """Starts and ends are times or timestamps, by themselves in CSV and by a cast in Parquet."""
    with duckdb.connect() as base:
        base.execute("SET TimeZone = 'UTC'")
        query = "SELECT slot::TIMESTAMP, slot_end::TIMESTAMP FROM '{}'"
        of_calendar = slots(base.sql(query.format(calendar / f"cells.{ending}")).fetchall())
        query = "SELECT slot::TIME, slot_end::TIME FROM '{}'"
        of_pooled = slots(base.sql(query.format(pooled / f"cells.{ending}")).fetchall())
    assert {end - start for start, end in of_calendar} == {HOUR}
    assert (dt.time(23), dt.time(0)) in of_pooled
    assert all((start.hour + 1) % 24 == end.hour for start, end in of_pooled)


def test_geopandas_and_gdal_read_the_map(calendar, pooled):
    """GeoParquet and GeoJSON give the same outlines, and times are times in both columns."""
    geopandas = pytest.importorskip("geopandas")
    pyogrio = pytest.importorskip("pyogrio")
    for folder, kind in ((calendar, "OFTDateTime"), (pooled, "OFTTime")):
        parquet = geopandas.read_parquet(folder / "cells.parquet")
        geojson = geopandas.read_file(folder / "cells.geojson", DATE_AS_STRING="YES")
        assert parquet.crs.equals("OGC:CRS84")
        assert geojson.crs.to_epsg() == 4326
        assert list(parquet["cell"] + parquet["slot"]) == list(geojson["cell"] + geojson["slot"])
        # Both mean longitude and latitude on WGS 84, under two names.
        outlines = geojson.geometry.set_crs(parquet.crs, allow_override=True)
        assert parquet.geometry.geom_equals_exact(outlines, 1e-9).all()
        told = pyogrio.read_info(folder / "cells.geojson")
        kinds = dict(zip(told["fields"], told["ogr_types"], strict=True))
        # With 24:00 the ends would be texts, and the starts times.
        assert kinds["slot"] == kinds["slot_end"] == kind
        assert kinds["mean_raw"] == "OFTReal"

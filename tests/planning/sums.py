"""Small data sets of chosen counts and sums, as somebody's warehouse would give them."""

import h3
import numpy as np
import pyarrow as pa

import hexveil as hv

CITY = hv.Cells(7, "1h", "Asia/Kolkata")


def sums_of(counts, sums=None, squares=None, *, bounds=(0, 60), quantum=1, cells=None, **options):
    """Return a data set of counts (users down, cells across) and the sums of each pair by cells.

    Without sums all values are at the middle of the bounds, or a quantum above.
    """
    cell, user = np.nonzero(np.array(counts).T)
    n = np.array(counts)[user, cell]
    middle = float(quantum) * np.ceil((bounds[0] + bounds[1]) / 2 / float(quantum))
    # Units of a day or a week are named by it, or by its Monday.
    day = "" if options.get("privacy_unit", "user") == "user" else " 2023-11-13"
    columns = {
        "user": [f"bus {k:03d}{day}" for k in user],
        "n": n,
        "sum": n * middle if sums is None else np.array(sums),
        "sum_sq": n * middle**2 if squares is None else np.array(squares),
    }
    if cells is None:
        columns["cell"] = [f"cell {k:03d}" for k in cell]
    else:
        near = sorted(h3.grid_disk(h3.latlng_to_cell(21.2, 72.8, cells.resolution), 3))
        columns |= {"hexagon": [near[k] for k in cell], "slot": ["2023-11-15T03:00"] * n.size}
    return hv.from_sums(
        pa.table(columns), bounds=bounds, quantum=quantum, cells=cells,
        **{"min_users": 1, "accept_single_records": True} | options,
    )  # fmt: skip


def small_city(**options):
    """Return three hexagons in one hour, two of them with four users and one with a single one."""
    counts = [[3, 2, 1], [2, 2, 0], [1, 4, 0], [5, 1, 0]]
    sums = [117, 59, 37, 239, 101, 97, 113, 41, 39]
    squares = [4565, 1742, 1369, 11431, 5101, 4706, 3223, 1681, 1521]
    return sums_of(counts, sums, squares, **{"cells": CITY, "value": "speed"} | options)

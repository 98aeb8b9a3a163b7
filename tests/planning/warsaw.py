"""Records of a fleet of equal buses around Warsaw, read on grids of any resolution."""

from functools import cache
from itertools import chain

import h3
import numpy as np
import pyarrow as pa

import hexveil as hv

GRID = {"timeslot": "1h", "timezone": "Europe/Warsaw", "slot": "pooled"}


@cache
def records(users=200, places=64):
    """Return a reading of every bus in each of some hexagons of resolution 7, within one hour.

    In which of the seven smaller hexagons it is differs from bus to bus.
    """
    centre = h3.latlng_to_cell(52.23, 21.01, 7)
    near = [*chain.from_iterable(h3.grid_ring(centre, k) for k in range(6))][:places]
    children = [[h3.cell_to_latlng(one) for one in h3.cell_to_children(name)] for name in near]
    bus, place = (one.ravel() for one in np.meshgrid(range(users), range(places)))
    lat, lon = np.array(children)[place, (bus + place) % 7].T
    return pa.table(
        {
            "bus": bus.astype(str), "lat": lat, "lon": lon, "speed": 5.0 + place % 3,
            "time": 1_700_000_000 // 3600 * 3600 + place,
        }
    )  # fmt: skip


def read(source, resolution, **options):
    """Return records of places read on a grid of pooled hours."""
    usual = {
        "user": "bus", "value": "speed", "bounds": (0, 10), "lat": "lat", "lon": "lon",
        "time": "time", "repeats": "keep", "accept_single_records": True,
        "cells": hv.Cells(resolution, **GRID), "select": hv.Select(min_users=1),
    }  # fmt: skip
    return hv.read(source, **usual | options)


@cache
def fleet(resolution, users=200):
    """Return the data set of the fleet on a grid."""
    return read(records(users), resolution)

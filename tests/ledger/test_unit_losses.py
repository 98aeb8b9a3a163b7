"""Hashes and losses of units, and the key: nothing told, nothing rounded down."""

import os
import pickle
import stat
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest

import hexveil as hv
from ledger.books import PICO, Place, losses, rows, tables, unit_hash

IDS = ("7", "71", "bus 7", "é", "e\u0301", "x" * 300, "1\x1f2")
DAYS = ("2026-11-16", "2026-11-17")
COLUMNS = {"user": "bus", "value": "speed", "time": "time", "bounds": (0, 60), "repeats": "keep"}


def feed(ids=IDS, order=1):
    """Return records of some vehicles on two days: of the first one record a day, then more."""
    made = [
        {"bus": bus, "speed": 10.0 + k, "road": "A", "time": f"{day}T10:00:{k:02d}Z"}
        for number, bus in enumerate(ids)
        for day in DAYS
        for k in range(number + 1)
    ]
    return pa.Table.from_pylist(made[::order])


def read(records, **options):
    """Read records into one cell of a road."""
    cells = hv.Labels("road", timezone="UTC")
    return hv.read(records, cells=cells, **COLUMNS | options)


def booked(book, request):
    """Return hashes and losses of the units of a reservation, as its event has them."""
    ((blob,),) = rows(book, "SELECT units FROM hexveil_events WHERE request = :name "
                            "AND kind = 'reserved'", name=request)  # fmt: skip
    size = len(blob) // 28
    hashes = [blob[k : k + 16] for k in range(0, 16 * size, 16)]
    parts = [int.from_bytes(blob[k : k + 8], "little") for k in range(16 * size, 24 * size, 8)]
    return dict(zip(hashes, parts, strict=True))


def released(place, data, epsilon="0.7", **options):
    """Release the mean of records, and return the ledger and what is booked of each unit."""
    book = place.open(budget=10**9, **options)
    plan = hv.plan(data, epsilon=epsilon)
    made = hv.release(data, plan, ledger=book, accept_noise=True)
    return book, plan, booked(book, made.manifest["ledger"]["request"])


REST

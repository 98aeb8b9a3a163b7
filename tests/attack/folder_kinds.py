"""A small release folder of each kind, for what strangers do to its files."""

import numpy as np
import pyarrow as pa

import hexveil as hv
from publishing.releases import PLANS, records, release_of

STATISTICS = ("mean", "p50", "share<20", "histogram")
VALUES = ("means", "squares", "interval", "cell-ranges")
READ = {"user": "bus", "value": "speed", "time": "time", "bounds": (0, 60), "repeats": "keep"}
PLACES = {"lat": "lat", "lon": "lon"}
HOURS = hv.Cells(7, "1h", "Asia/Kolkata")
AREA = hv.Cells(6, None, area=(72.6, 21.1, 73.0, 21.3))


def release(home, kind):
    """Return a release of a kind of plan of values, or of those below, by the ledger there."""
    if kind in PLANS:
        smoothed = kind in ("means", "interval")
        return release_of(home / kind, kind, mapped=kind == "interval", smoothed=smoothed)
    return MAKERS[kind](hv.Ledger(home / f"{kind}.sqlite", **ACCOUNTS.get(kind, ACCOUNT)))


def make(home, kind):
    """Return a folder of a kind."""
    return release(home, kind).write(home / kind)


ACCOUNT = {"dataset": "buses", "budget": 100}
ACCOUNTS = {
    "delta": ACCOUNT | {"delta": "1e-6"},
    "distribution-delta": ACCOUNT | {"delta": "1e-6"},
    "presence-delta": ACCOUNT | {"delta": "1e-6"},
}


def _released(book, dataset, **plan):
    plan = {"epsilon": 8, "delta": book.account.delta or None, "advise": False} | plan
    return hv.release(dataset, hv.plan(dataset, **plan), ledger=book, accept_noise=True)


def _means(book, **plan):
    dataset = hv.read(records(), **READ, **PLACES, value_unit="km/h", cells=HOURS)
    return _released(book, dataset, clipping_range="bounds", **plan)


def _mechanism(book):
    return _means(book, method="per-cell", mechanism="ArrayAveraging()")


def _distribution(book):
    dataset = hv.read(records(), **READ, cells=hv.Labels("route"), statistics=STATISTICS)
    return _released(book, dataset, statistics=STATISTICS)


def _table():
    """Return the readings with a second value."""
    table = records()
    return table.append_column("load", pa.array(np.arange(table.num_rows) % 50 * 1.0))


BOTH = READ | {"value": ["speed", "load"], "bounds": {"speed": (0, 60), "load": (0, 50)}}
BOTH |= {"value_unit": {"speed": "km/h", "load": "kg"}}


def _columns(book):
    return _released(book, hv.read(_table(), **BOTH, cells=hv.Labels("route")))


def _presence(book, statistics=("mean",), table=None, **read):
    fleet = hv.FleetDeclaration(30, 12, 4)
    read = READ | PLACES | {"protect": "presence", "cells": AREA} | read
    shapes = set(statistics) - {"mean", "users"}
    counted = {"statistics": statistics} if shapes else {}
    dataset = hv.read(records() if table is None else table, **read, **counted)
    return _released(book, dataset, fleet=fleet, statistics=statistics)


def _presence_labels(book):
    routes = sorted(set(records()["route"].to_pylist()))
    return _presence(book, lat=None, lon=None, cells=hv.Labels("route", values=routes))


MAKERS = {
    "delta": _means,
    "mechanism": _mechanism,
    "distribution": _distribution,
    "distribution-delta": _distribution,
    "columns": _columns,
    "presence": _presence,
    "presence-delta": _presence,
    "presence-labels": _presence_labels,
    "presence-users": lambda book: _presence(book, ("users",)),
    "presence-shapes": lambda book: _presence(book, (*STATISTICS, "users")),
    "presence-columns": lambda book: _presence(book, table=_table(), **BOTH),
}
KINDS = (*VALUES, *MAKERS)

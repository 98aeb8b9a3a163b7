"""Tiny data sets with chosen sums, as a table that another system made."""

from datetime import date, timedelta
from fractions import Fraction

import h3
import numpy as np
import pyarrow as pa

import hexveil as hv

SLOT = "2023-11-15T03:00"
MONDAY = date(2023, 11, 13)
APART = {"user-day": timedelta(days=1), "user-week": timedelta(weeks=1)}


def labels(n_cells):
    """Return cells named by a route, as a grid and its columns."""
    return hv.Labels("route"), {"route": [f"line/{g:02}" for g in range(n_cells)]}


def hexagons(n_cells):
    """Return hexagons of one place and its neighbours, in one hour of Kolkata."""
    disk = sorted(h3.grid_disk(h3.latlng_to_cell(21.2, 72.8, 7), 3))[:n_cells]
    return hv.Cells(7, "1h", "Asia/Kolkata"), {"hexagon": disk, "slot": [SLOT] * n_cells}


def unit_ids(n_units, privacy_unit="user"):
    """Return ids of buses, each of its own; of days or weeks one after the other."""
    names = [f"bus {k:04}" for k in range(n_units)]
    if privacy_unit == "user":
        return names
    return [f"{name} {MONDAY + k * APART[privacy_unit]}" for k, name in enumerate(names)]


def dataset_of(counts, totals=0, squares=None, *, scale=(0, 60, 1), cells=None, **facts):
    """Return a data set of given counts (users down, cells across) and sums of each pair.

    Sums are in steps above the lower bound, cell by cell.

    Parameters
    ----------
    counts : array_like of int
    totals, squares : array_like of int
        Sums of the steps of each pair, and of their squares.
    scale : tuple
        Lower and upper bound, and the quantum.
    cells : tuple, optional
        As `labels` or `hexagons` return them.
    facts : mapping
        Further arguments of `hv.from_sums`.
    """
    counts = np.asarray(counts)
    grid, columns = cells or labels(counts.shape[1])
    lower, _, step = (Fraction(one) for one in scale)
    cell, user = np.nonzero(counts.T)
    n, totals = counts[user, cell], np.broadcast_to(totals, cell.size)
    ids = unit_ids(len(counts), facts.get("privacy_unit", "user"))
    table = {name: [texts[g] for g in cell] for name, texts in columns.items()}
    table |= {"user": [ids[u] for u in user], "n": n}
    table["sum"] = float(lower) * n + float(step) * totals
    if squares is not None:
        shifted = float(lower) ** 2 * n + 2 * float(lower * step) * totals
        table["sum_sq"] = shifted + float(step) ** 2 * np.asarray(squares)
    return hv.from_sums(
        pa.table(table), bounds=scale[:2], quantum=step, cells=grid, min_users=1,
        accept_single_records=True, **facts,
    )  # fmt: skip


def released(dataset, **asked):
    """Return a release of averages, in a ledger of its own."""
    book = hv.Ledger("memory://", dataset="buses", budget=10_000)
    usual = {"epsilon": 9, "method": "per-cell", "clipping_range": "bounds", "advise": False}
    return hv.release(dataset, hv.plan(dataset, **usual | asked), ledger=book, accept_noise=True)


def small_city(**facts):
    """Return three hexagons in one hour, two of them with four users and one with a single one."""
    given = {"cells": hexagons(3), "value": "speed", "value_unit": "km/h"} | facts
    counts = [[3, 2, 1], [2, 2, 0], [1, 4, 0], [5, 1, 0]]
    return dataset_of(counts, [173, 101, 59, 297, 113, 97, 239, 41, 37], **given)

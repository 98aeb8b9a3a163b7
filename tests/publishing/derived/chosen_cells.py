"""Releases in memory whose cells have chosen numbers, by which their errors are told.

Cells are roads in areas. Each kind of release is made once, and its first open row repeated.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pyarrow as pa

import hexveil as hv
from golden_releases import fixed_noise
from publishing.releases import restated, statements_of

AREAS, ROADS = ("0", "1"), ("0", "1", "2")
GAUSSIAN = {"delta": "1e-4"}
KINDS = {
    "laplace": {"clipping_range": "bounds"},
    "gaussian": {"clipping_range": "bounds"} | GAUSSIAN,
    "range": {"clipping_range": "private"},
    "mean": {"fleet": hv.FleetDeclaration(2000, 6, 6)},
    "users": {"fleet": hv.FleetDeclaration(2000, 6, 6), "statistics": "users"},
}
PARTS = 2**20
"""Parts of a unit in which a map states the scale of its noise."""


@cache
def made(kind):
    """Return a release of a kind."""
    rows = [(u, area, road) for u in range(400) for area in AREAS for road in ROADS]
    columns = {name: [row[k] for row in rows] for k, name in enumerate(("user", "area", "road"))}
    table = pa.table(columns | {"speed": [40.0 + 4.0 * int(road) + u % 10 for u, _, road in rows]})
    read = {"cells": hv.Labels("area", "road")}
    if "fleet" in KINDS[kind]:
        cells = hv.Labels("area", "road", values=(AREAS, ROADS))
        read = {"cells": cells, "protect": "presence"}
    dataset = hv.read(table, user="user", value="speed", bounds=(0, 100), **read)
    delta = KINDS[kind].get("delta")
    book = hv.Ledger("memory://", dataset="roads", budget=4, delta=delta)
    plan = hv.plan(dataset, epsilon=4, advise=False, **KINDS[kind])
    with fixed_noise():
        return hv.release(dataset, plan, ledger=book, accept_noise=True)


def with_columns(release, **columns):
    """Return a release with other columns, of a number for all cells or for each."""
    table = release.table
    for name, column in columns.items():
        at, field = table.column_names.index(name), table.schema.field(name)
        full = np.broadcast_to(np.asarray(column), table.num_rows).tolist()
        table = table.set_column(at, field, pa.array(full, field.type))
    return replace(release, table=table)


def chosen(kind, areas, request="0", plan=None, **columns):
    """Return a release with a road in each of these areas, and columns of these numbers.

    Parameters
    ----------
    kind : str
    areas : array_like of int
    request : str
        A letter: releases of different ones are of different requests.
    plan : dict, optional
        Changes of the plan that the manifest states.
    columns : array_like
        By name, a number for all cells or for each.
    """
    release, areas = made(kind), np.asarray(areas)
    is_open = release.table.column_names.count("is_open") and release["is_open"]
    row = int(np.argmax(is_open))
    table = release.table.take(np.full(areas.size, row))
    names = [f"{area:06d}" for area in areas.tolist()], [str(n) for n in range(areas.size)]
    texts = dict(zip(("area", "road"), names, strict=True))
    texts["cell"] = ["/".join(pair) for pair in zip(*names, strict=True)]
    release = with_columns(replace(release, table=table), **texts, **columns)
    sections = {"request": request * 64}
    if plan is not None:
        sections["plan"] = statements_of(release)["plan"] | plan
    return restated(release, **sections)


def rolled_up(release):
    """Return the roll-up of a release to areas, with its columns as arrays."""
    rolled = hv.roll_up(release, columns=["area"])
    return rolled, {name: rolled.table[name].to_numpy() for name in rolled.table.column_names[1:]}


def compared(before, after, **options):
    """Return the comparison of two releases, and its columns as arrays."""
    changes = hv.compare_releases(before, after, **options)
    return changes, {name: np.array(changes.table[name]) for name in changes.table.column_names}

"""The released table: its columns, its flags and its units."""

from datetime import UTC, datetime

import numpy as np

import hexveil as hv
from hexveil.model.cells import CellTable
from hexveil.publishing.estimates.table import build_table
from publishing.setting import SLOT, dataset_of, hexagons, plan_of


def hours(slot, kind):
    """Return one hexagon in one hour of Warsaw."""
    grid = hv.Cells(7, "1h", "Europe/Warsaw", kind)
    return CellTable(grid, hexagons(1).hexagon, np.array([slot]))


def names_of(cells):
    """Return the columns that say where, and the row, of one cell."""
    dataset = dataset_of([[1]], cells=cells)
    table = build_table(plan_of(dataset, [1]), dataset.public, {"mean": np.zeros(1)})
    where = table.column_names[: table.column_names.index("users")]
    return where, table.to_pylist()[0]


def test_calendar_slots_start_at_an_instant():
    """A calendar slot is named by its local start and end, and has its first instant in UTC."""
    where, row = names_of(hours(SLOT, "calendar"))
    assert where == ["cell", "hexagon", "slot", "slot_end", "starts_at_utc"]
    assert row["slot"] == "2023-11-14T22:00"
    assert row["slot_end"] == "2023-11-14T23:00"
    assert row["starts_at_utc"] == datetime(2023, 11, 14, 21, tzinfo=UTC)
    assert row["cell"] == f"{row['hexagon']}/2023-11-14T22:00"


def test_pooled_slots_have_no_instant():
    """An hour pooled over days has a name but no instant; hexagons alone have no slot."""
    where, row = names_of(hours(23 * 3600, "pooled"))
    assert where == ["cell", "hexagon", "slot", "slot_end"]
    assert (row["slot"], row["slot_end"]) == ("23:00", "00:00")
    where, _ = names_of(CellTable(hv.Cells(7, None), hexagons(1).hexagon))
    assert where == ["cell", "hexagon"]

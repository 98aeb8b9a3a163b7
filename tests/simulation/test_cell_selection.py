"""Every way to name a cell of a study, and what is refused."""

import datetime as dt

import numpy as np
import pytest

from hexveil import Cells, InputError, Labels, OneCell
from hexveil.model.cells import CellTable
from hexveil.simulation.own_cells import select_cell, some_cells

NEAR, FAR = int("85608b3bfffffff", 16), int("85608b33fffffff", 16)
SEVEN, EIGHT = 7 * 3600, 8 * 3600


def hours(slot="pooled", day=0):
    """Return a table of two hours in one hexagon and one in another."""
    hexagons = np.array([NEAR, NEAR, FAR], dtype=np.uint64)
    starts = np.array([SEVEN, EIGHT, SEVEN], dtype=np.int64) + day
    return CellTable(Cells(5, "1h", "Asia/Kolkata", slot), hexagons, starts)


CALENDAR = hours("calendar", 19_723 * 86_400)  # 2024-01-01
PLACES = CellTable(Cells(5, None), np.array([NEAR, FAR], dtype=np.uint64))
ROUTES = CellTable(Labels("route", "hour"), labels={"route": ("17", "a b"), "hour": ("6", "7")})


@pytest.mark.parametrize(
    ("cells", "cell", "number"),
    [
        (hours(), 1, 1),
        (hours(), np.int64(2), 2),
        (hours(), "85608b3bfffffff/08:00", 1),
        (hours(), "85608b3bfffffff 08:00", 1),
        (hours(), "85608B3BFFFFFFF, 08:00:00", 1),
        (hours(), ("85608b3bfffffff", "08:00"), 1),
        (hours(), (NEAR, dt.time(8)), 1),
        (hours(), (np.uint64(FAR), "07:00"), 2),
        (hours(), "85608b33fffffff", 2),  # of a single slot
        (CALENDAR, "85608b3bfffffff 2024-01-01 08:00", 1),
        (CALENDAR, ("85608b3bfffffff", "2024-01-01T08:00:00"), 1),
        (CALENDAR, ("85608b3bfffffff", dt.datetime(2024, 1, 1, 8)), 1),  # noqa: DTZ001
        (PLACES, "85608b33fffffff", 1),
        (PLACES, ("85608B33FFFFFFF",), 1),
        (ROUTES, ("a b", 7), 1),
        (ROUTES, "17/6", 0),
        (CellTable(OneCell(), labels={"cell": ("all",)}), None, 0),
        (CellTable(OneCell(), labels={"cell": ("all",)}), "all", 0),
    ],
)
def test_a_cell_is_selected(cells, cell, number):
    """Names, numbers, and a hexagon with its slot as a release shows them, all mean one cell."""
    assert select_cell(cells, cell) == number


@pytest.mark.parametrize(
    ("cells", "cell", "message"),
    [
        (hours(), None, r"a cell is needed: name one of 3 \("),
        (hours(), 3, "there is no cell 3; name one of 3"),
        (hours(), -1, "there is no cell -1; name one of 3"),
        (hours(), True, "there is no cell True"),
        (hours(), 1.0, "there is no cell 1.0"),
        (hours(), "", "no cell in the hexagon ''; name one of 3"),
        (hours(), "85608b37fffffff 07:00", "no cell in the hexagon '85608b37fffffff'; name one"),
        (hours(), "85608b3bfffffff", r"85608b3bfffffff has 2 slots: .* \(07:00, 08:00\)"),
        (hours(), "85608b3bfffffff 09:00", r"slot '09:00'; name one of 2 \(07:00, 08:00\)"),
        (hours(), ("85608b3bfffffff", "07:00", "x"), "there is no cell"),
        (hours(), (), "there is no cell"),
        (PLACES, "85608b3bfffffff 07:00", "have no slots here: name the hexagon"),
        (ROUTES, ("17", "7"), "there is no cell"),
        (ROUTES, "17 6", "there is no cell '17 6'; name one of 2"),
    ],
)
def test_what_no_cell_is_called_is_refused(cells, cell, message):
    """The message names cells or slots that there are."""
    with pytest.raises(InputError, match=message):
        select_cell(cells, cell)


def test_a_few_cells_stand_as_examples():
    """With three cells or fewer all are named."""
    assert some_cells(("a", "b")) == "name one of 2 (a, b), or its number from 0"
    assert "(a, b, c, ...)" in some_cells(tuple("abcd"))

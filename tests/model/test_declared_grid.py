"""Declared areas and grids: cells from declarations, whatever the records."""

import numpy as np
import pytest

from hexveil import Cells, InputError, Labels
from hexveil.base import hexagons
from hexveil.model import declared_grid
from hexveil.model.areas import HexagonList, Polygon, area_of
from hexveil.model.declared_grid import DeclaredGrid

BOX = Polygon.of_box(20.9, 52.1, 21.2, 52.3)
POOLED = Cells(7, None)


def test_an_area_holds_the_hexagons_with_centres_in_it():
    """Every centre lies in the box, and every neighbour that is left out has its centre outside."""
    grid = DeclaredGrid.of_area(POOLED, BOX)
    inside = set(grid.table.hexagon.tolist())
    assert 20 < len(inside) == grid.n_cells
    assert not grid.is_in_use

    def is_in_box(index):
        lat, lon = hexagons.centre(index)
        return 20.9 <= lon <= 21.2 and 52.1 <= lat <= 52.3

    assert all(map(is_in_box, inside))
    wider = DeclaredGrid.of_area(POOLED, Polygon.of_box(20.8, 52.0, 21.3, 52.4))
    outside = set(wider.table.hexagon.tolist()) - inside
    assert outside
    assert not any(map(is_in_box, outside))


def test_every_hexagon_is_crossed_with_every_slot():
    """Pooled slots are those of a day, calendar slots those of the declared dates."""
    pooled = DeclaredGrid.of_area(Cells(5, "6h", "Europe/Warsaw", "pooled"), BOX)
    dates = ("2026-11-20", "2026-11-22")
    calendar = DeclaredGrid.of_area(Cells(5, "6h", "Europe/Warsaw"), BOX, dates)
    places = DeclaredGrid.of_area(Cells(5, None), BOX).n_cells
    assert pooled.n_cells == 4 * places
    assert calendar.n_cells == 12 * places
    assert set(pooled.table.slot_names()) == {"00:00", "06:00", "12:00", "18:00"}
    assert min(calendar.table.slot_names()) == "2026-11-20T00:00"
    assert max(calendar.table.slot_names()) == "2026-11-22T18:00"
    assert len(set(calendar.table.names())) == calendar.n_cells


def test_a_list_declares_that_its_cells_are_in_use():
    """Hexagons by name, once each, whatever their order; they need no test for weight."""
    names = DeclaredGrid.of_area(POOLED, BOX).table.hexagon_names()[:3]
    grid = DeclaredGrid.of_area(POOLED, HexagonList((*names[::-1], names[0])))
    assert grid.table.hexagon_names() == tuple(sorted(names))
    assert grid.is_in_use


def test_labels_are_combined():
    """All combinations of the values of the columns, each once."""
    grid = DeclaredGrid.of_labels(Labels("origin", "hour"), [["EWR", "JFK"], ["07", "08", "09"]])
    assert grid.n_cells == 6
    assert grid.table.names()[:2] == ("EWR/07", "EWR/08")
    assert grid.is_in_use


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Polygon(((0, 0), (1, 1), (0, 0))), "three different corners"),
        (lambda: Polygon(((0, 0), (200, 1), (0, 2))), "longitude"),
        (lambda: Polygon.of_box(2, 0, 1, 1), "west to east"),
        (lambda: DeclaredGrid.of_area(POOLED, HexagonList(("8526",))), "no hexagon"),
        (lambda: DeclaredGrid.of_area(Cells(5, "1h", "Europe/Warsaw"), BOX), "declared dates"),
        (
            lambda: DeclaredGrid.of_area(
                Cells(5, "1h", "Europe/Warsaw"), BOX, ("2026-11-02", "2026-11-01")
            ),
            "after the last",
        ),
        (
            lambda: DeclaredGrid.of_area(Cells(5, "1h", "Europe/Warsaw"), BOX, ("one", "two")),
            "ISO text",
        ),
        (lambda: DeclaredGrid.of_area(Cells(1, None), BOX), "no hexagon's centre"),
        (lambda: DeclaredGrid.of_labels(Labels("a", "b"), [["1"]]), "each column"),
        (lambda: DeclaredGrid.of_labels(Labels("a"), [["1", "1"]]), "listed twice"),
    ],
)
def test_wrong_declarations_are_refused(make, message):
    """Each refusal says what is wrong with the declaration."""
    with pytest.raises(InputError, match=message):
        make()


def test_a_grid_has_a_largest_size(monkeypatch):
    """More cells than sums have room for are refused before they are made."""
    monkeypatch.setattr(declared_grid, "MAX_GRID_CELLS", 100)
    with pytest.raises(InputError, match="more than 100 cells"):
        DeclaredGrid.of_area(Cells(6, "1h", "Europe/Warsaw", "pooled"), BOX)
    with pytest.raises(InputError, match="from 1 to 100 cells"):
        DeclaredGrid.of_labels(Labels("n"), [list(map(str, np.arange(101)))])


CORNERS = ((20.8, 52.0), (21.3, 52.0), (21.3, 52.4))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("20.8", 52, "21.3", 52.4), Polygon.of_box(20.8, 52.0, 21.3, 52.4)),
        (CORNERS, Polygon(CORNERS)),
        ({"type": "Polygon", "coordinates": [list(CORNERS)]}, Polygon(CORNERS)),
        (["861f53baffffff7"], HexagonList(("861f53baffffff7",))),
        (Polygon(CORNERS), Polygon(CORNERS)),
    ],
)
def test_forms_of_an_area(given, expected):
    """Each form is the same area as the type that it stands for."""
    assert area_of(given) == expected


@pytest.mark.parametrize("given", ["box", (), (1, 2, 3), {"type": "Point"}, None, [1, "a"], 7])
def test_anything_else_is_refused(given):
    """The message names the forms."""
    with pytest.raises(InputError, match="area must be"):
        area_of(given)


def test_declarations_are_no_part_of_what_a_cell_is():
    """Requests of the other model name their grid by its repr, which stays as it was."""
    box = (20.8, 52.0, 21.3, 52.4)
    assert repr(Cells(6, None, area=box)) == repr(Cells(6, None))
    assert repr(Labels("a", values=["x"])) == repr(Labels("a"))


@pytest.mark.parametrize("values", [["x", "y"], [["x"]], [["x"], []], ["x", ["y"]]])
def test_values_are_listed_per_column(values):
    """Two columns need two lists."""
    with pytest.raises(InputError, match="each label column"):
        Labels("a", "b", values=values)

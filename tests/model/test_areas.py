"""Declared areas: boxes, polygons, GeoJSON and hexagons, as holders write them."""

import pytest

from hexveil.base.errors import InputError
from hexveil.model.areas import HexagonList, Polygon, area_of
from hexveil.model.cells import Cells, Labels

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

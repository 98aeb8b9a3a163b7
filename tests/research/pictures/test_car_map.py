"""The gallery's map of private cars, with few of them."""

import gzip
from pathlib import Path

import numpy as np
import pytest

import hexveil as hv
from hexveil.model.declared_grid import DeclaredGrid, Polygon
from hexveil.simulation.cars import BOX, ZONE
from hexveil_research.pictures import car_map

DOCS = Path(__file__).resolve().parents[3] / "docs"


def test_a_map_has_the_hexagons_of_its_slot_that_have_numbers():
    """Of each hexagon the number at the slot that is shown; those without one are left out."""
    grid = DeclaredGrid.of_area(hv.Cells(7, "1h", ZONE, "pooled"), Polygon.of_box(*BOX))
    values = np.arange(grid.n_cells, dtype=np.float64)
    values[car_map.SLOT] = np.nan
    made = car_map.content("All", grid, values)
    assert len(made.hexagons) == grid.shape[0] - 1
    assert (made.values % 24 == car_map.SLOT).all()


@pytest.mark.parametrize("picture", ["gallery-cars.png", "gallery-distributions.svg"])
def test_the_page_shows_the_committed_picture(picture):
    """The picture is of few bytes, and the page says how it was made."""
    content = (DOCS / "images" / picture).read_bytes()
    assert len(content if picture.endswith("png") else gzip.compress(content)) <= 150_000
    page = (DOCS / "start" / "gallery.md").read_text("utf-8")
    assert f"(../images/{picture})" in page
    name = picture.partition(".")[0]
    assert f"python -m hexveil_research.pictures my-pictures {name}" in page

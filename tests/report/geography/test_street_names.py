"""The street that a hexagon is known by."""

import h3
import numpy as np
import pytest

from hexveil.report.background import streets_through

CENTRE = (21.17, 72.83)
NAMES = h3.grid_disk(h3.latlng_to_cell(*CENTRE, 8), 3)


def line(*corners):
    """Return a line through corners (metres east, metres north) of the middle hexagon."""
    lat, lon = h3.cell_to_latlng(NAMES[0])
    metre = 1 / 111_195
    shrink = np.cos(np.radians(lat))
    return [(lon + east * metre / shrink, lat + north * metre) for east, north in corners]


def test_the_longest_street_in_a_hexagon_names_it():
    """Pieces of one name count together; streets elsewhere do not."""
    lines = [
        ("Short", line((-100, 0), (150, 0))),
        ("Long", line((-100, 50), (50, 50))),
        ("Long", line((-100, 80), (50, 80))),
        ("Far", line((40_000, 0), (50_000, 0))),
    ]
    assert streets_through(NAMES, lines) == {NAMES[0]: "Long"}
    assert streets_through(NAMES, lines[:2]) == {NAMES[0]: "Short"}


def test_a_street_names_every_hexagon_that_it_crosses():
    """Also where its corners lie outside all of them."""
    found = streets_through(NAMES, [("Ring Road", line((-9_000, 0), (9_000, 0)))])
    along = line(*((east, 0) for east in range(-9_000, 9_000, 40)))
    crossed = {h3.latlng_to_cell(lat, lon, 8) for lon, lat in along} & {*NAMES}
    assert {*found.values()} == {"Ring Road"}
    assert len({*found} ^ crossed) <= 1
    assert len(found) >= 6


@pytest.mark.parametrize("lines", [[], [("A point", line((0, 0)))]])
def test_without_lines_there_is_no_street(lines):
    """A line of one place has no length."""
    assert streets_through(NAMES, lines) == {}


def test_large_hexagons_have_no_street():
    """So many roads cross them that none describes them."""
    large = [h3.latlng_to_cell(*CENTRE, 6)]
    assert streets_through(large, [("Ring Road", line((-900, 0), (900, 0)))]) == {}

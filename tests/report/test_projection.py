"""Where hexagons are drawn."""

import math

import h3
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from hexveil.report.geography import align_with, centred_projection, unwrapped_rings


def drawn(names):
    rings = unwrapped_rings(names)
    projection = centred_projection(rings)
    return projection, [projection.steps(*np.array(r, dtype=float).T) for r in rings]


@given(st.floats(-80, 80), st.floats(-180, 180), st.integers(3, 12))
@examples(60)
def test_hexagons_keep_their_area_near_the_middle(lat, lon, resolution):
    """In the middle of the map a metre drawn is a metre of ground."""
    name = h3.latlng_to_cell(lat, lon, resolution)
    projection, (ring,) = drawn([name])
    x, y = (ring * projection.unit).astype(float).T
    area = abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2
    # Beyond resolution 12 the reference area itself is inexact near 180 degrees.
    tolerance = 0.12 if resolution < 6 else 0.03
    assert area == pytest.approx(h3.cell_area(name, unit="m^2"), rel=tolerance)


def test_data_on_both_sides_of_the_date_line_appear_together():
    """Hexagons around 180 degrees make one narrow map, not one around the world."""
    names = h3.grid_disk(h3.latlng_to_cell(-17, 179.95, 5), 3)
    rings = unwrapped_rings(names)
    lons = [lon for ring in rings for lon, _ in ring]
    assert max(lons) - min(lons) < 2
    assert abs(abs(centred_projection(rings).lon) - 180) < 1


def test_hawaii_and_the_east_coast_keep_their_order():
    """A map of the United States runs from Hawaii in the west to New York in the east."""
    places = [(21.3, -157.9), (61.2, -150.0), (40.6, -73.8)]
    _, rings = drawn([h3.latlng_to_cell(lat, lon, 1) for lat, lon in places])
    east = [ring[:, 0].mean() for ring in rings]
    assert east[0] < east[1] < east[2]


def test_ordinary_maps_keep_ordinary_longitudes():
    """Warsaw stays at 21 degrees east, Denver at 105 degrees west."""
    for lat, lon in ((52.2, 21.0), (39.7, -105.0)):
        (ring,) = unwrapped_rings([h3.latlng_to_cell(lat, lon, 9)])
        assert ring[0][0] == pytest.approx(lon, abs=0.1)


def test_the_whole_world_can_be_drawn():
    """Every base cell, those around the poles too, has a finite outline under a turn wide."""
    projection, rings = drawn(sorted(h3.get_res0_cells()))
    assert len(rings) == 122
    around_earth = 2 * math.pi * 6_371_008.8 / projection.unit
    for ring in rings:
        assert np.ptp(ring[:, 0]) <= around_earth * 1.001


def test_outlines_are_finer_than_they_look():
    """A step is at most a fiftieth of a hexagon, so that neighbours share their corners."""
    for resolution in (1, 8, 15):
        names = h3.grid_disk(h3.latlng_to_cell(21.17, 72.83, resolution), 1)
        _, rings = drawn(names)
        assert min(np.ptp(ring[:, 1]) for ring in rings) >= 50


def test_context_lines_are_moved_beside_the_map():
    """A line at 179 degrees west lies beside a map around 180 degrees east."""
    (line,) = align_with([[(-179.0, 0.0), (179.0, 1.0)]], 180.0)
    assert line[0][0] == pytest.approx(181.0)
    assert line[1][0] == pytest.approx(179.0)

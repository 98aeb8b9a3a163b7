"""Looking hexagons up by pixel gives exactly the hexagons that computing gives."""

import h3
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from hexveil.base import hexagons
from hexveil.records.duckdb import hexagon_table
from hexveil.records.duckdb.hexagon_table import HexagonTable


def places(centre, spread, size, seed):
    """Return places around a centre."""
    rng = np.random.default_rng(seed)
    lat = np.clip(centre[0] + spread * rng.uniform(-1, 1, size), -90, 90)
    lon = np.clip(centre[1] + spread * rng.uniform(-1, 1, size), -180, 180)
    return pa.array(lat), pa.array(lon)


def edge(resolution):
    """Return the average edge in degrees."""
    return 9.95 / 7 ** (resolution / 2)


def table(resolution):
    """Return a table that fills a tile as soon as it is asked for it."""
    return HexagonTable(resolution, expected=10**12)


def assert_computed(resolution, draws):
    """Assert that one table, filled as places come, gives the hexagons that H3 computes."""
    pixels = table(resolution)
    for lat, lon in draws:
        assert pixels.of_places(lat, lon).equals(hexagons.of_places(lat, lon, resolution))


@examples(30)
@given(
    st.tuples(st.floats(-90, 90), st.floats(-180, 180)),
    st.integers(4, 15),
    st.integers(0, 2**32),
)
def test_looked_up_is_computed(centre, resolution, seed):
    """Anywhere on the globe and at every resolution the table changes no hexagon."""
    assert_computed(
        resolution, (places(centre, 6 * edge(resolution), 3000, seed + part) for part in range(2))
    )


# The corners of icosahedron faces (pentagons) and the middle of an edge, where cells bend most.
@pytest.mark.parametrize("centre", [(64.7, 10.5), (58.16, -179.9), (39.1, 122.3), (47.0, 40.0)])
@pytest.mark.parametrize("resolution", [5, 6, 8])
def test_looked_up_is_computed_around_pentagons_and_face_edges(centre, resolution):
    """Distorted cells are looked up as exactly as others."""
    assert_computed(
        resolution, (places(centre, 8 * edge(resolution), 20_000, part) for part in range(6))
    )


def borders(centre, resolution, seed):
    """Return places within a quarter of a pixel of the borders of hexagons around a centre."""
    rng = np.random.default_rng(seed)
    cells = h3.grid_disk(h3.latlng_to_cell(*centre, resolution), 3)
    found = []
    for cell in cells:
        ring = np.array(h3.cell_to_boundary(cell))
        ends = np.stack((ring, np.roll(ring, -1, axis=0)))
        if np.ptp(ring[:, 1]) > 180 or np.abs(ring[:, 0]).max() > 85:
            continue
        part = rng.uniform(0, 1, (60, len(ring), 1))
        found.append((ends[0] + part * (ends[1] - ends[0])).reshape(-1, 2))
    near = np.concatenate(found) if found else np.array([centre])
    near = near + rng.uniform(-1, 1, near.shape) * edge(resolution) / 64
    return pa.array(near[:, 0]), pa.array(np.clip(near[:, 1], -180, 180))


@pytest.mark.slow
@examples(30)
@given(
    st.tuples(st.floats(-65, 65), st.floats(-180, 180)),
    st.integers(5, 15),
    st.integers(0, 2**32),
)
def test_beside_a_border_looked_up_is_computed(centre, resolution, seed):
    """Where two hexagons meet, anywhere on the globe: each place is on the side H3 says."""
    assert_computed(resolution, (borders(centre, resolution, seed + part) for part in range(2)))


def test_most_places_of_a_city_are_looked_up(monkeypatch):
    """Once tiles are filled, few places are computed: the table is of use."""
    pixels = table(8)
    lat, lon = places((52.2, 21.0), 0.02, 20_000, 1)
    pixels.of_places(lat, lon)
    computed = counting(monkeypatch)
    pixels.of_places(lat, lon)
    assert sum(computed) < 0.15 * len(lat)


def test_a_tile_is_filled_as_soon_as_enough_places_are_expected_in_it():
    """With many places to come a tile is filled by the first of them; with few it never is."""
    lat, lon = places((52.2, 21.0), 0.001, 200, 1)
    for expected, filled in ((10**7, True), (1000, False), (0, False)):
        pixels = HexagonTable(8, expected)
        assert pixels.of_places(lat, lon).equals(hexagons.of_places(lat, lon, 8))
        assert (len(pixels._code) > 1) is filled


@examples(20)
@given(
    st.tuples(st.floats(-65, 65), st.floats(-180, 180)),
    st.integers(5, 12),
    st.integers(0, 2**32),
)
def test_where_three_hexagons_meet_looked_up_is_computed(centre, resolution, seed):
    """Within two pixels of a corner, where three borders end, each place is in its hexagon."""
    pixels, rng = table(resolution), np.random.default_rng(seed)
    cells = h3.grid_disk(h3.latlng_to_cell(*centre, resolution), 2)
    corner = np.concatenate([h3.cell_to_boundary(cell) for cell in cells])
    near = corner.repeat(100, axis=0)
    near = near + rng.uniform(-1, 1, near.shape) * edge(resolution) / 8
    near = near[(np.abs(near[:, 0]) < 90) & (np.abs(near[:, 1]) < 180)]
    lat, lon = pa.array(near[:, 0]), pa.array(near[:, 1])
    for _ in range(2):
        assert pixels.of_places(lat, lon).equals(hexagons.of_places(lat, lon, resolution))


def counting(monkeypatch):
    """Return a list that will hold how many places each call computed."""
    computed, of_places = [], hexagons.of_places

    def counted(lat, lon, resolution):
        computed.append(len(lat))
        return of_places(lat, lon, resolution)

    monkeypatch.setattr(hexagons, "of_places", counted)
    return computed


def test_absent_places_stay_absent():
    """Nulls come back as nulls, also in chunks."""
    lat, lon = pa.chunked_array([[52.2, None], [52.2]]), pa.chunked_array([[21.0, 21.0], [None]])
    found = HexagonTable(8).of_places(lat, lon)
    assert found.is_null().to_pylist() == [False, True, True]
    none = pa.array([], pa.float64())
    assert len(HexagonTable(8).of_places(none, none)) == 0


def test_tiles_have_an_end(monkeypatch):
    """No more tiles are kept than allowed; places beyond the window are computed."""
    monkeypatch.setattr(hexagon_table, "MAX_TILES", 3)
    pixels = table(9)
    for number in range(4):
        lat, lon = places((52.2 + 3.0 * number, 21.0), 0.1, 3_000, number)
        assert pixels.of_places(lat, lon).equals(hexagons.of_places(lat, lon, 9))
    assert len(pixels._code) == 3

import h3
import numpy as np
import pyarrow as pa
import pytest

from hexveil.base import hexagons

RESOLUTIONS = [0, 3, 7, 9, 15]


def places(how_many, seed):
    """Return random latitudes and longitudes of the whole globe, its poles and edges among them."""
    rng = np.random.default_rng(seed)
    lat = np.degrees(np.arcsin(rng.uniform(-1, 1, how_many)))
    lon = rng.uniform(-180, 180, how_many)
    lat[:6], lon[:6] = [90, -90, 0, 0, 0, 89.999999], [0, 10, 180, -180, 0, -179.999999]
    return pa.array(lat), pa.array(lon)


def places_by_reference(lat, lon, resolution):
    """Return the hexagon of each place, one at a time by H3 itself."""
    pairs = zip(lat.to_pylist(), lon.to_pylist(), strict=True)
    return pa.array([h3.str_to_int(h3.latlng_to_cell(*pair, resolution)) for pair in pairs],
                    pa.uint64())  # fmt: skip


@pytest.mark.parametrize("resolution", RESOLUTIONS)
def test_fast_hexagons_are_those_of_the_reference(resolution):
    """The vectorised library agrees with H3's own on random places of the whole globe."""
    lat, lon = places(2000, resolution)
    fast = hexagons.of_places(lat, lon, resolution)
    assert fast.type == pa.uint64()
    assert fast.equals(places_by_reference(lat, lon, resolution))


def test_null_places_have_null_hexagons():
    """A place without latitude or longitude has no hexagon, and moves no other."""
    lat = pa.array([52.2, None, 52.2, None], pa.float64())
    lon = pa.array([21.0, 21.0, None, None], pa.float64())
    found = hexagons.of_places(lat, lon, 7)
    assert found.is_null().to_pylist() == [False, True, True, True]
    assert found[0].as_py() == h3.str_to_int(h3.latlng_to_cell(52.2, 21.0, 7))
    assert hexagons.of_places(lat[:0], lon[:0], 7).to_pylist() == []


@pytest.mark.parametrize("resolution", RESOLUTIONS)
def test_names_and_resolutions(resolution):
    """A hexagon's name is H3's, and its resolution is the one asked for."""
    found = hexagons.of_places(*places(50, 1), resolution).to_numpy()
    assert hexagons.names(found) == [h3.int_to_str(int(i)) for i in found]
    assert {hexagons.resolution_of(i) for i in found} == {resolution}


@pytest.mark.parametrize(("fine", "coarse"), [(15, 0), (9, 7), (7, 7), (3, 0)])
def test_parents_are_those_of_the_reference(fine, coarse):
    """The parent of each hexagon is H3's."""
    found = hexagons.of_places(*places(500, 2), fine).to_numpy()
    up = hexagons.parents(found, coarse)
    slow = [h3.str_to_int(h3.cell_to_parent(h3.int_to_str(int(i)), coarse)) for i in found]
    assert up.dtype == np.uint64
    assert up.tolist() == slow


def area(ring):
    """Return the signed area of a ring, in square degrees; above zero counter-clockwise."""
    x, y = np.array(ring).T
    return float((x * np.roll(y, -1) - np.roll(x, -1) * y).sum() / 2)


@pytest.mark.parametrize("resolution", [2, 5, 9])
def test_outline_is_a_small_ring_around_the_place(resolution):
    """An outline runs counter-clockwise, is open and holds the hexagon's centre."""
    lat, lon = (pa.array(v) for v in ([52.2, -33.4, 0.1, 17.0], [21.0, -70.6, 0.1, 61.0]))
    for index in hexagons.of_places(lat, lon, resolution).to_pylist():
        ring = hexagons.outline(index)
        assert ring[0] != ring[-1]
        assert 5 <= len(ring) <= 10
        assert area(ring) > 0
        middle = h3.cell_to_latlng(h3.int_to_str(index))
        assert np.mean(ring, axis=0)[::-1] == pytest.approx(middle, abs=3 / 2**resolution)


@pytest.mark.parametrize("lat", [-17.0, 0.0, 40.0, 65.0])
@pytest.mark.parametrize("resolution", [1, 4, 8])
def test_outline_across_the_180th_meridian_stays_whole(lat, resolution):
    """A hexagon across the date line is drawn in one piece, wherever its corners lie."""
    index = hexagons.of_places(pa.array([lat]), pa.array([180.0]), resolution)[0].as_py()
    lons = [lon for lon, _ in hexagons.outline(index)]
    assert max(lons) - min(lons) < 60
    assert min(lons) <= 180.0 <= max(lons)
    reference = [b for _, b in h3.cell_to_boundary(h3.int_to_str(index))]
    assert sorted(lon % 360 for lon in lons) == pytest.approx(sorted(b % 360 for b in reference))

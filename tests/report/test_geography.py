"""Where hexagons are drawn."""

import json
import math
from pathlib import Path

import h3
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from hexveil.report.geography import atlas as geography
from hexveil.report.geography import background as module
from hexveil.report.geography.atlas import (
    AREAS,
    Box,
    Places,
    describe_places,
    format_distance,
    outlines_in,
    world_places,
)
from hexveil.report.geography.background import draw_map, projected_rings
from hexveil.report.geography.context import Layer, Shape


@given(st.floats(-80, 80), st.floats(-180, 180), st.integers(3, 12))
@examples(60)
def test_hexagons_keep_their_area_near_the_middle(lat, lon, resolution):
    """In the middle of the map a metre drawn is a metre of ground."""
    name = h3.latlng_to_cell(lat, lon, resolution)
    projection, (ring,) = projected_rings([name])
    x, y = (ring * projection.unit).astype(float).T
    area = abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2
    # Beyond resolution 12 the reference area itself is inexact near 180 degrees.
    tolerance = 0.12 if resolution < 6 else 0.03
    assert area == pytest.approx(h3.cell_area(name, unit="m^2"), rel=tolerance)


# ---- Words for hexagons: the nearest name, and which way ----


EIGHTHS = ("north", "north-east", "east", "south-east", "south", "south-west", "west", "north-west")


def places(*rows) -> Places:
    """Return places from (name, longitude, latitude, population)."""
    names, lon, lat, population = zip(*rows, strict=True)
    return Places(names, np.column_stack([lon, lat]).astype(float), np.array(population, float))


def test_a_hexagon_is_named_by_the_best_known_place_in_it():
    """Of two places in a hexagon the larger gives the name, without distance."""
    cell = h3.latlng_to_cell(52.2, 21.0, 6)
    lat, lon = h3.cell_to_latlng(cell)
    known = places(("Hamlet", lon, lat, 600), ("Town", lon + 0.005, lat, 9_000))
    assert describe_places([cell], known) == ["Town"]


def test_a_city_names_further_than_a_village():
    """Between a village at four kilometres and a city at five, the city gives the name."""
    cell = h3.latlng_to_cell(52.0, 21.0, 9)
    lat, lon = h3.cell_to_latlng(cell)
    known = places(("Village", lon, lat + 4 / 111.2, 500), ("City", lon, lat - 5 / 111.2, 2e6))
    assert describe_places([cell], known) == ["5.0 km north of City"]


@given(st.floats(-80, 80), st.floats(-180, 180), st.integers(0, 7), st.floats(0.5, 3))
@examples(60)
def test_directions_are_those_of_the_compass(lat, lon, wind, degrees):
    """Walking from a place in one of eight directions leads to a hexagon that says so."""
    angle = wind * math.pi / 4
    there_lat = lat + degrees * math.cos(angle)
    there_lon = lon + degrees * math.sin(angle) / math.cos(math.radians(lat))
    cell = h3.latlng_to_cell(there_lat, there_lon, 10)
    (found,) = describe_places([cell], places(("Here", lon, lat, 1_000)))
    if abs(lat) < 60:  # nearer to the poles meridians turn on the way
        assert found.endswith(f" {EIGHTHS[wind]} of Here")
    true = h3.great_circle_distance((lat, lon), h3.cell_to_latlng(cell), unit="km")
    assert found.startswith(format_distance(true, fine=True))


# ---- The package's own geography: it is where the world is, and cut to a map ----


def area(ring: np.ndarray) -> float:
    x, y = ring.T
    return abs(float(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1)))) / 2


@pytest.mark.parametrize(
    ("name", "lon", "lat"),
    [("Surat", 72.83, 21.2), ("Warsaw", 21.01, 52.23), ("Honolulu", -157.86, 21.31)],
)
def test_cities_are_where_they_are(name, lon, lat):
    """A city is found by name within a few kilometres of its place."""
    places = world_places().within(Box(lon - 0.1, lat - 0.1, lon + 0.1, lat + 0.1))
    assert name in places.names
    assert places.names[int(np.argmax(places.population))] == name


def test_a_map_across_the_date_line_has_both_sides():
    """Fiji lies on both sides of 180 degrees, and is on a map that runs past it."""
    box = Box(176, -20, 184, -15)
    east = np.concatenate(outlines_in("land", box))[:, 0]
    assert east.min() < 179
    assert east.max() > 180.5
    both = Places(("east", "west"), np.array([[179.5, -17.0], [-179.5, -17.0]]), np.ones(2))
    assert both.within(box).position[:, 0].tolist() == [179.5, 180.5]


@given(
    st.floats(-180, 175), st.floats(-80, 75), st.floats(0.5, 60), st.floats(0.5, 30),
    st.sampled_from(AREAS),
)  # fmt: skip
@examples(40)
def test_what_is_cut_lies_in_the_box(west, south, width, height, kind):
    """No corner of a cut area is outside, and no area is larger than the box."""
    box = Box(west, south, west + width, south + height)
    for ring in outlines_in(kind, box):
        low, high = ring.min(axis=0), ring.max(axis=0)
        assert (low >= np.array([box.west, box.south]) - 1e-9).all()
        assert (high <= np.array([box.east, box.north]) + 1e-9).all()
        assert area(ring) <= width * height * (1 + 1e-9)


def test_the_data_are_small_and_name_their_sources():
    """Every installation carries less than 1.4 MB of them, and says whose they are."""
    folder = Path(geography.__file__).parents[1] / "assets" / "geography"
    assert sum(file.stat().st_size for file in folder.iterdir()) < 1_400_000
    said = (folder / "ATTRIBUTION.txt").read_text("utf-8")
    assert "public domain" in said
    assert "Creative Commons Attribution 4.0" in said
    assert "CC BY 4.0" in geography.ATTRIBUTION


# ---- What lies around the hexagons: cut to the map, small enough, and named by the holder first


WARSAW = h3.grid_disk(h3.latlng_to_cell(52.23, 21.0, 6), 4)


def around(names, context=None, *, geography=True):
    return draw_map(names, context, geography=geography)


def decoded(moves):
    return np.cumsum(np.array(moves).reshape(-1, 2), axis=0)


def test_a_map_of_warsaw_has_land_river_and_names():
    """Every hexagon has words, the city's name is written, and land reaches the edges."""
    found = around(WARSAW)
    assert len(found["words"]) == len(WARSAW)
    assert len(set(found["words"])) == len(WARSAW)
    assert "Warsaw" in found["words"]
    assert "Warsaw" in [name for _, _, name in found["labels"]]
    assert found["layers"]["river"]
    west, south, east, north = found["extent"]
    land = decoded(found["layers"]["land"][0])
    assert land.min(axis=0).tolist() == pytest.approx([west, south], abs=2 * found["detail"])
    assert land.max(axis=0).tolist() == pytest.approx([east, north], abs=2 * found["detail"])


def test_without_geography_there_is_nothing_of_it():
    """No line, name, word or attribution of the package remains."""
    found = around(WARSAW, geography=False)
    assert not found["layers"]
    assert not found["labels"]
    assert not found["words"]
    assert not found["attribution"]


def test_the_holders_names_come_first():
    """A named point of the context names its hexagon, whatever city is there too."""
    lat, lon = h3.cell_to_latlng(WARSAW[0])
    depot = Layer([Shape("Depot 7", is_line=False, lines=[[(lon, lat)]])])
    assert around(WARSAW, depot)["words"][0] == "Depot 7"
    alone = around(WARSAW, depot, geography=False)
    assert alone["words"][0] == "Depot 7"
    assert all(words.endswith("of Depot 7") for words in alone["words"][1:])


@pytest.mark.slow
@pytest.mark.parametrize("resolution", [0, 1, 3])
def test_geography_fits_into_a_page(resolution):
    """However much of the world a map shows, its lines stay within their limit."""
    names = sorted(h3.get_res0_cells()) if resolution == 0 else None
    names = names or h3.grid_disk(h3.latlng_to_cell(50.0, 10.0, resolution), 5)
    found = around(list(names))
    assert len(json.dumps(found["layers"], separators=(",", ":"))) <= module.MAX_GEOGRAPHY_BYTES
    assert found["layers"]["land"]
    assert len(json.dumps(found["labels"])) < 20_000

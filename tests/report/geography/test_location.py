"""Words for hexagons: the nearest name, and which way."""

import math

import h3
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from hexveil.report.geography import (
    Places,
    describe_location,
    format_distance,
    locate,
)


def places(*rows) -> Places:
    """Return places from (name, longitude, latitude, population)."""
    names, lon, lat, population = zip(*rows, strict=True)
    return Places(names, np.column_stack([lon, lat]).astype(float), np.array(population, float))


def said(names, known):
    return [describe_location(one, known.names[one.place]) for one in locate(names, known)]


def test_a_hexagon_is_named_by_the_best_known_place_in_it():
    """Of two places in a hexagon the larger gives the name, without distance."""
    cell = h3.latlng_to_cell(52.2, 21.0, 6)
    lat, lon = h3.cell_to_latlng(cell)
    known = places(("Hamlet", lon, lat, 600), ("Town", lon + 0.005, lat, 9_000))
    assert said([cell], known) == ["Town"]


def test_a_hexagon_without_a_place_has_distance_and_direction():
    """Eight kilometres south-east of the only place there is."""
    known = places(("Udhna", 72.85, 21.17, 5_000))
    step = 8 / 111.195 / math.sqrt(2)
    east = step / math.cos(math.radians(21.17))
    cell = h3.latlng_to_cell(21.17 - step, 72.85 + east, 9)
    assert said([cell], known)[0].endswith("km south-east of Udhna")
    assert 7.7 <= float(said([cell], known)[0].split()[0]) <= 8.3


def test_a_city_names_further_than_a_village():
    """Between a village at four kilometres and a city at five, the city gives the name."""
    cell = h3.latlng_to_cell(52.0, 21.0, 9)
    lat, lon = h3.cell_to_latlng(cell)
    known = places(("Village", lon, lat + 4 / 111.2, 500), ("City", lon, lat - 5 / 111.2, 2e6))
    assert said([cell], known) == ["5.0 km north of City"]


def test_without_places_there_are_no_words():
    """Nothing is named where nothing has a name."""
    assert locate(["872a1072bffffff"], places(("x", 0, 0, 1)).select(np.array([], int))) == []
    assert locate([], places(("x", 0, 0, 1))) == []


@given(st.floats(-80, 80), st.floats(-180, 180), st.integers(0, 7), st.floats(0.5, 3))
@examples(60)
def test_directions_are_those_of_the_compass(lat, lon, wind, degrees):
    """Walking from a place in one of eight directions leads to a hexagon that says so."""
    angle = wind * math.pi / 4
    there_lat = lat + degrees * math.cos(angle)
    there_lon = lon + degrees * math.sin(angle) / math.cos(math.radians(lat))
    cell = h3.latlng_to_cell(there_lat, there_lon, 10)
    (found,) = locate([cell], places(("Here", lon, lat, 1_000)))
    if abs(lat) < 60:  # nearer to the poles meridians turn on the way
        assert found.wind == wind
    true = h3.great_circle_distance((lat, lon), h3.cell_to_latlng(cell), unit="km")
    assert found.distance == format_distance(true, fine=True)


def test_places_beyond_the_date_line_are_near():
    """A place at 179.9 degrees west, written as 180.1, is next to 179.9 degrees east."""
    cell = h3.latlng_to_cell(-17.0, 179.9, 7)
    assert "south" in said([cell], places(("Taveuni", 180.05, -16.8, 900)))[0]
    assert said([h3.latlng_to_cell(-16.8, -179.95, 6)], places(("T", 180.05, -16.8, 9))) == ["T"]

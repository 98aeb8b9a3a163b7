"""Where hexagons are drawn, what lies around them, and the words that name them."""

import json
import math
import re
from importlib import resources

import h3
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from report.conftest import hexagon_table
from report.pages import data_of, page_of, restated, write_layer


@pytest.fixture(scope="module")
def around(city):
    """Return a function that gives the map of some hexagons as the page has it."""

    def map_of(names, context=None, *, hide_geography=False):
        release = restated(city, hexagon_table(list(names), [], [], missing=0.0))
        html = page_of(release, context=context, hide_geography=hide_geography)
        found = data_of(html)["map"]
        # No area of the package reaches out of the map, whatever it was cut from.
        low, high = np.reshape(found["extent"], (2, 2))
        corners = [decoded(ring) for kind in AREAS for ring in found["layers"].get(kind, ())]
        for ring in corners:
            assert (ring >= low - 2 * found["detail"]).all()
            assert (ring <= high + 2 * found["detail"]).all()
        return found

    return map_of


AREAS = ("land", "lake")


def decoded(moves):
    """Return the corners of a line that the page has as moves."""
    return np.cumsum(np.array(moves).reshape(-1, 2), axis=0)


@given(st.floats(-80, 80), st.floats(-180, 180), st.integers(3, 12))
@examples(60)
def test_hexagons_keep_their_area_near_the_middle(around, lat, lon, resolution):
    """In the middle of the map a metre drawn is a metre of ground."""
    name = h3.latlng_to_cell(lat, lon, resolution)
    found = around([name], hide_geography=True)
    x, y = (decoded(found["rings"][0]) * found["unit"]).astype(float).T
    area = abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2
    # Beyond resolution 12 the reference area itself is inexact near 180 degrees.
    tolerance = 0.12 if resolution < 6 else 0.03
    assert area == pytest.approx(h3.cell_area(name, unit="m^2"), rel=tolerance)


# ---- Words for hexagons: the nearest name, and which way ----


EIGHTHS = ("north", "north-east", "east", "south-east", "south", "south-west", "west", "north-west")


def test_a_hexagon_is_named_by_the_best_known_place_in_it(around, tmp_path):
    """Of two places in a hexagon the better known gives the name, without distance."""
    cell = h3.latlng_to_cell(52.2, 21.0, 6)
    lat, lon = h3.cell_to_latlng(cell)
    points = (
        ({"name": "Town"}, "Point", (lon + 0.005, lat)),
        ({"name": "Mill"}, "Point", (lon, lat)),
    )
    known = write_layer(tmp_path, *points)
    assert around([cell], known, hide_geography=True)["words"] == ["Town"]


def test_a_city_names_further_than_a_village(around):
    """Between Vareli at four kilometres and Surat at nine, the city gives the name."""
    east = h3.grid_disk("8842d9895bfffff", 9)
    assert around(east)["words"][0] == "8.8 km east of Surat"


@pytest.mark.parametrize("lat", [-55.0, -10.0, 0.3, 40.0, 58.0])
def test_directions_are_those_of_the_compass(around, tmp_path, lat):
    """Walking from a place in one of eight directions leads to a hexagon that says so."""
    lon, names = 179.2, []
    for wind in range(len(EIGHTHS)):
        degrees, angle = 0.5 + 0.2 * wind, wind * math.pi / 4
        north = lat + degrees * math.cos(angle)
        east = lon + degrees * math.sin(angle) / math.cos(math.radians(north))
        names.append(h3.latlng_to_cell(north, (east + 180) % 360 - 180, 7))
    known = write_layer(tmp_path, ({"name": "Here"}, "Point", (lon, lat)))
    words = around(names, known, hide_geography=True)["words"]
    for name, found, wind in zip(names, words, EIGHTHS, strict=True):
        said, unit, way = re.fullmatch(r"([\d.]+) (k?m) (\S+) of Here", found).groups()
        true = h3.great_circle_distance((lat, lon), h3.cell_to_latlng(name), unit=unit)
        assert way == wind
        assert float(said) == pytest.approx(true, abs=0.05 if "." in said else 5.0)


# ---- The package's own geography: it is where the world is, and cut to a map ----


@pytest.mark.parametrize(
    ("name", "lon", "lat"),
    [("Surat", 72.83, 21.2), ("Warsaw", 21.01, 52.23), ("Honolulu", -157.86, 21.31)],
)
def test_cities_are_where_they_are(around, name, lon, lat):
    """The hexagon of a city has its name, though there are other places in it."""
    cell = h3.latlng_to_cell(lat, lon, 4)
    found = around([cell])
    assert found["words"] == [name]
    ((x, y),) = [place for *place, label in found["labels"] if label == name]
    metres = h3.great_circle_distance((lat, lon), h3.cell_to_latlng(cell), unit="m")
    assert math.hypot(x, y) * found["unit"] == pytest.approx(metres, abs=9_000)


def test_a_map_across_the_date_line_has_both_sides(around, tmp_path):
    """Fiji lies on both sides of 180 degrees, and is on a map that runs past it."""
    sides = [({"name": f"{lon}"}, "Point", (lon, -17.0)) for lon in (179.5, -179.5)]
    fiji = h3.grid_disk(h3.latlng_to_cell(-17.0, 180.0, 4), 3)
    found = around(fiji, write_layer(tmp_path, *sides))
    land = np.concatenate([decoded(ring) for ring in found["layers"]["land"]])[:, 0]
    # Islands half a degree beyond have other longitudes in the data.
    assert land.min() < 0
    assert land.max() * found["unit"] > 53_000
    places = {name: x * found["unit"] for x, _, name in found["labels"]}
    assert places["-179.5"] - places["179.5"] == pytest.approx(106_000, rel=0.02)


def test_the_data_are_small_and_name_their_sources():
    """Every installation carries less than 1.4 MB of them, and says whose they are."""
    folder = resources.files("hexveil") / "report" / "assets" / "geography"
    assert sum(len(file.read_bytes()) for file in folder.iterdir()) < 1_400_000
    said = (folder / "ATTRIBUTION.txt").read_text("utf-8")
    assert "public domain" in said
    assert "Creative Commons Attribution 4.0" in said


# ---- What lies around the hexagons: cut to the map, small enough, and named by the holder first


WARSAW = h3.grid_disk(h3.latlng_to_cell(52.23, 21.0, 6), 4)


def test_a_map_of_warsaw_has_land_river_and_names(around):
    """Every hexagon has words, the city's name is written, and land reaches the edges."""
    found = around(WARSAW)
    assert len(found["words"]) == len(WARSAW)
    assert len(set(found["words"])) == len(WARSAW)
    assert "Warsaw" in found["words"]
    assert "Warsaw" in [name for _, _, name in found["labels"]]
    assert found["layers"]["river"]
    assert "CC BY 4.0" in found["attribution"]
    west, south, east, north = found["extent"]
    land = decoded(found["layers"]["land"][0])
    assert land.min(axis=0).tolist() == pytest.approx([west, south], abs=2 * found["detail"])
    assert land.max(axis=0).tolist() == pytest.approx([east, north], abs=2 * found["detail"])


def test_without_geography_there_is_nothing_of_it(around):
    """No line, name, word or attribution of the package remains."""
    found = around(WARSAW, hide_geography=True)
    assert not found["layers"]
    assert not found["labels"]
    assert not found["words"]
    assert not found["attribution"]


def test_the_holders_names_come_first(around, tmp_path):
    """A named point of the context names its hexagon, whatever city is there too."""
    lat, lon = h3.cell_to_latlng(WARSAW[0])
    depot = write_layer(tmp_path, ({"name": "Depot 7"}, "Point", (lon, lat)))
    assert around(WARSAW, depot)["words"][0] == "Depot 7"
    alone = around(WARSAW, depot, hide_geography=True)
    assert alone["words"][0] == "Depot 7"
    assert all(words.endswith("of Depot 7") for words in alone["words"][1:])


@pytest.mark.slow
@pytest.mark.parametrize("resolution", [0, 1, 3])
def test_geography_fits_into_a_page(around, resolution):
    """However much of the world a map shows, its lines stay within their limit."""
    names = sorted(h3.get_res0_cells()) if resolution == 0 else None
    names = names or h3.grid_disk(h3.latlng_to_cell(50.0, 10.0, resolution), 5)
    found = around(names)
    assert len(json.dumps(found["layers"], separators=(",", ":"))) <= 90_000
    assert found["layers"]["land"]
    assert len(json.dumps(found["labels"])) < 20_000

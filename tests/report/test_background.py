"""What lies around the hexagons: cut to the map, small enough, and named by the holder first."""

import json

import h3
import numpy as np
import pytest

from hexveil.report import background as module
from hexveil.report.background import background, encode
from hexveil.report.geography import centred_projection, unwrapped_rings

WARSAW = h3.grid_disk(h3.latlng_to_cell(52.23, 21.0, 6), 4)


def around(names, context=None, *, geography=True):
    rings = unwrapped_rings(names)
    projection = centred_projection(rings)
    drawn = [projection.steps(*np.array(ring).T) for ring in rings]
    return background(projection, drawn, names, context=context, geography=geography)


def decoded(moves):
    return np.cumsum(np.array(moves).reshape(-1, 2), axis=0)


def test_lines_come_back_from_their_moves():
    """The first corner and the moves say the whole line."""
    line = np.array([[5, 5], [7, 4], [7, 9]])
    assert decoded(encode(line)).tolist() == line.tolist()


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
    point = {"type": "Point", "coordinates": [lon, lat]}
    depot = {"type": "Feature", "properties": {"name": "Depot 7"}, "geometry": point}
    assert around(WARSAW, depot)["words"][0] == "Depot 7"
    alone = around(WARSAW, depot, geography=False)
    assert alone["words"][0] == "Depot 7"
    assert all(words.endswith("of Depot 7") for words in alone["words"][1:])


@pytest.mark.slow
def test_lines_of_the_context_fit_into_a_page():
    """A city of streets is thinned until its lines stay within their limit, and some remain."""
    rng = np.random.default_rng(5)
    middle = np.array(h3.cell_to_latlng(WARSAW[0]))[::-1]
    walks = middle + np.cumsum(rng.normal(0, 0.0004, (900, 60, 2)), axis=1)
    streets = {"type": "MultiLineString", "coordinates": walks.tolist()}
    drawn = around(WARSAW, streets)["context"]
    size = len(json.dumps(drawn, separators=(",", ":")))
    assert module.MAX_CONTEXT_BYTES / 10 < size <= module.MAX_CONTEXT_BYTES


def test_small_maps_have_names_but_no_lines():
    """Lines that are off by a kilometre are not drawn on a map of a few."""
    found = around(h3.grid_disk(h3.latlng_to_cell(52.23, 21.0, 9), 3))
    assert found["layers"] == {}
    assert found["words"]


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

"""The package's own geography: it is where the world is, and cut to a map."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from hexveil.report import geography
from hexveil.report.geography import (
    AREAS,
    LINES,
    Box,
    Places,
    areas_in,
    lines_in,
    world_places,
)


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


def test_places_have_names_on_one_line():
    """Every name is printable text, and every position a place on earth."""
    places = world_places()
    assert len(places.names) == len(places.position) == len(places.population) > 100_000
    assert all(name and name.isprintable() for name in places.names)
    assert np.abs(places.position).max(axis=0) == pytest.approx([180, 85], abs=15)


def test_land_fills_what_is_inland_and_nothing_at_sea():
    """A box inland is one ring of its own area; a box of open sea is empty."""
    (inland,) = areas_in("land", Box(20, 51, 22, 53))
    assert area(inland) == pytest.approx(4.0)
    assert areas_in("land", Box(-40, 20, -35, 25)) == []


def test_a_map_across_the_date_line_has_both_sides():
    """Fiji lies on both sides of 180 degrees, and is on a map that runs past it."""
    box = Box(176, -20, 184, -15)
    east = np.concatenate(areas_in("land", box))[:, 0]
    assert east.min() < 179
    assert east.max() > 180.5
    both = Places(("east", "west"), np.array([[179.5, -17.0], [-179.5, -17.0]]), np.ones(2))
    assert both.within(box).position[:, 0].tolist() == [179.5, 180.5]


def test_warsaw_has_a_river_and_poland_borders():
    """Lines that a reader expects are there."""
    assert lines_in("river", Box(20.8, 52.1, 21.3, 52.4))
    assert lines_in("border", Box(14, 49, 24, 55))
    assert lines_in("region", Box(-105, 36, -95, 42))
    assert areas_in("lake", Box(-93, 41, -76, 49))


@given(
    st.floats(-180, 175), st.floats(-80, 75), st.floats(0.5, 60), st.floats(0.5, 30),
    st.sampled_from(AREAS),
)  # fmt: skip
@examples(40)
def test_what_is_cut_lies_in_the_box(west, south, width, height, kind):
    """No corner of a cut area is outside, and no area is larger than the box."""
    box = Box(west, south, west + width, south + height)
    for ring in areas_in(kind, box):
        low, high = ring.min(axis=0), ring.max(axis=0)
        assert (low >= np.array([box.west, box.south]) - 1e-9).all()
        assert (high <= np.array([box.east, box.north]) + 1e-9).all()
        assert area(ring) <= width * height * (1 + 1e-9)


@given(st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5)), min_size=3, max_size=8))
@examples(60)
def test_cutting_convex_corners_agrees_with_counting(corners):
    """The area of a cut polygon is that of its corners' hull where the hull is in the box."""
    spread = np.array(corners)
    angle = np.arctan2(*(spread - spread.mean(axis=0)).T)
    ring = spread[np.argsort(angle)]
    whole = geography._cut_ring(ring, Box(-6, -6, 6, 6))
    assert area(whole) == pytest.approx(area(ring), abs=1e-9)
    halves = [
        geography._cut_ring(ring, Box(-6, -6, 0, 6)),
        geography._cut_ring(ring, Box(0, -6, 6, 6)),
    ]
    parts = sum(area(half) for half in halves if len(half))
    assert parts == pytest.approx(area(ring), abs=1e-6)


@pytest.mark.slow
def test_every_kind_of_line_is_there():
    """The whole world has lines of each kind."""
    box = Box(-180, -85, 180, 85)
    for kind in AREAS:
        assert areas_in(kind, box)
    for kind in LINES:
        assert lines_in(kind, box)


def test_the_data_are_small_and_name_their_sources():
    """Every installation carries less than 3 MB of them, and says whose they are."""
    folder = Path(geography.__file__).parent / "assets" / "geography"
    assert sum(file.stat().st_size for file in folder.iterdir()) < 3_000_000
    said = (folder / "ATTRIBUTION.txt").read_text("utf-8")
    assert "public domain" in said
    assert "Creative Commons Attribution 4.0" in said
    assert "CC BY 4.0" in geography.ATTRIBUTION

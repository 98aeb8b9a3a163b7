"""Names of time zones, what is meant by others, and the objects of Python."""

import zoneinfo

import pyarrow as pa
import pytest

import hexveil as hv
from hexveil.base.errors import InputError
from hexveil.model.time_zones import zone, zone_name, zone_place


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("IST", "several: write 'Asia/Kolkata', 'Asia/Jerusalem', 'Europe/Dublin'"),
        ("ist", "several: write 'Asia/Kolkata'"),
        ("PKT", "it is an abbreviation: write 'Asia/Karachi'"),
        ("CST", "or .. others"),
        ("XYZ", 'write a name like "Europe/Warsaw"'),
        ("Asia/Kolkatta", "did you mean 'Asia/Kolkata'"),
        ("Europe", 'write a name like "Europe/Warsaw"|did you mean'),
    ],
)
def test_other_names_are_told_what_they_mean(written, sentence):
    """An abbreviation names its zones, and never what only resembles it."""
    with pytest.raises(InputError, match=sentence) as caught:
        zone(written)
    assert "MST" not in str(caught.value)


@pytest.mark.parametrize(
    ("area", "name"),
    [((72.7, 21.0, 73.0, 21.4), "Asia/Kolkata"), ((-6.4, 53.2, -6.1, 53.4), "Europe/Dublin")],
)
def test_the_zone_in_which_the_hexagons_lie_comes_first(area, name):
    """Where an area is declared, of several that could be meant."""
    with pytest.raises(InputError, match=f"write '{name}'.*the hexagons lie nearest to '{name}'"):
        hv.Cells(6, timezone="IST", area=area)
    hexagon = hv.Cells(4, timezone=name, area=area).area.hexagons(4)
    names = [f"{int(one):x}" for one in hexagon[:1]]
    if names:
        with pytest.raises(InputError, match=f"write '{name}'"):
            hv.Cells(4, timezone="IST", area=names)


def test_objects_and_none_are_names():
    """A `ZoneInfo` is its name, and "none" is None: requests are equal."""
    clock = zoneinfo.ZoneInfo("Asia/Kolkata")
    assert hv.Cells(6, timezone=clock) == hv.Cells(6, timezone="Asia/Kolkata")
    assert hv.Cells(6, timeslot="none", timezone="none") == hv.Cells(6, timeslot=None)
    table = pa.table({"bus": ["a"], "w": ["x"], "v": [1.0], "t": ["2024-02-19T10:00:00"]})
    asked = {
        "user": "bus", "value": "v", "bounds": (0, 9), "time": "t", "cells": hv.Labels("w"),
        "select": hv.Select(min_users=1),
    }  # fmt: skip
    by_name = hv.read(table, **asked, timezone="Asia/Kolkata").public.identity
    assert hv.read(table, **asked, timezone=clock).public.identity == by_name
    assert by_name["timezone"] == "Asia/Kolkata"


@pytest.mark.parametrize("odd", [7, ["Asia/Kolkata"], b"UTC"])
def test_other_objects_are_refused(odd):
    """In a sentence that says what a time zone is."""
    with pytest.raises(InputError, match="timezone must be the name of a time zone"):
        zone_name(odd)


def test_time_zones_have_the_place_of_their_city():
    """The public table of time zones places Warsaw; UTC is nowhere."""
    assert zone_place("Europe/Warsaw") == (52.25, 21.0)
    lat, lon = zone_place("America/Sao_Paulo")
    assert lat < -23
    assert lon < -46
    assert zone_place("UTC") is None

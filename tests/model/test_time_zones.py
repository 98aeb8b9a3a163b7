"""Names of time zones, what is meant by others, and the objects of Python."""

import zoneinfo

import pyarrow as pa
import pytest

import hexveil as hv
from hexveil.base.errors import InputError
from hexveil.model.cells import zone, zone_name, zone_place


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("IST", 'write a name like "Europe/Warsaw"'),
        ("XYZ", 'write a name like "Europe/Warsaw"'),
        ("Asia/Kolkatta", "did you mean 'Asia/Kolkata'"),
        ("Europe", 'write a name like "Europe/Warsaw"|did you mean'),
    ],
)
def test_other_names_are_told_what_they_mean(written, sentence):
    """A misspelt name has the nearest one, and an abbreviation none: it has several meanings."""
    with pytest.raises(InputError, match=sentence):
        zone(written)


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

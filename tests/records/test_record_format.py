"""Declared formats: what is read with one is what the plain table says."""

import gzip
import json

import pyarrow as pa
import pyarrow.csv as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from hexveil import InputError, Labels, RecordFormat, Select, read
from records.engines import outcome

RULES = {
    "user": "bus", "value": "speed", "bounds": (0, 65), "cells": Labels("ward"),
    "select": Select(min_users=1), "max_bad_rows": 1.0,
}  # fmt: skip
LOCAL = {"time": "at", "timezone": "Asia/Kolkata"}
NAMES = ("bus", "ward", "speed", "at")

numbers = st.decimals(-9, 99, places=3).map(lambda number: f"{number:.3f}")
rows = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "7"]),
        st.sampled_from(["x", "y"]),
        numbers,
        # Two digits of a year stand for 1969 to 2068.
        st.datetimes().map(
            lambda t: t.replace(year=1971 + t.year % 97, day=min(t.day, 28), microsecond=0)
        ),
    ),
    min_size=8,
    max_size=40,
)
"""Many records an example: what is read is decided record by record, and a reading takes long."""


def table(records, spell=str, clock="%Y-%m-%d %H:%M:%S"):
    """Return records as text: values as `spell` writes them, times in a format."""
    spelled = [(bus, ward, spell(v), t.strftime(clock)) for bus, ward, v, t in records]
    columns = map(list, zip(*spelled, strict=True))
    return pa.table(dict(zip(NAMES, columns, strict=True)))


def held(source, **options):
    """Return what a reading tells, but for the identity of the request."""
    told = outcome(read, source, **RULES | options)
    if isinstance(told, dict):
        told.pop("identity")
    return told


def folder(path, tables, write=pc.write_csv, ending="csv"):
    """Write a folder of tables, and return its path."""
    path.mkdir()
    for number, one in enumerate(tables):
        write(one, path / f"{number}.{ending}")
    return str(path)


@pytest.mark.slow
@given(records=rows)
@examples(20)
def test_declared_numbers_read_as_the_plain_table(records):
    """A decimal comma changes nothing of what is counted and added up."""
    spelled = table(records, lambda value: value.replace(".", ","))
    assert held(spelled, format=RecordFormat(decimal=",")) == held(table(records))


CLOCKS = ("%d/%m/%Y %H:%M:%S", "%m-%d-%Y %H:%M:%S", "%d %b %Y %I:%M:%S %p", "%j/%y %H.%M.%S")


@pytest.mark.slow
@given(records=rows)
@examples(20)
def test_declared_times_read_as_the_plain_table(records):
    """A time in a declared format is the instant that ISO text says, on the local clock."""
    options = LOCAL | {"privacy_unit": "user-day"}
    plain = held(table(records), **options)
    for clock in CLOCKS:
        declared = RecordFormat(time_format=clock)
        assert held(table(records, clock=clock), format=declared, **options) == plain, clock


@pytest.mark.slow
def test_a_declared_offset_goes_before_the_local_clock():
    """With %z no time zone is needed, and another one changes nothing."""
    records = {"bus": ["a"] * 2, "ward": ["x"] * 2, "speed": ["1", "2"]}
    spelled = pa.table(records | {"at": ["1/2/2024 10:00 +0530", "1/2/2024 04:30 +00:00"]})
    declared = RecordFormat(time_format="%d/%m/%Y %H:%M %z")
    for zone in (None, "Europe/Warsaw"):
        found = read(spelled, **RULES, time="at", timezone=zone, format=declared, max_repeats=0.5)
        # One instant in two offsets: the second is a repeat of the first.
        assert found.public.rules["repeats of a user and time"] == 1


@pytest.mark.slow
@given(records=rows)
@examples(20)
def test_nested_records_read_as_the_plain_table(tmp_path_factory, records):
    """Records in lists, with fields of theirs beside the list, are those of a flat table."""
    path = tmp_path_factory.mktemp("nested")
    flat = table(records).to_pylist()
    inner = [{n: r[n] for n in ("ward", "speed", "at")} for r in flat]
    documents = [
        {"bus": r["bus"], "day": {"list": [one]}} for r, one in zip(flat, inner, strict=True)
    ]
    (path / "plain.json").write_text(json.dumps(flat))
    (path / "one.json").write_text(json.dumps({"n": 1, "results": flat}, indent=1))
    (path / "many.json").write_text(json.dumps(documents))
    (path / "packed.json.gz").write_bytes(gzip.compress(json.dumps({"results": flat}).encode()))
    expected = held(str(path / "plain.json"), **LOCAL)
    for name, steps in (("one", "results"), ("packed", "results"), ("many", "day.list")):
        (file,) = path.glob(f"{name}.*")
        assert held(str(file), format=RecordFormat(record_path=steps), **LOCAL) == expected, name


def test_a_field_of_the_record_goes_before_one_beside_its_list(tmp_path):
    """The element's own field counts; a list without records adds none."""
    document = {"bus": "a", "ward": "x", "r": [{"speed": 1}, {"speed": 2, "bus": "b"}]}
    (tmp_path / "r.json").write_text(json.dumps([document, {"bus": "c", "r": []}]))
    found = read(str(tmp_path / "r.json"), **RULES, format=RecordFormat(record_path="r"))
    assert found.units.ids() == [b"a", b"b"]
    assert found.sums.total.tolist() == [1000, 2000]


def test_documents_without_the_list_are_unparsable(tmp_path):
    """A document that lacks the list, and an element that is no object, are counted."""
    good = {"r": [{"bus": "a", "ward": "x", "speed": 1}, 7, None, "text", [1]]}
    (tmp_path / "r.json").write_text(json.dumps([good, {"other": 1}, {"r": 3}]))
    found = read(str(tmp_path / "r.json"), **RULES, format=RecordFormat(record_path="r"))
    assert found.public.rules["unparsable"] == 6
    assert found.occupancy.n.tolist() == [1]


def test_numbers_of_json_have_a_point_whatever_is_declared(tmp_path):
    """A decimal comma is declared for texts: numbers of JSON stay what they are."""
    rows = [
        {"bus": bus, "ward": "x", "speed": v} for bus, v in (("a", 1.5), ("b", "2,5"), ("c", 3))
    ]
    (tmp_path / "r.json").write_text(json.dumps(rows))
    found = read(str(tmp_path / "r.json"), **RULES, format=RecordFormat(decimal=","))
    assert found.sums.total.tolist() == [1500, 2500, 3000]


def test_what_does_not_fit_is_unusable():
    """A point beside a decimal comma is never converted."""
    speeds = ["1.234", "1,5", "1,2,3", "2"]
    plain = pa.table({"bus": ["a"] * 4, "ward": ["x"] * 4, "speed": speeds})
    assert read(plain, **RULES, format=RecordFormat(decimal=",")).sums.total.tolist() == [3500]


DIFFER = [
    pa.table({"bus": ["a"], "ward": ["x"], "speed": ["1"], "note": ["n"]}),
    pa.table({"speed": ["2"], "bus": ["b"], "ward": ["x"]}),
]


REFUSED = [
    (["1,5", "2,5"], RecordFormat(), r'decimal comma add decimal = ","'),
    (["1 m/s", "2.5 m/s"], RecordFormat(), "remove units behind them"),
    (["1.5", "2.5"], RecordFormat(decimal=","), r"a text with a point is no number"),
]


@pytest.mark.parametrize(("speeds", "declared", "match"), REFUSED)
def test_a_refusal_names_the_line_to_add(speeds, declared, match):
    """The sentence says which declaration is missing or wrong, and quotes no value."""
    plain = pa.table({"bus": ["a", "b"], "ward": ["x", "x"], "speed": speeds})
    with pytest.raises(InputError, match=match) as error:
        read(plain, **RULES | {"max_bad_rows": 0.1}, format=declared)
    assert not any(speed in str(error.value) for speed in speeds if len(speed) > 1)


def test_a_format_for_text_is_refused_for_typed_columns():
    """A format of timestamps, or a path in a table, cannot be meant."""
    typed = pa.table(
        {"bus": ["a"], "ward": ["x"], "speed": [1.0], "at": pa.array([0], "timestamp[us]")}
    )
    with pytest.raises(InputError, match="'at' holds no text; remove time_format"):
        read(typed, **RULES, **LOCAL, format=RecordFormat(time_format="%d/%m/%Y"))
    with pytest.raises(InputError, match="record_path is for JSON documents"):
        read(typed, **RULES, format=RecordFormat(record_path="r"))
    with pytest.raises(InputError, match=r"format must be RecordFormat\(\.\.\.\), got dict"):
        read(typed, **RULES, format={})
    # A decimal comma is declared for texts, so that numbers stay as they are.
    assert held(typed, format=RecordFormat(decimal=",")) == held(typed)


@pytest.mark.parametrize(
    ("field", "text", "match"),
    [
        ("decimal", ";", 'decimal must be "." or ","'),
        ("time_format", " ", "time_format must be text"),
        ("time_format", "%d/%m/%Q", "unknown directive %Q"),
        ("time_format", "%d/%m", "must contain a year, a month and a day"),
        ("time_format", "%H:%M %j", "must contain a year"),
        ("time_format", "%d/%m/%Y %I:%M", "%I and %p together"),
        ("record_path", "a..b", "keys with dots between them"),
        ("record_path", ".".join("abcdefghi"), "up to 8 keys"),
        ("encoding", "klingon", "encoding must be"),
        ("encoding", "zlib", "encoding must be"),
        ("max_unpacking", 0.5, "max_unpacking must be a whole number of at least 1"),
    ],
)
def test_fields_are_checked(field, text, match):
    """Each field of a format is refused with what it may be."""
    with pytest.raises(InputError, match=match):
        RecordFormat(**{field: text})


def test_a_declared_format_is_part_of_the_request():
    """Two formats are two readings; without one the identity is as it always was."""
    plain = pa.table({"bus": ["a"], "ward": ["x"], "speed": ["1"]})
    assert "format" not in read(plain, **RULES).public.identity
    declared = read(plain, **RULES, format=RecordFormat(decimal=","))
    assert declared.public.identity["format"] == 'decimal=","'

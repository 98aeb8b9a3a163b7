"""GTFS-Realtime: vehicle positions of snapshots are records like those of any other source."""

import gzip
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from hexveil.base.errors import ColumnError, InputError
from hexveil.model.cells import Cells, Labels
from hexveil.records.read import read
from hexveil.records.select import Select
from hexveil.records.sources.vehicle_positions import SCHEMA
from records.engines import told
from records.feeds import SENT, position, snapshot

ROLES = {
    "user": "vehicle.id",
    "value": "position.speed",
    "lat": "position.latitude",
    "lon": "position.longitude",
    "time": "timestamp",
}
PLATE = "bus-9182736455"


def reading(source, **more):
    """Read snapshots."""
    arguments = ROLES | {
        "bounds": (0, 20),
        "cells": Cells(6, "1h", "Europe/Warsaw"),
        "select": Select(min_users=1),
        "accept_single_records": True,
        "max_bad_rows": 1,
        "max_repeats": 1,
    }
    return read(source, **(arguments | more))


def write(folder, snapshots, suffix=".pb"):
    """Write snapshots into a folder."""
    folder.mkdir(exist_ok=True)
    for number, data in enumerate(snapshots):
        packed = gzip.compress(data) if suffix.endswith(".gz") else data
        (folder / f"{number:03d}{suffix}").write_bytes(packed)
    return folder


def facts(dataset):
    """Return all of a data set but how its source and columns are called."""
    return {
        name: value for name, value in told(dataset).items() if name not in ("identity", "unit")
    }


def single(value):
    """Return a number as a feed holds it: with the digits of a binary float of 32 bits."""
    return float(np.float32(value))


POSITIONS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c", "\u092c\u0938 7", "x\0y", ' {"quoted"}', None]),
        st.one_of(
            st.sampled_from([None, float("nan"), float("-inf"), single(3.4e38)]),
            st.floats(-5, 30, width=32),
        ),
        st.sampled_from([52.5, 52.25, 91.0, None]),
        st.sampled_from([21.0, -0.5, 180.5]),
        st.sampled_from([SENT, SENT + 60, SENT - 4000, 0, None, 2**64 - 1]),
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.slow
@examples(25)
@given(
    snapshots=st.lists(POSITIONS, min_size=1, max_size=3), repeats=st.sampled_from(["drop", "keep"])
)
def test_snapshots_are_read_as_the_same_records_in_a_table(tmp_path_factory, snapshots, repeats):
    """Unset fields, odd ids, places off the map, repeats in later snapshots: as in a flat table."""
    files = [
        snapshot([position(*fields) for fields in rows], SENT + 30 * number, others=number)
        for number, rows in enumerate(snapshots)
    ]
    folder = write(tmp_path_factory.mktemp("feed"), files)
    flat = [
        (user, speed, None if lat is None else single(lat), lon, time or SENT + 30 * number)
        for number, rows in enumerate(snapshots)
        for user, speed, lat, lon, time in rows
    ]
    types = (pa.string(), pa.float64(), pa.float64(), pa.float64(), pa.uint64())
    columns = [
        pa.array(column, kind) for column, kind in zip(zip(*flat, strict=True), types, strict=True)
    ]
    table = pa.table(columns, names=list(ROLES.values()))
    outcomes = []
    for source in (folder, table):
        try:
            outcomes.append(facts(reading(source, repeats=repeats)))
        except InputError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


@pytest.mark.slow
def test_a_reading_in_consecutive_snapshots_is_one_record(tmp_path):
    """By `repeats`: the same vehicle and time count once, or in each snapshot."""
    seen = [position("a", 5.0, time=SENT - 40), position("b", 9.0, time=None)]
    folder = write(tmp_path / "feed", [snapshot(seen, SENT), snapshot(seen, SENT + 30)])
    dropped, kept = (reading(folder, repeats=repeats) for repeats in ("drop", "keep"))
    # b has no time of its own, so that it has that of each message, and two records.
    assert (dropped.occupancy.n_records, kept.occupancy.n_records) == (3, 4)
    assert dropped.public.rules["repeats of a user and time"] == 1
    assert dropped.sums.total.sum() == 5_000 + 9_000 * 2


def test_fields_that_are_not_set_are_missing_and_never_zero(tmp_path):
    """A position without a place, speed, id or time is left out, and counted by its reason."""
    rows = [
        position(), position(speed=None), position(lat=None, lon=None), position(lat=None),
        position(user=None), position(user=""), position(speed=0.0, time=SENT + 1),
        position(time=None),
    ]  # fmt: skip
    counts = reading(write(tmp_path / "feed", [snapshot(rows, sent=None)])).public.rules
    assert {name: counts[name] for name in list(counts)[:6]} == {
        "records read": 8,
        "unparsable": 0,
        "without a usable value": 1,
        "without a user": 2,
        "without a usable time": 1,
        "without a usable place": 2,
    }


def test_text_that_is_not_unicode_is_no_id(tmp_path):
    """Bytes of another encoding are no user, and are not shown."""
    data = snapshot([position("busX"), position("b")]).replace(b"busX", b"bu\xff\xfe")
    (tmp_path / "one.pb").write_bytes(data)
    assert reading(tmp_path / "one.pb").public.rules["without a user"] == 1


def test_deleted_entities_and_other_kinds_are_no_records(tmp_path):
    """Trip updates stand in the same feed; a deleted entity is gone; files may be packed."""
    feed = pytest.importorskip("google.transit.gtfs_realtime_pb2").FeedMessage()
    feed.ParseFromString(snapshot([position("a"), position("b")], others=3))
    feed.entity[-1].is_deleted = True
    (tmp_path / "one.pb.gz").write_bytes(gzip.compress(feed.SerializeToString()))
    assert reading(tmp_path / "one.pb.gz").public.rules["records read"] == 1


def damaged(data):
    """Return files that are no feed, by what is wrong with them."""
    return {
        "truncated": data[:-3],
        "other bytes": b"\x00\x00\x00\x0d\x0a\x09OSMHeader",
        "text": b'{"vehicle": "' + PLATE.encode() + b'"}',
        "without a header": data[7:],
        "one byte": b"\x0a",
    }


@pytest.mark.parametrize("kind", damaged(b"" * 20))
def test_a_file_that_is_no_feed_is_named_and_nothing_of_it_shown(tmp_path, kind):
    """One of many files is enough; the sentence names it without the values of folders."""
    data = snapshot([position(PLATE)])
    folder = write(tmp_path / f"bus={PLATE}", [data, damaged(data)[kind]])
    with pytest.raises(
        InputError, match=r"bus=\.\.\./001.pb.*not a readable GTFS-Realtime"
    ) as caught:
        reading(folder)
    assert PLATE not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_a_feed_without_vehicle_positions_is_refused(tmp_path):
    """Trip updates alone are another feed."""
    folder = write(tmp_path / "feed", [snapshot([], others=2)] * 2)
    with pytest.raises(InputError, match="holds no vehicle position"):
        reading(folder)


def test_a_column_that_no_feed_has_is_named_with_those_that_it_has(tmp_path):
    """Columns are those of the specification."""
    (tmp_path / "one.pb").write_bytes(snapshot([position()]))
    with pytest.raises(ColumnError, match=r"position\.speed"):
        reading(tmp_path / "one.pb", value="speed")


def test_every_column_has_its_field(tmp_path):
    """Each name of the table is a field of a vehicle position, and can be a label or a value."""
    names = {
        f"{field.name}.{inner.name}": inner.type
        for field in SCHEMA
        if pa.types.is_struct(field.type)
        for inner in field.type.fields
    } | {field.name: field.type for field in SCHEMA if not pa.types.is_struct(field.type)}
    row = {
        name: "7" if pa.types.is_string(kind) else 7
        for name, kind in names.items()
        if name not in ROLES.values()
    }
    (tmp_path / "one.pb").write_bytes(snapshot([position() | row]))
    labels = reading(tmp_path / "one.pb", cells=Labels(*row)).public.cells.labels
    assert {name: float(text) for name, (text,) in labels.items()} == dict.fromkeys(row, 7)


def test_without_the_bindings_the_install_line_is_told(tmp_path, monkeypatch):
    """The core has no protobuf: the sentence says what to install."""
    (tmp_path / "one.pb").write_bytes(snapshot([position()]))
    monkeypatch.setitem(sys.modules, "google.transit.gtfs_realtime_pb2", None)
    with pytest.raises(InputError, match=r'pip install "hexveil\[gtfs\]"'):
        reading(tmp_path / "one.pb")

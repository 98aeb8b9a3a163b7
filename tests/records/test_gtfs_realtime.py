"""GTFS-Realtime: vehicle positions of snapshots are records like those of any other source."""

import gzip
import sys

import pytest

from hexveil import Cells, InputError, Select, read
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
        "bounds": (0, 20), "cells": Cells(6, "1h", "Europe/Warsaw"), "select": Select(min_users=1),
        "accept_single_records": True, "max_bad_rows": 1, "max_repeats": 1,
    }  # fmt: skip
    return read(source, **(arguments | more))


def write(folder, snapshots, suffix=".pb"):
    """Write snapshots into a folder."""
    folder.mkdir(exist_ok=True)
    for number, data in enumerate(snapshots):
        packed = gzip.compress(data) if suffix.endswith(".gz") else data
        (folder / f"{number:03d}{suffix}").write_bytes(packed)
    return folder


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
        "records read": 8, "unparsable": 0, "without a usable value": 1, "without a user": 2,
        "without a usable time": 1, "without a usable place": 2,
    }  # fmt: skip


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


def test_without_the_bindings_the_install_line_is_told(tmp_path, monkeypatch):
    """The core has no protobuf: the sentence says what to install."""
    (tmp_path / "one.pb").write_bytes(snapshot([position()]))
    monkeypatch.setitem(sys.modules, "google.transit.gtfs_realtime_pb2", None)
    with pytest.raises(InputError, match=r'pip install "hexveil\[gtfs\]"'):
        reading(tmp_path / "one.pb")

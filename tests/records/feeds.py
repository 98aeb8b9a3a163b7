"""Snapshots of a GTFS-Realtime feed, made by the official bindings."""

import pytest

SENT = 1_708_340_400
"""When snapshots are sent, unless a test says otherwise."""


def snapshot(positions, sent=SENT, others=0):
    """Return the bytes of a snapshot.

    Parameters
    ----------
    positions : sequence of dict
        Fields of vehicle positions by the names of columns; None is a field that is not set.
    sent : int or None
        The time of the message.
    others : int
        Entities that are no vehicle positions.
    """
    feed = pytest.importorskip("google.transit.gtfs_realtime_pb2").FeedMessage()
    feed.header.gtfs_realtime_version = "2.0"
    if sent is not None:
        feed.header.timestamp = sent
    for number in range(others):
        feed.entity.add(id=f"other{number}").trip_update.trip.trip_id = "7"
    for number, fields in enumerate(positions):
        vehicle = feed.entity.add(id=str(number)).vehicle
        vehicle.SetInParent()
        for name, value in fields.items():
            *parents, field = name.split(".")
            holder = vehicle
            for parent in parents:
                holder = getattr(holder, parent)
            if value is not None:
                setattr(holder, field, value)
    # Fields that must be set may be missing: producers are not all official.
    return feed.SerializePartialToString()


def position(user="a", speed=7.5, lat=52.5, lon=21.0, time=SENT, **fields):
    """Return a vehicle position."""
    return {
        "vehicle.id": user,
        "position.speed": speed,
        "position.latitude": lat,
        "position.longitude": lon,
        "timestamp": time,
    } | fields

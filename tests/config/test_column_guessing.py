"""Which column is what, by names and types alone."""

import datetime as dt
import json
import re
import tomllib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from records.printed import printed

KINDS = {
    "n": pa.array([1.0]),
    "t": pa.array(["x"]),
    "T": pa.array([dt.datetime(2024, 1, 1, tzinfo=dt.UTC)]),
    "b": pa.array([True]),
}


@pytest.fixture
def draft(tmp_path):
    """Return a function: the draft for a table, by columns like "bus:t speed:n", or documents."""

    def drafted(columns):
        path = tmp_path / ("r.json" if isinstance(columns, dict) else "r.parquet")
        if isinstance(columns, str):
            pairs = (part.rsplit(":", 1) for part in columns.split())
            columns = pa.table({name: KINDS[kind] for name, kind in pairs})
        if isinstance(columns, dict):
            path.write_text(json.dumps([columns]))
        else:
            pq.write_table(columns, path)
        return printed("inspect", path, "--init", "--trust-header")

    return drafted


def roles(text):
    """Return the proposed name of each role."""
    run = tomllib.loads(text)
    found = {role: name for role, name in run["columns"].items() if name != "FILL IN"}
    labels = run["cells"].get("labels")
    return found | ({"labels": labels[0]} if labels else {})


def others(text):
    """Return the other candidates that are named, in the order of the roles."""
    prose = " ".join(line.removeprefix("# ") for line in text.splitlines())
    return re.findall(r'Other candidates: ("[^=]*")\.', prose)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (
            "bus:t lat:n lon:n time:T speed:n",
            {"user": "bus", "lat": "lat", "lon": "lon", "time": "time", "value": "speed"},
        ),
        (
            "id:t license_plate:t trip_delay:n speed:n observationDateTime:t location:t",
            {
                "user": "license_plate", "value": "speed", "time": "observationDateTime",
                "location": "location",
            },
        ),
        (
            "plate:t location/type:t location/coordinates/0:n location/coordinates/1:n ts:n aqi:n",
            {"user": "plate", "location": "location/coordinates", "time": "ts", "value": "aqi"},
        ),
        ("tailnum:t of:t cost:n seen:T", {"user": "tailnum", "value": "cost", "time": "seen"}),
        ("device:t ward:t reading:n", {"user": "device", "value": "reading", "labels": "ward"}),
        ("speed:b bus:T", {"time": "bus"}),
        ("foo:t bar:t", {}),
    ],
)  # fmt: skip
def test_columns_are_found_by_name_and_type(columns, expected, draft):
    """The likeliest column of each role is proposed; a wrong type is no candidate."""
    assert roles(draft(columns)) == expected


@pytest.mark.parametrize(
    "user",
    ["taxi_id", "cab", "car_id", "truck_no", "bike_id", "traj_id", "track_id", "train",
     "station_id"],
)  # fmt: skip
def test_vehicles_are_users_and_not_their_classes(user, draft):
    """What a vehicle is like is no id, whatever stands first."""
    text = draft(f"vehicle_type:t vehicle_length:n {user}:t lat:n lon:n time:t speed:n")
    assert roles(text)["user"] == user


def test_what_else_it_could_be_is_named(draft):
    """Other candidates follow, the likelier first, and no column has two roles."""
    text = draft("time:t vehicle_label:t speed:n start_time:t bus_id:t id:t trip_delay:n")
    assert roles(text) == {"user": "bus_id", "time": "time", "value": "speed"}
    assert others(text) == ['"vehicle_label", "id"', '"trip_delay"', '"start_time"']


def test_latitude_and_longitude_are_of_the_same_place(draft):
    """Of several pairs both halves are taken from one."""
    found = roles(draft("dropoff_lon:n pickup_lat:n pickup_lon:n dropoff_lat:n"))
    assert found == {"lat": "pickup_lat", "lon": "pickup_lon"}


def test_fields_inside_fields_are_found(draft):
    """Nested fields are proposed by their path."""
    place = {"type": "Point", "coordinates": [1.0, 2.0]}
    row = {"location": place, "data": {"speed": 1.0, "vehicle_id": "a"}}
    table = pa.Table.from_pylist([row]).append_column("time", KINDS["T"])
    assert roles(draft(table)) == {
        "location": "location.coordinates", "user": "data.vehicle_id", "value": "data.speed",
        "time": "time",
    }  # fmt: skip


def test_keys_that_can_be_data_are_not_named(draft):
    """Of JSON documents only names of known words are returned: a key can be an id or a value."""
    names = ("bus_kr7731", "speed_of_kr7731", "speed", "kr7731_time")
    text = draft(dict.fromkeys(names, 1))
    assert roles(text) == {"value": "speed"}
    assert "kr7731" not in text


def test_attributes_of_entities_are_found_by_their_values(draft):
    """Metadata has no role; a time belongs to the value, not to another attribute."""
    attribute = {"type": "Property", "value": 1, "observedAt": "x", "unitCode": "x"}
    entity = {
        "id": "x",
        "temperature": attribute,
        "location": attribute,
        "refVehicle": {"type": "Relationship", "object": "x"},
        "speed": attribute,
    }
    expected = {"location": "location", "user": "refVehicle.object", "value": "speed.value"}
    text = draft(entity)
    assert roles(text) == expected | {"time": "speed.observedAt"}
    assert {'"id"', '"temperature.observedAt"'} <= set(others(text))
    typed = {"type": "Property", "value": {"@type": "DateTime", "@value": "x"}}
    assert roles(draft(entity | {"dateObserved": typed})) == expected | {
        "time": "dateObserved.value"
    }


def test_an_id_that_is_the_same_in_all_rows_is_no_user(draft):
    """The id of a feed is left out, and the next candidate is proposed; else the gap says why."""
    rows = {"vehicle_id": ["feed"] * 3, "device": ["a", "b", "a"], "speed": [1.0] * 3}
    assert roles(draft(pa.table(rows)))["user"] == "device"
    del rows["device"]
    text = draft(pa.table(rows))
    assert "All rows have the same id in" in text.replace("\n# ", " ")
    assert 'user = "FILL IN"' in text
    # One row is of one vehicle, whatever its columns are.
    assert roles(draft(pa.table({n: one[:1] for n, one in rows.items()})))["user"] == "vehicle_id"

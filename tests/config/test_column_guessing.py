"""Which column is what, by names and types alone."""

import pyarrow as pa
import pytest

from hexveil.config.column_guessing import propose
from hexveil.records.sources.columns import ColumnType
from hexveil.records.sources.schema_preview import SourceSchema

KINDS = {"n": "number", "t": "text", "T": "time", "b": "boolean", "j": "json", "l": "list"}


def seen(columns, *, documents=False):
    """Return columns from text like "bus:t speed:n"."""
    pairs = (part.rsplit(":", 1) for part in columns.split())
    return SourceSchema({name: ColumnType(KINDS[kind]) for name, kind in pairs}, documents)


def roles(inspect_schema, known=None):
    """Return the proposed name of each role."""
    return {role: found.name for role, found in propose(inspect_schema, known).items()}


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
def test_columns_are_found_by_name_and_type(columns, expected):
    """The likeliest column of each role is proposed; a wrong type is no candidate."""
    assert roles(seen(columns)) == expected


@pytest.mark.parametrize(
    "user",
    ["taxi_id", "cab", "car_id", "truck_no", "bike_id", "traj_id", "track_id", "train",
     "station_id"],
)  # fmt: skip
def test_vehicles_are_users_and_not_their_classes(user):
    """What a vehicle is like is no id, whatever stands first."""
    found = roles(seen(f"vehicle_type:t vehicle_length:n {user}:t lat:n lon:n time:t speed:n"))
    assert found["user"] == user


def test_what_else_it_could_be_is_named():
    """Other candidates follow, the likelier first, and no column has two roles."""
    inspect_schema = seen("time:t vehicle_label:t speed:n start_time:t bus_id:t id:t trip_delay:n")
    found = propose(inspect_schema)
    assert (found["user"].name, found["user"].others) == ("bus_id", ("vehicle_label", "id"))
    assert (found["time"].name, found["time"].others) == ("time", ("start_time",))
    assert (found["value"].name, found["value"].others) == ("speed", ("trip_delay",))


def test_latitude_and_longitude_are_of_the_same_place():
    """Of several pairs both halves are taken from one."""
    inspect_schema = seen("dropoff_lon:n pickup_lat:n pickup_lon:n dropoff_lat:n")
    assert roles(inspect_schema) == {"lat": "pickup_lat", "lon": "pickup_lon"}


def test_fields_inside_fields_are_found():
    """Nested fields are proposed by their path."""
    place = ColumnType(
        "struct",
        {
            "type": ColumnType("text"),
            "coordinates": ColumnType("list", element=ColumnType("number")),
        },
    )
    inner = ColumnType("struct", {"speed": ColumnType("number"), "vehicle_id": ColumnType("text")})
    found = roles(
        SourceSchema(
            {"location": place, "data": inner, "time": ColumnType("time")}, documents=False
        )
    )
    assert found == {
        "location": "location.coordinates", "user": "data.vehicle_id", "value": "data.speed",
        "time": "time",
    }  # fmt: skip


def test_keys_that_can_be_data_are_not_named():
    """Of JSON documents only names of known words are returned: a key can be an id or a value."""
    inspect_schema = seen("bus_kr7731:j speed_of_kr7731:j speed:j kr7731_time:j", documents=True)
    assert {name: found.others for name, found in propose(inspect_schema).items()} == {"value": ()}
    assert roles(inspect_schema) == {"value": "speed"}


def test_attributes_of_entities_are_found_by_their_values():
    """Metadata has no role; a time belongs to the value, not to another attribute."""
    text = ColumnType("json")
    attribute = {"type": text, "value": text, "observedAt": text, "unitCode": text}
    typed = {"type": text, "value": ColumnType("json", {"@type": text, "@value": text})}
    entity = {
        "id": text,
        "temperature": ColumnType("json", attribute),
        "location": ColumnType("json", attribute),
        "refVehicle": ColumnType("json", {"type": text, "object": text}),
        "speed": ColumnType("json", attribute),
    }
    expected = {"location": "location", "user": "refVehicle.object", "value": "speed.value"}
    found = propose(SourceSchema(entity, documents=True))
    assert {role: one.name for role, one in found.items()} == expected | {
        "time": "speed.observedAt"
    }
    assert found["time"].others == ("temperature.observedAt",)
    assert found["user"].others == ("id",)
    dated = entity | {"dateObserved": ColumnType("json", typed)}
    assert roles(SourceSchema(dated, documents=True)) == expected | {"time": "dateObserved.value"}


def test_an_id_that_is_the_same_in_all_rows_is_no_user():
    """The id of a feed is left out, and the next candidate is proposed; else the gap says why."""
    from hexveil.config.run_file import checked  # noqa: PLC0415
    from hexveil.config.run_file_template import draft_run_file  # noqa: PLC0415
    from hexveil.records.sources.schema_preview import inspect_schema  # noqa: PLC0415  the engine

    rows = {"vehicle_id": ["feed"] * 3, "device": ["a", "b", "a"], "speed": [1.0] * 3}
    look = inspect_schema(pa.table(rows))
    assert look.constant_ids == {"vehicle_id"}
    assert roles(look)["user"] == "device"
    del rows["device"]
    text = draft_run_file(checked({"source": ["x.parquet"]}, "x"), inspect_schema(pa.table(rows)))
    assert "All rows have the same id in" in text.replace("\n# ", " ")
    assert 'user = "FILL IN"' in text
    # One row is of one vehicle, whatever its columns are.
    assert not inspect_schema(pa.table({name: one[:1] for name, one in rows.items()})).constant_ids

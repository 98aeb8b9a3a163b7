"""From the files of an exchange to a release: drafted, filled in, planned, released, checked."""

import json
import tomllib
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from hexveil.config.loading import FILL_IN
from hexveil.simulation.city import City
from records.feeds import snapshot
from records.test_ngsi_ld import normalised, simplified

CITY = City(users=60, days=1, seed=3, interval="10min")
RUN = """
[plan]
epsilon = 3

[ledger]
url = "{form}.sqlite"
dataset = "buses"
budget = 3

[release]
out = "{form}"
accept_noise = true
"""


@pytest.fixture(scope="module")
def records():
    """Return the records of an invented city, in the order of their times."""
    table = pa.Table.from_batches(list(CITY.batches()))
    rows = [row for row in table.to_pylist() if row["speed"] is not None]
    return sorted(rows, key=lambda row: row["observationDateTime"])


def epoch(row):
    """Return the time of a record in seconds."""
    return int(row["observationDateTime"].timestamp())


def fields(row):
    """Return a record as a vehicle position."""
    lon, lat = row["location"]["coordinates"]
    return {
        "vehicle.id": row["license_plate"],
        "trip.trip_id": row["trip_id"],
        "trip.route_id": row["route_id"],
        "position.latitude": lat,
        "position.longitude": lon,
        "position.speed": row["speed"] / 3.6,
        "timestamp": epoch(row),
    }


def drafted(call, source, **gaps):
    """Return the run file that is drafted for a source, its gaps filled in."""
    draft = call("inspect", source, "--init")
    assert (draft.code, draft.err) == (0, "")
    text = draft.out.replace("resolution = 5", "resolution = 4").replace(
        "min_users = 10", "min_users = 5"
    )
    for name, value in gaps.items():
        assert f'{name} = "{FILL_IN}"' in text
        text = text.replace(f'{name} = "{FILL_IN}"', f"{name} = {value}")
    return text.partition("\n[plan]")[0]


def released(here, call, okay, form, text):
    """Run a file to a verified release; return its manifest."""
    (here / f"{form}.toml").write_text(text + RUN.format(form=form))
    # Which other grids would do is no part of it, and takes longer than all the rest.
    for command, *more in (("inspect",), ("plan --no-grids",), ("release",)):
        okay(command, f"{form}.toml", more)
    assert call("verify", form).code == 0
    return json.loads((here / form / "manifest.json").read_text())


ROWS = [
    {
        "license_plate": f"bus {i % 9}",
        "trip_id": "t",
        "route_id": "r",
        "speed": 18.0 + i % 9,
        "location": {"coordinates": [72.8 + i / 1000, 21.1]},
        "observationDateTime": datetime(2024, 2, 19, 8, i, tzinfo=UTC),
    }
    for i in range(36)
]
"""Four readings of each of nine buses, a minute apart."""


@pytest.mark.slow
@pytest.mark.parametrize("form", ["feed", "normalised", "simplified"])
def test_a_few_records_of_an_exchange_are_drafted_and_planned(here, call, okay, form):
    """The drafted run file names the columns of each form, and plans with its gaps filled in."""
    if form == "feed":
        (here / "feed").mkdir()
        for at in range(0, 36, 9):
            rows = ROWS[at : at + 9]
            data = snapshot([fields(row) for row in rows], epoch(rows[-1]), others=2)
            (here / "feed" / f"{at}.pb").write_bytes(data)
        text = drafted(call, "feed", bounds="[0, 18]", timezone='"Asia/Kolkata"')
    else:
        write_entities(here, {"normalised": normalised, "simplified": simplified}[form], ROWS)
        text = drafted(call, "entities.ndjson", bounds="[0, 65]", timezone='"Asia/Kolkata"')
    (here / "few.toml").write_text(text + RUN.format(form="few"))
    said = okay("plan few.toml --no-grids --json")
    assert (json.loads(said.out)["records"], json.loads(said.out)["users"]) == (36, 9)


@pytest.mark.slow
def test_snapshots_of_a_feed_become_a_map(here, call, okay, records):
    """A folder of snapshots that repeat what was last seen: each reading counts once."""
    (here / "feed").mkdir()
    last = {}
    for number in range(0, len(records), 40):
        last |= {row["license_plate"]: row for row in records[number : number + 40]}
        sent = max(map(epoch, last.values()))
        data = snapshot([fields(row) for row in last.values()], sent, others=2)
        (here / "feed" / f"{sent}.pb").write_bytes(data)
    text = drafted(call, "feed", bounds="[0, 18]", timezone='"Asia/Kolkata"')
    run = tomllib.loads(text)
    assert run["columns"] == {
        "user": "vehicle.id",
        "value": "position.speed",
        "lat": "position.latitude",
        "lon": "position.longitude",
        "time": "timestamp",
    }
    assert run["values"]["value_unit"] == "m/s"
    manifest = released(here, call, okay, "feed_map", text)
    rules = manifest["rules"]
    assert rules["repeats of a user and time"] > 500
    assert rules["records left"] > 1_000


def write_entities(here, form, records):
    """Write records as entities of a form, one a line."""
    rows = [
        {
            "plate": row["license_plate"],
            "speed": row["speed"],
            "lon": row["location"]["coordinates"][0],
            "lat": row["location"]["coordinates"][1],
            "observationDateTime": row["observationDateTime"].isoformat(),
        }
        for row in records
    ]
    (here / "entities.ndjson").write_text("\n".join(json.dumps(form(row)) for row in rows))


@pytest.mark.slow
@pytest.mark.parametrize("form", [normalised, simplified])
def test_entities_become_a_map(here, call, okay, records, form):
    """Normalised and simplified entities are drafted by their own names, and give one map."""
    write_entities(here, form, records)
    text = drafted(call, "entities.ndjson", bounds="[0, 65]", timezone='"Asia/Kolkata"')
    columns = tomllib.loads(text)["columns"]
    nested = ".value" if form is normalised else ""
    assert columns["user"] == f"plate{nested}"
    assert columns["value"] == f"speed{nested}"
    assert columns["time"] == f"observationDateTime{nested}"
    assert columns["location"] in ("location", "location.coordinates")
    manifest = released(here, call, okay, "entity_map", text)
    assert manifest["rules"]["records left"] > 0

"""From the files of an exchange to a release: drafted, filled in, planned, released, checked."""

import json
from datetime import UTC, datetime

import pytest

from hexveil.config.loading import FILL_IN
from records.feeds import snapshot
from records.test_ngsi_ld import normalised, simplified

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

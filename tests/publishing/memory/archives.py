"""An archive of three days of an invented city, and what its recipient reads in its folders."""

import hashlib
import json
import shutil
from dataclasses import fields
from datetime import date
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

import hexveil as hv
from hexveil.learning.remembering import Deviations, Forecast, PublishedDay

SERIES = """
[read]
privacy_unit = "user-day"
[release]
out = "maps"
accept_noise = true
[publish]
wait = "6h"
[ledger]
url = "ledger.sqlite"
budget = 100
"""
"""How each day is published; the data set of the account follows."""
RUN = f"""
source = "city.parquet"
[columns]
user = "license_plate"
value = "speed"
location = "location.coordinates"
time = "observationDateTime"
[values]
bounds = [0, 65]
[cells]
resolution = 6
timeslot = "6h"
timezone = "Asia/Kolkata"
[plan]
epsilon = 3
{SERIES}
dataset = "buses"
"""
SIMULATE = ("simulate", "--users", "40", "--days", "3", "--interval", "5min", "--seed", "3")
DAYS = ("2024-01-01", "2024-01-02", "2024-01-03")
FILE = "memory.npy"


def enter_copy(city, tmp_path, monkeypatch, run="run.toml", archive="maps"):
    """Enter a copy of a city's folder, with the archive of three days, published once."""
    monkeypatch.chdir(city)
    if not (city / archive).exists():
        outcomes = hv.publish(run, DAYS[0], DAYS[-1])
        assert [one.state for one in outcomes] == ["published"] * 3, outcomes
    shutil.copytree(city, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")


def folders(place):
    """Return the release folders by day."""
    return sorted(path.parent for path in place.rglob("receipt.json"))


def contents(folder):
    """Return the bytes of each file."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def manifest_of(folder):
    """Return the manifest of a folder."""
    return json.loads((folder / "manifest.json").read_text())


def component(folder):
    """Return the statements of a folder."""
    return manifest_of(folder)["components"][0]


# ---- what a recipient reads ----


def earlier(folder):
    """Return a release as a recipient reads it: day, deviations, forecast, how others name it."""
    manifest, table = manifest_of(folder), pq.read_table(folder / "cells.parquet")
    rows, stated = np.load(folder / FILE), manifest["components"][0]
    memory, bounds = stated["memory"], stated["bounds"]
    ends = (float(Fraction(bounds["lower"])), float(Fraction(bounds["upper"])))
    if "is_open" in table.column_names:
        rows, table = rows[np.array(table["is_open"])], table.filter(table["is_open"])
    clocks = [slot[-5:].split(":") for slot in table["slot"].to_pylist()]
    published = PublishedDay(
        date.fromisoformat(memory["day"]).toordinal(),
        np.array(table["hexagon"].to_pylist()),
        np.array([3600 * int(hour) + 60 * int(minute) for hour, minute in clocks]),
        (0.0, 1.0) if stated["kind"] == "distributions" else ends,  # of mean scores
        float(memory["user_deviation"]),
        *(rows[name].astype(float) for name in ("share_squares", "edges", "density", "lasting")),
    )
    identity = {"day": memory["day"], "request": manifest["request"]}
    return SimpleNamespace(
        published=published,
        deviations=memory["deviations"] and Deviations(**memory["deviations"]),
        forecast=Forecast(*(rows[field.name] for field in fields(Forecast))),
        identity=identity | {"sha256": hashlib.sha256((folder / FILE).read_bytes()).hexdigest()},
    )


# ---- what a forger writes ----


def rewrite(path, content):
    """Write other content to a file of a folder, and its receipt to match."""
    path.write_bytes(content)
    receipt = path.with_name("receipt.json")
    stated = json.loads(receipt.read_text())
    stated["files"][path.name] = hashlib.sha256(content).hexdigest()
    receipt.write_text(json.dumps(stated))


def forge(folder, change):
    """Change the rows of a folder's memory."""
    rows = np.load(folder / FILE)
    change(rows)
    np.save(folder / FILE, rows)
    rewrite(folder / FILE, (folder / FILE).read_bytes())


def raise_forecast(rows):
    """Add a unit to what earlier days say."""
    rows["mean"] += 1.0


# ---- what the holder does ----


def check_values_enter_by_releases_alone(archive, run="run.toml", source="city.parquet", but=()):
    """Assert that other values on all days leave the last day as it is, to the last byte.

    The folders of the first days stand; the records say something else. The last day is the same
    request, at no cost, and of the ledger's numbers its folder is made again: by the same plan, the
    same but for some files.
    """
    place = folders(archive)[-1]
    whole, table = contents(place), pq.read_table(source)
    at = table.column_names.index("speed")
    speed = pc.multiply(table["speed"], 0.5).cast(table.schema.field("speed").type)
    pq.write_table(table.set_column(at, "speed", speed), source)
    assert hv.publish(run, DAYS[-1])[0].state == "published before"
    shutil.rmtree(archive / DAYS[-1])
    (again,) = hv.publish(run, DAYS[-1])
    assert (again.state, again.epsilon) == ("published", 0.0)
    assert {name for name, text in contents(place).items() if text != whole[name]} == {*but}

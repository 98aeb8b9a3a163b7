"""An archive of three days of an invented city, and what its recipient reads in its folders."""

import contextlib
import hashlib
import json
import shutil
from dataclasses import fields
from datetime import date
from fractions import Fraction
from pathlib import Path
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
        outcomes = [*hv.publish(run, DAYS[0], DAYS[1])]
        shutil.copytree(city, city / "before" / archive, ignore=shutil.ignore_patterns("before"))
        outcomes += hv.publish(run, DAYS[2])
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
        ends if stated["plan"]["statistics"] == ["mean"] else (0.0, 1.0),  # of mean scores
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


def check_values_enter_by_releases_alone(archive, run="run.toml", source="city.parquet"):
    """Assert that other values on all days leave the last day's request and plan to the last bit.

    The folders of the first days stand, and the ledger is that of then; the records say something
    else, and the last day is published from them.
    """
    before, table = Path("before", archive.parts[0]), pq.read_table(source)
    at = table.column_names.index("speed")
    speed = pc.multiply(table["speed"], 0.5).cast(table.schema.field("speed").type)
    pq.write_table(table.set_column(at, "speed", speed), before / source)
    with contextlib.chdir(before):
        (outcome,) = hv.publish(run, DAYS[-1])
    assert (outcome.state, outcome.epsilon > 0) == ("published", True)
    first, again = (planned(folders(place)[-1]) for place in (archive, before / archive))
    assert first[:-1] == again[:-1]
    # Under private presence noise says which cells are open, and have a range.
    both = [pair for pair in zip(first[-1], again[-1], strict=True) if None not in pair]
    assert both
    assert all(one == other for one, other in both)


def check_judged_in_series(text, usable):
    """Assert that a refusal names the day from which a series is usable, which then passes.

    The days before are published by accepting noise; without memory no refusal speaks of a series.
    """
    strict = text.replace("accept_noise = true", "")
    for name, run in {"any": text, "run": strict}.items():
        Path(f"{name}.toml").write_text(run)
    Path("alone.toml").write_text(strict.replace('wait = "6h"', 'history = "none"'))
    (first,) = hv.publish("run.toml", DAYS[0], DAYS[0])
    assert first.state == "failed"
    assert f"as a daily series it is expected to be usable from day {usable} on" in first.message
    (alone,) = hv.publish("alone.toml", DAYS[0], DAYS[0])
    assert alone.state == "failed"
    assert "as a daily series" not in alone.message
    outcomes = hv.publish("any.toml", DAYS[0], DAYS[usable - 2])
    outcomes += hv.publish("run.toml", DAYS[usable - 1], DAYS[usable - 1])
    assert [one.state for one in outcomes] == ["published"] * usable


def planned(folder):
    """Return the request and the plan that a folder states, and what each cell is clipped to."""
    own, table = component(folder), pq.read_table(folder / "cells.parquet")
    if "cells" in own:
        # Averages beside quantiles pay for a range of the day alone.
        cells = [cell | {"moments": None} for cell in own["cells"]]
    else:
        # Ranges of a share are not in the table: its plan names the releases they follow from.
        names = ("mean_range_low", "mean_range_high")
        ends = [table[name].to_pylist() for name in names if name in table.column_names]
        cells = [None if None in pair else pair for pair in zip(*ends, strict=True)] or [0]
    plan = [own[key] for key in ("plan", "losses", "scores") if key in own]
    return manifest_of(folder)["request"], plan, cells

"""A small city of buses, and the command as a person calls it."""

import subprocess
import sys
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hexveil.cli import main

RUN = """\
source = "buses.parquet"

[columns]
user = "bus"
value = "speed"
lat = "lat"
lon = "lon"
time = "time"

[values]
bounds = [0, 65]
value_unit = "km/h"

[cells]
resolution = 6
timeslot = "none"

[plan]
epsilon = 1

[release]
out = "map"

[ledger]
url = "ledger.sqlite"
dataset = "buses"
budget = 2
"""

PLACES = ((21.10, 72.75), (21.20, 72.80), (21.25, 72.85))


def city(n_users=400):
    """Return one record per bus and place; place by place another speed."""
    rows = [
        {
            "bus": f"{user:04d}",
            "lat": lat,
            "lon": lon,
            "time": f"2022-01-01T{10 + number}:{user % 60:02d}:00+05:30",
            "speed": 10.0 * number + user % 10,
        }
        for number, (lat, lon) in enumerate(PLACES)
        for user in range(n_users)
    ]
    return pa.Table.from_pylist(rows)


@dataclass(frozen=True)
class Said:
    """What a call of the command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Stand in a folder with the buses and their run file."""
    pq.write_table(city(), tmp_path / "buses.parquet")
    (tmp_path / "run.toml").write_text(RUN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def call(capfd):
    """Call the command in this process."""

    def called(*arguments):
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return Said(code, out, err)

    return called


@pytest.fixture
def spawn():
    """Call the command in a process of its own."""

    def called(*arguments, **options):
        command = [sys.executable, "-m", "hexveil", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
        return Said(done.returncode, done.stdout, done.stderr)

    return called

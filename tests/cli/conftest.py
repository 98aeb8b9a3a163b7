"""A small city of buses, and the command as a person calls it."""

import shlex
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bus_runs import run_text
from hexveil.cli import main

RUN = run_text(release='out = "map"')


PLACES = ((21.10, 72.75), (21.20, 72.80), (21.25, 72.85))


def record(user, lat, lon, hour, speed):
    """Return a record of a bus; of each ten buses another speed."""
    time, speed = f"2022-01-01T{hour}:{user % 60:02d}:00+05:30", speed + user % 10
    return {"bus": f"{user:04d}", "lat": lat, "lon": lon, "time": time, "speed": speed}


def city(n_users=400):
    """Return one record per bus and place; place by place another speed."""
    rows = [
        record(user, lat, lon, 10 + number, 10.0 * number)
        for number, (lat, lon) in enumerate(PLACES)
        for user in range(n_users)
    ]
    return pa.Table.from_pylist(rows)


def flat(text):
    """Return text in one line."""
    return " ".join(text.split())


def listing():
    """Return every file below the folder with its bytes, but for SQLite's own beside a ledger."""
    files = (path for path in sorted(Path().rglob("*")) if path.is_file())
    return {path: path.read_bytes() for path in files if not path.name.endswith(("-wal", "-shm"))}


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
def fleet(tmp_path, monkeypatch):
    """Stand in a folder with 400 buses, each at eight places at the same hours."""
    rows = [
        record(user, 21.1 + 0.06 * k, 72.7 + 0.06 * k, 10 + (user + k) % 8, 5.0 * k)
        for k in range(8)
        for user in range(400)
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "buses.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def words(*line):
    """Yield the words of a command: of texts as a shell reads them, of lists of such in turn."""
    for part in line:
        if isinstance(part, list | tuple):
            yield from words(*part)
        else:
            yield from (shlex.split(part) or [part]) if isinstance(part, str) else [str(part)]


@pytest.fixture
def call(capfd):
    """Call the command in this process."""

    def called(*arguments):
        capfd.readouterr()
        code = main([*words(*arguments)])
        out, err = capfd.readouterr()
        return Said(code, out, err)

    return called


@pytest.fixture
def okay(call):
    """Call the command, which ends well."""

    def called(*arguments):
        said = call(*arguments)
        assert said.code == 0, said.err + said.out
        return said

    return called


@pytest.fixture
def refuse(call):
    """Call the command, which ends as wrong use."""

    def called(*arguments):
        said = call(*arguments)
        assert said.code == 2, said.err + said.out
        return said

    return called

"""Commands with protect = "presence": what a holder sees, and what nobody can see.

That nothing but noise depends on the records: tests/attack/test_presence_neighbours.py.
"""

import json
import re
import sqlite3
import sys
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest
import rich.console

from cli.conftest import flat
from cli.presence_runs import CACHED, CANARY, ROW, RUN, SEVERAL, records, with_load

MAP = (
    RUN.replace('labels = ["road"]\nvalues = ["A4", "A8", "B10"]', "{cells}")
    .replace('value = "speed"', 'value = "speed"\nlat = "lat"\nlon = "lon"\ntime = "time"')
    .replace("fleet = 400", "fleet = 2000")
)
CELLS = 'resolution = 6\ntimezone = "Europe/Warsaw"\narea = [20.8, 52.05, 21.3, 52.35]\n'
NO_SLOTS = 'timeslot = "none"\n'
DAY = 1767225600
"""First second of 2026, UTC."""


def places(n=600):
    """Return records around Warsaw on the first day of 2026, four of each car."""
    rng = np.random.default_rng(5)
    cars = n // 4
    lines = [
        f"car{i % cars},{30 + i % 20},{52.2 + 0.02 * a:.5f},{21 + 0.03 * b:.5f},{DAY + 60 * i}\n"
        for i, (a, b) in enumerate(rng.normal(size=(n, 2)))
    ]
    return "car,speed,lat,lon,time\n" + "".join(lines)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Stand in a folder with records and a run file."""
    (tmp_path / "cars.csv").write_text(records())
    (tmp_path / "run.toml").write_text(RUN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_a_release_from_start_to_end(here, call, okay):
    """Plan, dry run, release, verification, dossier, the ledger: each says which promise it is."""
    planned = okay("plan run.toml")
    assert "had one vehicle not been in the records at all" in " ".join(planned.out.split())
    dry = call("release run.toml --dry-run")
    assert "nothing was read, booked, drawn or written" in dry.out
    assert not (here / "ledger.sqlite").exists()
    made = call("release run.toml")
    assert (made.code, made.err) == (0, "")
    assert "3 of 3 cells are open" in made.out
    checked = okay("verify map")
    assert "Recomputed" in checked.out
    written = call("dossier map")
    assert (written.code, "addition or removal" in written.out) == (0, True)
    assert "any unit, present or not" in call("ledger show ledger.sqlite").out


def test_a_repeated_release_reads_no_record(here, call):
    """The same request gets the same numbers again, even where the records are gone."""
    call("release run.toml")
    (here / "cars.csv").unlink()
    again = call("release run.toml --out again")
    assert (again.code, "answered before" in again.out) == (0, True)
    tables = [(here / folder / "cells.csv").read_bytes() for folder in ("map", "again")]
    assert tables[0] == tables[1]


@pytest.mark.slow
@pytest.mark.parametrize("columns", [(), (SEVERAL, CACHED)])
def test_days_are_published_from_declarations(here, call, columns):
    """A day is published once; later its request is known without its records."""
    (here / "cars.csv").write_text(with_load(places()))
    slots = 'timeslot = "1d"\nslot = "calendar"\n'
    (here / "run.toml").write_text(MAP.format(cells=CELLS + slots))
    day = ("publish run.toml --date 2026-01-01 --out days", columns)
    first = call(day)
    assert (first.code, "published: 2026-01-01/" in first.out) == (0, True), first.out
    (here / "cars.csv").unlink()
    assert "published before" in call(day).out
    day_folder = here / "days" / "cars" / "2026-01-01"
    folder = next(path for path in day_folder.iterdir() if path.is_dir())
    (folder / "README.txt").unlink()
    assert "restored" in call(day).out
    assert call("verify", folder).code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("plan --set privacy.fleet=0", "whole number from 1"),
        ("plan --protect values", "belongs to protect"),
        ("plan --set plan.statistics=variance", "not 'variance'"),
        ("plan --set select.min_users=10", "min_users (in [select]) has no meaning"),
        ("plan --set select.top=5", "min_users and top"),
        ("release --set read.max_bad_rows=0.1", "max_bad_rows (in [read])"),
        ("inspect --set read.accept_single_records=true", "accept_single_records (in [read])"),
        ("release --set release.estimates=raw,smoothed", "estimates"),
        ("release --set privacy.fleet=5", "Grid too fine"),
    ],
)
def test_what_has_no_meaning_is_refused(here, refuse, arguments, message):
    """One sentence names what to change; nothing is read or booked."""
    (here / "cars.csv").unlink()
    command, *options = arguments.split()
    said = refuse(command, "run.toml", options)
    assert message in " ".join(said.err.split())
    assert not (here / "ledger.sqlite").exists()


def test_repeats_are_asked_for_until_they_are_declared(here, call):
    """Nothing may count them, so nothing can warn of times that are coarser than the reports."""
    text = MAP.format(cells=CELLS + NO_SLOTS)
    (here / "run.toml").write_text(text)
    asked = call("plan run.toml")
    assert (asked.code, "how many that leaves out is private" in flat(asked.out)) == (0, True)
    for repeats in ("drop", "keep"):
        (here / "run.toml").write_text(text + f'[read]\nrepeats = "{repeats}"\n')
        declared = call("plan run.toml")
        assert (declared.code, "Repeats" in declared.out) == (0, False)


@pytest.mark.slow
def test_grids_of_columns_are_judged_on_paper(here, call):
    """Each grid is judged for each column as its plan would be. No records."""
    (here / "cars.csv").unlink()
    ring = [[20.8, 52.05], [21.3, 52.05], [21.3, 52.35], [20.8, 52.35], [20.8, 52.05]]
    (here / "area.geojson").write_text(json.dumps({"type": "Polygon", "coordinates": [ring]}))
    cells = 'resolution = 6\ntimezone = "Europe/Warsaw"\narea = ["area.geojson"]\n'
    (here / "run.toml").write_text(MAP.format(cells=cells + 'timeslot = "1d"\nslot = "pooled"\n'))
    asked = ("inspect run.toml", SEVERAL, "--set privacy.fleet=150")
    found = json.loads(call(asked, "--json").out)
    usable = [
        grid["cells"]
        for grid in found["grids"]
        if all(one["usable"] for one in grid["columns"].values())
    ]
    assert len(usable) < len(found["grids"])
    said = call(asked).out
    assert "Grids for load on paper" in said


def test_the_run_file_of_the_page_can_be_planned(here, okay):
    """The how-to page shows a run whose map is worth its price."""
    page = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "private-presence.md"
    (text,) = re.findall(r"^```toml\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (here / "cars.toml").write_text(text)
    planned = okay("plan cars.toml --json")
    assert json.loads(planned.out)["refusal"] is None


def test_an_id_leaves_no_trace(here, call):
    """No id or value of a user is in the folder, in the ledger, or in what was printed."""
    (here / "cars.csv").write_text(records() + ROW)
    said = call("release run.toml")
    texts = [path.read_bytes() for path in (here / "map").iterdir()]
    with sqlite3.connect(here / "ledger.sqlite") as database:
        texts.append("\n".join(database.iterdump()).encode())
    texts += [said.out.encode(), said.err.encode()]
    assert all(CANARY.encode() not in text for text in texts)
    assert len(texts) > 10


def test_counts_of_records_are_for_a_terminal_and_marked(call, okay, monkeypatch, here):
    """On a terminal every line with a count of records is marked; quiet_records withholds it."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    # A busy machine draws no progress over these lines.
    monkeypatch.setattr(rich.console.Console, "status", MagicMock())
    shown = okay("release run.toml")
    assert "PRIVATE  records read" in shown.err
    lines = [line for line in re.split(r"[\r\n]+", shown.err) if re.search(r"\b[39]00\b", line)]
    assert len(lines) >= 3
    assert [line for line in lines if not line.startswith("PRIVATE")] == []
    # The fleet of 400 is declared; 300 cars with 900 records are not.
    assert not re.search(r"\b[39]00\b", shown.out)
    again = "--set privacy.quiet_records=true --set plan.edition=2 --out b"
    quiet = okay("release run.toml", again)
    assert "PRIVATE" not in quiet.err
    assert not re.search(r"\b[39]00\b", quiet.err + quiet.out)

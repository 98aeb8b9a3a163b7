"""`hexveil publish`: a day's map that may be asked for again and again."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from bus_runs import run_text
from cli.conftest import city

DAYS = ("2022-01-01", "2022-01-02", "2022-01-03")
RUN = run_text(cells='timezone = "Asia/Kolkata"', release='out = "maps"\naccept_noise = true')


def records(*days, late=0):
    """Return the buses of the given days; `late` buses more on each."""
    parts = []
    for day in days:
        table = city(400 + late)
        times = [text.replace("2022-01-01", day) for text in table["time"].to_pylist()]
        parts.append(table.set_column(table.column_names.index("time"), "time", pa.array(times)))
    return pa.concat_tables(parts)


@pytest.fixture
def daily(tmp_path, monkeypatch):
    """Stand in a folder with three days of buses, long over, and their run file."""
    pq.write_table(records(*DAYS), tmp_path / "buses.parquet")
    (tmp_path / "run.toml").write_text(RUN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def spent():
    """Return what the ledger says."""
    return hv.Ledger("ledger.sqlite", dataset="buses").spent


def folders(where):
    """Return the release folders of a data set, by day."""
    return sorted(str(path.parent.relative_to(where)) for path in where.rglob("receipt.json"))


@pytest.mark.slow
def test_a_day_is_published_once(daily, call, okay):
    """The folder stands under its day, both pointers name it, and the second time costs nothing."""
    first = okay("publish run.toml --date", DAYS[0])
    assert "published: " in first.out
    before = spent()
    assert 0 < before <= 1
    (folder,) = folders(daily / "maps" / "buses")
    assert folder.startswith(f"{DAYS[0]}/")
    for pointer in ("latest.json", f"{DAYS[0]}/latest.json"):
        assert json.loads((daily / "maps" / "buses" / pointer).read_text())["path"] == folder
    assert hv.verify(daily / "maps" / "buses" / folder)["dataset"]["name"] == "buses"
    again = call("publish run.toml --date", DAYS[0])
    assert (again.code, spent()) == (0, before)
    assert "published before" in again.out
    assert folders(daily / "maps" / "buses") == [folder]


@pytest.mark.slow
def test_python_publishes_as_the_command_does(daily):
    """The function has the outcome of each day; a dry run and a repetition cost nothing."""
    planned = hv.publish("run.toml", DAYS[0], DAYS[-1], dry_run=True)
    assert [(one.day, one.state) for one in planned] == [(day, "planned") for day in DAYS]
    assert not Path("ledger.sqlite").exists()
    (made,) = hv.publish(Path("run.toml"), DAYS[0], out="elsewhere")
    assert (made.state, made.epsilon) == ("published", planned[0].epsilon)
    (again,) = hv.publish("run.toml", DAYS[0], out="elsewhere")
    assert (again.state, again.epsilon, spent()) == ("published before", 0.0, 1)
    assert len(folders(Path("elsewhere", "buses"))) == 1
    with pytest.raises(hv.InputError, match="a day must be a date"):
        hv.publish("run.toml", "yesterday")


@pytest.mark.slow
def test_a_range_is_a_day_at_a_time_until_the_budget_ends(daily, call):
    """The third day does not fit: it is refused with exit 3, and the first two stand."""
    said = call("publish run.toml --from", DAYS[0], "--to", DAYS[2], "--json")
    found = json.loads(said.out)
    assert [one["state"] for one in found] == ["published", "published", "refused"]
    assert said.code == 3
    assert len(folders(daily / "maps" / "buses")) == 2
    newest = json.loads((daily / "maps" / "buses" / "latest.json").read_text())
    assert newest["day"] == DAYS[1]


@pytest.mark.slow
def test_late_records_wait_or_are_paid_for(daily, call, okay):
    """What is published stands when more vehicles turn up; a revision costs, and then counts."""
    assert call("publish run.toml --date", DAYS[0]).code == 0
    place = daily / "maps" / "buses"
    first, before = (place / DAYS[0] / "latest.json").read_text(), spent()
    pq.write_table(records(*DAYS, late=30), daily / "buses.parquet")
    kept = call("publish run.toml --date", DAYS[0])
    assert (kept.code, spent()) == (0, before)
    assert "kept: late records arrived" in kept.out
    assert (place / DAYS[0] / "latest.json").read_text() == first
    page = place / json.loads(first)["path"] / "report.html"
    whole = page.read_bytes()
    page.unlink()
    damaged = call("publish run.toml --date", DAYS[0])
    assert (damaged.code, spent()) == (1, before)
    assert "report.html is missing, and cannot be restored here" in " ".join(damaged.out.split())
    page.write_bytes(whole)
    okay("publish run.toml --date", DAYS[0], "--revise")
    assert spent() > before
    assert (place / DAYS[0] / "latest.json").read_text() != first
    assert len(folders(place)) == 2


DAMAGE = {
    "report.html is missing": lambda place: (place / "report.html").unlink(),
    "receipt.json is missing": lambda place: (place / "receipt.json").unlink(),
    "manifest.json is missing": lambda place: [one.unlink() for one in place.glob("[!r]*")],
    "cells.parquet was changed": lambda place: append(place / "cells.parquet"),
}


def append(file):
    """Add a blank to a file."""
    file.write_bytes(file.read_bytes() + b" ")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sentence", "where"),
    [*((one, "maps") for one in DAMAGE), *((one, "bucket") for one in [*DAMAGE][:1])],
)
def test_a_damaged_folder_is_noticed_and_restored(daily, call, sentence, where):
    """What is missing or changed is said; the same bytes stand again, at no cost."""
    out = ["--out", (daily / where).as_uri() if where == "bucket" else where]
    assert call("publish run.toml --date", DAYS[0], out).code == 0
    (folder,) = folders(daily / where / "buses")
    place = daily / where / "buses" / folder
    whole, before = contents(place), spent()
    DAMAGE[sentence](place)
    again = call("publish run.toml --date", DAYS[0], out)
    said = " ".join(again.out.split())
    assert (again.code, spent()) == (0, before), again.out
    assert "restored: " in said
    assert sentence in said
    assert contents(place) == whole
    assert hv.verify(place)["dataset"]["name"] == "buses"
    assert [one.name for one in place.parent.iterdir() if one.is_dir()] == [place.name]
    assert "published before" in call("publish run.toml --date", DAYS[0], out).out


def contents(place):
    """Return the bytes of each file of a folder."""
    return {path.name: path.read_bytes() for path in place.iterdir()}


@pytest.mark.slow
def test_a_restoration_draws_nothing(daily, call, monkeypatch):
    """Where the ledger has no numbers of a damaged folder it is refused, and nothing is booked."""
    assert call("publish run.toml --date", DAYS[0]).code == 0
    (folder,) = folders(daily / "maps" / "buses")
    (daily / "maps" / "buses" / folder / "report.html").unlink()
    before = spent()
    monkeypatch.setattr(hv.Ledger, "find", lambda *_: None)
    said = call("publish run.toml --date", DAYS[0])
    assert said.code == 1
    assert "the ledger does not have its numbers" in " ".join(said.out.split())
    monkeypatch.undo()
    assert hv.Ledger(str(daily / "ledger.sqlite"), dataset="buses").spent == before


def test_a_dry_run_says_price_and_end(daily, call, okay):
    """Nothing is booked, no file is made, and the date is the one that arithmetic gives."""
    said = okay("publish run.toml --date", DAYS[0], "--dry-run")
    words = " ".join(said.out.split())
    assert "at that cost per day the budget ends after 2 days" in words
    assert "Expected error: " in words
    assert " on average, " in words
    assert not (daily / "ledger.sqlite").exists()
    assert not (daily / "maps").exists()
    other = call("publish run.toml --date", DAYS[0], "--dry-run --set read.privacy_unit=user-day")
    assert "have budgets of their own" in " ".join(other.out.split())


@pytest.mark.slow
def test_the_run_file_says_how_long_a_day_waits_and_what_late_records_do(daily, call, refuse):
    """`wait` and `late` stand in [publish]; an option takes their place."""
    run = daily / "run.toml"
    run.write_text(run.read_text() + '\n[publish]\nwait = "9999d"\nlate = "revise"\n')
    early = refuse("publish run.toml --date", DAYS[0])
    assert "ready at 2049-05-18 18:30 UTC" in early.out
    assert call("publish run.toml --date", DAYS[0], "--set publish.wait=0h").code == 0
    before = spent()
    pq.write_table(records(*DAYS, late=30), daily / "buses.parquet")
    kept = call("publish run.toml --date", DAYS[0], "--set publish.wait=0h --set publish.late=keep")
    assert (kept.code, spent()) == (0, before)
    assert call("publish run.toml --date", DAYS[0], "--set publish.wait=0h").code == 0
    assert spent() > before

"""An archive whose estimates remember: what stands in its folders is all that they are made of."""

import json
import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from hexveil import InputError, StorageError
from hexveil.cli import main
from hexveil.cli.commands.publish_command import publish_run, run_of_day
from hexveil.cli.planned_release import plan_release
from hexveil.cli.shared_steps import read_facts
from hexveil.config import load
from hexveil.learning.memory import Deviations
from hexveil.learning.published_day import blank_day
from hexveil.learning.remembering import estimate_day, forecast_day, remember
from hexveil.planning.saved_plans import encode
from hexveil.publishing import receipt
from hexveil.publishing.archive.archive import open_archive
from hexveil.publishing.memory import history
from hexveil.publishing.memory.history import expected_errors, least_daily_epsilon
from hexveil.publishing.memory.stored_day import (
    FILE,
    ROW,
    forecast_of,
    from_bytes,
    read_earlier,
    to_bytes,
)
from hexveil.publishing.verification.verify import find_problems

RUN = """
source = "city.parquet"
[columns]
user = "license_plate"
value = "speed"
location = "location.coordinates"
time = "observationDateTime"
[values]
bounds = [0, 65]
[read]
privacy_unit = "user-day"
[cells]
resolution = 6
timeslot = "6h"
timezone = "Asia/Kolkata"
[plan]
epsilon = 3
[release]
out = "maps"
accept_noise = true
[publish]
wait = "6h"
[ledger]
url = "ledger.sqlite"
dataset = "buses"
budget = 100
"""
SIMULATE = ("simulate", "--users", "40", "--days", "3", "--interval", "5min", "--seed", "3")
DAYS = ("2024-01-01", "2024-01-02", "2024-01-03")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    """Return a folder with five days of an invented city, a run file, and three days published."""
    folder = tmp_path_factory.mktemp("city")
    out = str(folder / "city.parquet")
    assert main([*SIMULATE, "--out", out]) == 0
    (folder / "run.toml").write_text(RUN)
    return folder


def enter_copy(city, tmp_path, monkeypatch, run="run.toml", archive="maps"):
    """Enter a copy of a city's folder, with the archive of three days, published once."""
    monkeypatch.chdir(city)
    if not (city / archive).exists():
        outcomes = publish_run(run, DAYS[0], DAYS[-1])
        assert [one.state for one in outcomes] == ["published"] * 3, outcomes
    shutil.copytree(city, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")


@pytest.fixture
def published(city, tmp_path, monkeypatch):
    """Return a copy of the archive of three days, in a folder of its own."""
    enter_copy(city, tmp_path, monkeypatch)
    return Path("maps/buses")


def test_a_day_is_judged_by_what_its_estimates_remember(city, tmp_path, monkeypatch):
    """A day that is too noisy names the day from which a series is usable; that one passes."""
    monkeypatch.chdir(tmp_path)
    text = RUN.replace("city.parquet", str(city / "city.parquet"))
    text = text.replace("epsilon = 3", "epsilon = 2")
    Path("any.toml").write_text(text)
    Path("run.toml").write_text(text.replace("accept_noise = true", ""))
    (first,) = publish_run("run.toml", DAYS[0], DAYS[0])
    assert first.state == "failed"
    assert "as a daily series it is expected to be usable from day 2 on" in first.message
    assert publish_run("any.toml", DAYS[0], DAYS[0])[0].state == "published"
    assert publish_run("run.toml", DAYS[1], DAYS[1])[0].state == "published"
    alone = text.replace("accept_noise = true", "").replace('wait = "6h"', 'history = "none"')
    Path("alone.toml").write_text(alone)
    (third,) = publish_run("alone.toml", DAYS[2], DAYS[2])
    assert third.state == "failed"
    assert "as a daily series" not in third.message


def folders(place):
    """Return the release folders by day."""
    return sorted(path.parent for path in place.rglob("receipt.json"))


def contents(folder):
    """Return the bytes of each file."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def component(folder):
    """Return the statements of a folder."""
    return json.loads((folder / "manifest.json").read_text())["components"][0]


def earlier(folder):
    """Return a release as a recipient reads it from its folder."""
    manifest = json.loads((folder / "manifest.json").read_text())
    return read_earlier(
        manifest, pq.read_table(folder / "cells.parquet"), (folder / FILE).read_bytes()
    )


def test_folders_verify_and_are_all_that_estimates_are_made_of(published):
    """A recipient computes forecasts and estimates from the three folders alone, and agrees."""
    places = folders(published)
    assert [find_problems(folder) for folder in places] == [()] * 3
    releases = [earlier(folder) for folder in places]
    memory = component(places[-1])["memory"]
    assert memory["releases"] == [one.identity() for one in releases[:-1]]
    table = pq.read_table(places[-1] / "cells.parquet")
    given = remember([one.published for one in releases], releases[1].deviations)
    rows = from_bytes((places[-1] / FILE).read_bytes(), len(table))
    assert given.forecast.mean == pytest.approx(forecast_of(rows).mean, rel=1e-6)
    assert Deviations(**memory["deviations"]) == given.deviations
    estimates = estimate_day(releases[-1].published, given.forecast)
    width = estimates.high - estimates.low
    alone = table["mean_today_high"].to_numpy() - table["mean_today_low"].to_numpy()
    used = width < alone
    assert used.mean() > 0.5
    assert table["mean_estimate"].to_numpy()[used] == pytest.approx(estimates.estimate[used])
    assert table["mean_estimate"].to_numpy()[~used] == pytest.approx(
        table["mean_today"].to_numpy()[~used]
    )
    published_width = table["mean_high"].to_numpy() - table["mean_low"].to_numpy()
    assert (published_width <= alone + 1e-9).all()


def test_ranges_follow_from_the_second_day_on(published):
    """The first day pays for a range; later ones take those of a forecast, and name its days."""
    stated = [component(folder) for folder in folders(published)]
    plans = [one["plan"] for one in stated]
    steps = [[step["step"] for step in one["privacy_steps"]] for one in plans]
    assert steps[0] != ["cells"]
    assert steps[1] == steps[2] == ["cells"]
    assert plans[2]["privacy_steps"][0]["remembered"] == 2
    digests = [one["sha256"] for one in stated[2]["memory"]["releases"]]
    assert plans[2]["request"]["history"] == digests
    assert "history" not in plans[0]["request"]
    ranges = [cell["noised"][0]["clipping_range"] for cell in stated[2]["cells"]]
    assert len({(one["lower"], one["upper"]) for one in ranges}) == len(ranges)


def test_a_recipient_computes_the_ranges_again(published):
    """Folders of earlier days and public facts give each range's forecast, and users' deviation."""
    places = folders(published)
    releases = [earlier(folder) for folder in places]
    table = pq.read_table(places[2] / "cells.parquet")
    rows = from_bytes((places[2] / FILE).read_bytes(), len(table))
    last = releases[2].published
    users = np.exp(np.mean([np.log(one.published.user_deviation) for one in releases[:2]]))
    where = last.day, last.place, last.slot
    blank = blank_day(where, (0.0, 65.0), users, rows["share_squares"].astype(float))
    forecast = forecast_day([one.published for one in releases[:2]], blank, releases[1].deviations)
    stated = component(places[2])
    ranges = [cell["noised"][0]["clipping_range"] for cell in stated["cells"]]
    middles = np.array([(one["lower"] + one["upper"]) / 2 for one in ranges])
    inside = np.array([one["lower"] > 0 and one["upper"] < 65 for one in ranges])
    assert inside.sum() > len(ranges) / 2
    quantum = float(Fraction(stated["bounds"]["quantum"]))
    assert middles[inside] == pytest.approx(forecast.mean[inside], abs=quantum)
    pooled = releases[0].published.user_deviation / 0.85
    between = np.cov(forecast.mean, fweights=table["users"].to_numpy(), bias=True)
    expected = max(pooled**2 - between, (0.35 * pooled) ** 2)
    assert last.user_deviation == pytest.approx(expected**0.5, rel=1e-5)


def test_a_restored_day_has_the_same_bytes_whatever_came_later(published):
    """A folder that is lost is made again from the releases that it rested on."""
    places = folders(published)
    whole = contents(places[-1])
    (places[-1] / "manifest.json").unlink()
    assert publish_run("run.toml", DAYS[-1])[0].state == "restored"
    assert contents(places[-1]) == whole
    # Another release of the first day is now its current one: the last day still has its own.
    pointer = published / DAYS[0] / "latest.json"
    pointer.unlink()
    shutil.rmtree(places[-1])
    assert publish_run("run.toml", DAYS[-1])[0].state == "published"
    assert contents(places[-1]) == whole


def test_a_restored_day_needs_what_it_rested_on(published):
    """Where an earlier folder was changed, the sentence names it, and nothing is published."""
    places = folders(published)
    (places[0] / FILE).write_bytes(to_bytes(np.zeros(2, dtype=ROW)))
    place = open_archive("maps", "buses")
    with pytest.raises(StorageError, match=f"{DAYS[0]}/.* is not as it was when {DAYS[2]}"):
        place.history(DAYS[2])


def test_a_late_day_remembers_earlier_days_alone(published):
    """A day that is published after later ones does not use them."""
    places = folders(published)
    shutil.rmtree(published / DAYS[1])
    assert publish_run("run.toml", DAYS[1])[0].state == "published"
    releases = component(places[1])["memory"]["releases"]
    assert [one["day"] for one in releases] == [DAYS[0]]


def test_a_forecast_that_cannot_be_computed_stops_no_day(published, monkeypatch):
    """Numbers are paid for by then: the day is published by its own numbers."""

    def fail(*_):
        raise np.linalg.LinAlgError

    monkeypatch.setattr(history, "remember", fail)
    shutil.rmtree(published / DAYS[2])
    assert publish_run("run.toml", DAYS[2])[0].state == "published"
    folder = folders(published)[2]
    assert find_problems(folder) == ()
    assert "mean_today" not in hv.load(folder).columns


def check_values_enter_by_releases_alone(archive, name, run="run.toml", stated=encode):
    """Assert that other values on all days leave the last day's request and plan to the last bit.

    The folders of the first days stand; the records say something else.
    """
    place, asked, plans = open_archive(archive, name), run_of_day(load(run, {}), DAYS[2]), []
    (source,) = asked.source
    for factor in (1.0, 0.5):
        table = pq.read_table(source)
        at = table.column_names.index("speed")
        speed = pc.multiply(table["speed"], factor).cast(table.schema.field("speed").type)
        pq.write_table(table.set_column(at, "speed", speed), source)
        planned = plan_release(asked, history=place.history(DAYS[2]))
        plans.append((planned.request(name), stated(planned.plan)))
    assert plans[0] == plans[1]
    assert plans[0][0] == place.current(DAYS[2]).request


def test_values_of_earlier_days_enter_through_their_releases_alone(published):
    """With other values on all days, the last day's request and plan are the same."""
    check_values_enter_by_releases_alone("maps", "buses")


def test_days_are_rolled_up(published, capsys):
    """The averages over days come from the folders, as a table, a folder and a command."""
    places = folders(published)
    days = hv.roll_up(places)
    assert len(days) > 0
    table = days.table.to_pydict()
    assert set(table["cells"]) <= {1, 2, 3}
    assert all(
        low <= mean <= high
        for low, mean, high in zip(
            table["mean_low"], table["mean"], table["mean_high"], strict=True
        )
    )
    narrow = np.subtract(table["mean_high"], table["mean_low"])
    alone = hv.load(places[2])
    assert narrow.mean() < np.mean(alone["mean_high"] - alone["mean_low"])
    assert "roll-up.html" in {one.name for one in days.write("month").iterdir()}
    week = hv.roll_up([hv.load(one) for one in places], by="weekday")
    assert set(week.table["days"].to_pylist()) == {"Monday", "Tuesday", "Wednesday"}
    assert week.write("week").exists()
    assert main(["roll-up", "maps", "--from", DAYS[0], "--to", DAYS[1]]) == 0
    assert "costs no privacy" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(InputError, match="2 to"):
        hv.roll_up(places[:1])
    with pytest.raises(InputError, match="one release of each day"):
        hv.roll_up([places[0], places[0]])


def test_errors_of_days_to_come_are_predicted(published, capsys):
    """Expected errors fall by day; the least epsilon for one reaches it, half of it does not."""
    facts = read_facts(run_of_day(load("run.toml", {}), DAYS[0]))
    made = expected_errors(facts, Fraction(3), 14)
    assert len(made.errors) == 14
    assert made.errors[0] > made.errors[4] > made.errors[-1] > 0
    wanted = 1.1 * made.errors[-1]
    least = least_daily_epsilon(facts, wanted, 14)
    assert least.errors[-1] <= wanted
    assert least.epsilon < 3
    assert expected_errors(facts, least.epsilon / 2, 14).errors[-1] > wanted
    with pytest.raises(InputError, match="no epsilon"):
        least_daily_epsilon(facts, 0.01, 3)
    day = ["--set", f"select.dates={DAYS[0]},{DAYS[0]}"]
    assert main(["plan", "run.toml", "--days", "3", *day]) == 0
    assert "Day 3" in capsys.readouterr().out
    assert main(["plan", "run.toml", "--day-error", "5", "--days", "3", "--json", *day]) == 0
    assert json.loads(capsys.readouterr().out)["errors"][-1] <= 5
    assert main(["plan", "run.toml", "--days", "0", *day]) == 2


def forge(folder, change):
    """Change the rows of a folder's memory."""
    rows = from_bytes((folder / FILE).read_bytes(), len(pq.read_table(folder / "cells.parquet")))
    change(rows)
    rewrite(folder / FILE, to_bytes(rows))


def rewrite(path, content):
    """Write other content to a file of a folder, and its receipt to match."""
    path.write_bytes(content)
    receipt_file = path.with_name(receipt.NAME)
    stated = json.loads(receipt_file.read_text())
    stated["files"][path.name] = receipt.file_digest(path)
    receipt_file.write_text(json.dumps(stated))


def raise_forecast(rows):
    """Add a unit to what earlier days say."""
    rows["mean"] += 1.0


def narrow_forecast(rows):
    """Say that earlier days are surer than they are."""
    rows["deviation"] /= 2.0


def move_likelihood(rows):
    """Say that the day's numbers are others."""
    rows["density"] = rows["density"][:, ::-1]


def spoil(rows):
    """Write a number that is none."""
    rows["edges"][0, 3] = np.nan


@pytest.mark.parametrize("change", [raise_forecast, narrow_forecast, move_likelihood, spoil])
def test_forged_memories_are_found(published, change):
    """Estimates that are not those of the folder's forecast and likelihoods are a problem."""
    folder = folders(published)[2]
    forge(folder, change)
    problems = " ".join(find_problems(folder))
    assert FILE in problems or "is not that of the forecast" in problems

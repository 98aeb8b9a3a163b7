"""An archive whose estimates remember: what stands in its folders is all that they are made of."""

import json
import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from hexveil import InputError
from hexveil.cli import main
from hexveil.learning.remembering import estimate_day, forecast_day, remember
from publishing.memory import archives

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    """Return a folder with five days of an invented city, a run file, and three days published."""
    folder = tmp_path_factory.mktemp("city")
    out = str(folder / "city.parquet")
    assert main([*archives.SIMULATE, "--out", out]) == 0
    (folder / "run.toml").write_text(archives.RUN)
    return folder


@pytest.fixture
def published(city, tmp_path, monkeypatch):
    """Return a copy of the archive of three days, in a folder of its own."""
    archives.enter_copy(city, tmp_path, monkeypatch)
    return Path("maps/buses")


def test_a_day_is_judged_by_what_its_estimates_remember(city, tmp_path, monkeypatch):
    """A day that is too noisy names the day from which a series is usable; that one passes."""
    monkeypatch.chdir(tmp_path)
    text = archives.RUN.replace("city.parquet", str(city / "city.parquet"))
    archives.check_judged_in_series(text.replace("epsilon = 3", "epsilon = 2"), usable=2)


def test_folders_verify_and_are_all_that_estimates_are_made_of(published):
    """A recipient computes forecasts and estimates from the three folders alone, and agrees."""
    places = archives.folders(published)
    for folder in places:
        hv.verify(folder)
    releases = [archives.earlier(folder) for folder in places]
    memory = archives.component(places[-1])["memory"]
    assert memory["releases"] == [one.identity for one in releases[:-1]]
    said = ["<b>Earlier maps</b>" in (place / "report.html").read_text() for place in places]
    assert said == [False, True, True]
    table = pq.read_table(places[-1] / "cells.parquet")
    given = remember([one.published for one in releases], releases[1].deviations)
    assert given.forecast.mean == pytest.approx(releases[-1].forecast.mean, rel=1e-6)
    assert releases[-1].deviations == given.deviations
    estimates = estimate_day(releases[-1].published, given.forecast)
    width = estimates.high - estimates.low
    column = {name: table[name].to_numpy() for name in table.column_names if "mean_" in name}
    alone = column["mean_today_high"] - column["mean_today_low"]
    used = width < alone
    assert used.mean() > 0.5
    expected = np.where(used, estimates.estimate, column["mean_today"])
    assert column["mean_estimate"] == pytest.approx(expected)
    assert (column["mean_high"] - column["mean_low"] <= alone + 1e-9).all()


def test_ranges_follow_from_the_second_day_on(published):
    """The first day pays for a range; later ones take those of a forecast, and name its days."""
    stated = [archives.component(folder) for folder in archives.folders(published)]
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
    places = archives.folders(published)
    releases = [archives.earlier(folder) for folder in places]
    last = releases[2].published
    flat = np.ones_like(last.density)
    edges = np.tile(np.linspace(0.0, 65.0, flat.shape[1] + 1), (len(flat), 1))
    users = np.exp(np.mean([np.log(one.published.user_deviation) for one in releases[:2]]))
    blank = replace(last, user_deviation=users, edges=edges, density=flat, lasting=0.0 * flat[:, 0])
    forecast = forecast_day([one.published for one in releases[:2]], blank, releases[1].deviations)
    stated = archives.component(places[2])
    ranges = [cell["noised"][0]["clipping_range"] for cell in stated["cells"]]
    middles = np.array([(one["lower"] + one["upper"]) / 2 for one in ranges])
    inside = np.array([one["lower"] > 0 and one["upper"] < 65 for one in ranges])
    assert inside.sum() > len(ranges) / 2
    quantum = float(Fraction(stated["bounds"]["quantum"]))
    assert middles[inside] == pytest.approx(forecast.mean[inside], abs=quantum)
    pooled = releases[0].published.user_deviation / 0.85
    users = pq.read_table(places[2] / "cells.parquet")["users"].to_numpy()
    between = np.cov(forecast.mean, fweights=users, bias=True)
    expected = max(pooled**2 - between, (0.35 * pooled) ** 2)
    assert last.user_deviation == pytest.approx(expected**0.5, rel=1e-5)


def test_a_restored_day_has_the_same_bytes_whatever_came_later(published):
    """A folder that is lost is made again from the releases that it rested on."""
    places = archives.folders(published)
    whole = archives.contents(places[-1])
    (places[-1] / "manifest.json").unlink()
    assert hv.publish("run.toml", archives.DAYS[-1])[0].state == "restored"
    assert archives.contents(places[-1]) == whole
    # Another release of the first day is now its current one: the last day still has its own.
    pointer = published / archives.DAYS[0] / "latest.json"
    pointer.unlink()
    shutil.rmtree(places[-1])
    assert hv.publish("run.toml", archives.DAYS[-1])[0].state == "published"
    assert archives.contents(places[-1]) == whole


def test_a_restored_day_needs_what_it_rested_on(published):
    """Where an earlier folder was changed, the sentence names it, and nothing is published."""
    places = archives.folders(published)
    np.save(places[0] / archives.FILE, np.load(places[0] / archives.FILE)[:2])
    (outcome,) = hv.publish("run.toml", archives.DAYS[2])
    assert outcome.state == "failed"
    assert f"{archives.DAYS[0]}/" in outcome.message
    assert f" is not as it was when {archives.DAYS[2]}" in outcome.message


def test_a_late_day_remembers_earlier_days_alone(published):
    """A day that is published after later ones does not use them."""
    places = archives.folders(published)
    shutil.rmtree(published / archives.DAYS[1])
    assert hv.publish("run.toml", archives.DAYS[1])[0].state == "published"
    releases = archives.component(places[1])["memory"]["releases"]
    assert [one["day"] for one in releases] == [archives.DAYS[0]]


def test_a_forecast_that_cannot_be_computed_stops_no_day(published, monkeypatch):
    """The day is published by its own numbers: these are paid for, and ranges are bought."""

    def fail(_):
        raise np.linalg.LinAlgError

    monkeypatch.setattr(np.linalg, "cholesky", fail)
    shutil.rmtree(published / archives.DAYS[2])
    assert hv.publish("run.toml", archives.DAYS[2])[0].state == "published"
    folder = archives.folders(published)[2]
    hv.verify(folder)
    assert "history" not in archives.component(folder)["plan"]["request"]
    assert "mean_today" not in hv.load(folder).columns


def test_values_of_earlier_days_enter_through_their_releases_alone(published):
    """With other values on all days, the last day's request and plan are the same."""
    archives.check_values_enter_by_releases_alone(published)


def test_days_are_rolled_up(published, capsys):
    """The averages over days come from the folders, as a table, a folder and a command."""
    places = archives.folders(published)
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
    first = hv.load(places[0])  # which stands alone
    assert narrow.mean() < np.mean(first["mean_high"] - first["mean_low"])
    assert "roll-up.html" in {one.name for one in days.write("month").iterdir()}
    week = hv.roll_up([hv.load(one) for one in places], by="weekday")
    assert set(week.table["days"].to_pylist()) == {"Monday", "Tuesday", "Wednesday"}
    assert week.write("week").exists()
    assert main(["roll-up", "maps", "--from", archives.DAYS[0], "--to", archives.DAYS[1]]) == 0
    assert "costs no privacy" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(InputError, match="2 to"):
        hv.roll_up(places[:1])
    with pytest.raises(InputError, match="one release of each day"):
        hv.roll_up([places[0], places[0]])


def narrow_forecast(rows):
    """Say that earlier days are surer than they are."""
    rows["deviation"] /= 2.0


def move_likelihood(rows):
    """Say that the day's numbers are others."""
    rows["density"] = rows["density"][:, ::-1]


def spoil(rows):
    """Write a number that is none."""
    rows["edges"][0, 3] = np.nan


@pytest.mark.parametrize(
    "change", [archives.raise_forecast, narrow_forecast, move_likelihood, spoil]
)
def test_forged_memories_are_found(published, change):
    """Estimates that are not those of the folder's forecast and likelihoods are a problem."""
    folder = archives.folders(published)[2]
    archives.forge(folder, change)
    with pytest.raises(InputError, match=rf"{archives.FILE}|is not that of the forecast"):
        hv.verify(folder)


def test_a_memory_of_another_kind_is_found(published):
    """Averages whose memory claims to be bins would be checked by nothing."""
    folder = archives.folders(published)[2]
    manifest, rows = archives.manifest_of(folder), np.load(folder / archives.FILE)
    forged = {"bins": [0], "shares": [1.0], "noise": 1.0}
    forged["shape"] = {"edges": [1], "shares": [1.0], "place": [0]}
    manifest["components"][0]["memory"].update(forged)
    archives.rewrite(folder / "manifest.json", json.dumps(manifest).encode())
    fields = [("share_squares", "<f4"), ("bins", "<f8", (1,)), ("alpha", "<f8", (3,))]
    np.save(folder / archives.FILE, np.zeros(rows.size, [*fields, ("covariance", "<f8", (3, 3))]))
    archives.rewrite(folder / archives.FILE, (folder / archives.FILE).read_bytes())
    with pytest.raises(InputError, match="memory has bins, and the release has none"):
        hv.verify(folder)
    for name in ("deviations", "bins"):
        manifest["components"][0]["memory"].pop(name)
    archives.rewrite(folder / "manifest.json", json.dumps(manifest).encode())
    with pytest.raises(InputError, match="memory"):
        hv.verify(folder)


def test_a_draft_that_states_no_room_of_intervals_had_another(published):
    """The manifest states the part of users' sampling that intervals have room for."""
    manifest = archives.manifest_of(archives.folders(published)[2])
    assert manifest["components"][0]["memory"].pop("own_share") == 0.7
    archives.rewrite(
        archives.folders(published)[2] / "manifest.json", json.dumps(manifest).encode()
    )
    with pytest.raises(InputError, match="mean_low is not that of the forecast"):
        hv.verify(archives.folders(published)[2])

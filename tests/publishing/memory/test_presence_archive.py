"""An archive with private presence whose averages remember: published numbers are all that enters.

Day after day a map is planned by the maps before it; its folder is checked, and can be made again.
"""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from hexveil import InputError
from hexveil.cli import main
from hexveil.learning.remembering import estimate_day, remember
from publishing.memory import archives

RUN = f"""
source = "cars.parquet"
[columns]
user = "car"
value = "speed"
lat = "lat"
lon = "lon"
time = "time"
[values]
bounds = [0, 130]
[privacy]
protect = "presence"
fleet = 1500
[cells]
resolution = 6
timeslot = "12h"
timezone = "Asia/Kolkata"
area = [74.75, 21.05, 75.05, 21.35]
[plan]
epsilon = 2
{archives.SERIES}
dataset = "cars"
"""

SHARE = "share<40"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    """Return a folder with three days of cars, and a run file."""
    folder = tmp_path_factory.mktemp("cars")
    size = ("--vehicles", "cars", "--users", "1500", "--days", "3", "--seed", "3")
    assert main(["simulate", *size, "--out", str(folder / "cars.parquet")]) == 0
    (folder / "run.toml").write_text(RUN)
    share = RUN.replace("[plan]", f'[plan]\nstatistics = ["{SHARE}"]')
    (folder / "share.toml").write_text(share.replace('"maps"', '"share"'))
    bins = RUN.replace("[plan]", '[plan]\nstatistics = ["mean", "p50", "p85"]')
    (folder / "bins.toml").write_text(bins.replace('"maps"', '"bins"'))
    return folder


@pytest.fixture
def published(city, tmp_path, monkeypatch):
    """Return a copy of the archive of three days, in a folder of its own."""
    archives.enter_copy(city, tmp_path, monkeypatch)
    return Path("maps/cars")


@pytest.fixture
def of_share(city, tmp_path, monkeypatch):
    """Return the same of a share."""
    archives.enter_copy(city, tmp_path, monkeypatch, "share.toml", "share")
    return Path("share/cars")


@pytest.mark.parametrize(
    ("asked", "usable"),
    [("baseline_error = 1.36", 3), ('baseline_error = 1.19\nstatistics = ["p50"]', 2)],
    ids=["averages", "medians"],
)
def test_a_day_is_judged_by_what_its_estimates_remember(city, tmp_path, monkeypatch, asked, usable):
    """A refusal from declarations names the day from which a series is usable."""
    monkeypatch.chdir(tmp_path)
    text = RUN.replace("cars.parquet", str(city / "cars.parquet"))
    archives.check_judged_in_series(text.replace("[plan]", f"[plan]\n{asked}"), usable)


def test_folders_verify_and_are_all_that_averages_are_made_of(published):
    """A recipient computes forecasts and averages from the three folders alone, and agrees."""
    places = archives.folders(published)
    for folder in places:
        hv.verify(folder)
    first, _, stated = map(archives.component, places)
    releases = [archives.earlier(folder) for folder in places]
    table, last = pq.read_table(places[-1] / "cells.parquet"), releases[-1]
    digests = [one.identity["sha256"] for one in releases[:-1]]
    assert stated["plan"]["form"] == "remembered"
    assert stated["plan"]["history"] == digests
    assert [one["stage"] for one in stated["plan"]["stages"]] == ["fine map"]
    assert first["plan"]["form"] == "three stages"
    assert "mean_today" not in hv.load(places[0]).columns
    is_open = np.array(table["is_open"].to_pylist())
    assert last.published.slot.size == is_open.sum() < is_open.size
    # No unit weighs more than 1 in a cell, and each is declared to be in 10 cells.
    units, weight = 1 / last.published.share_squares, table["weight"].to_numpy()[is_open]
    assert (units > 0.999 * weight).all()
    assert units.sum() == pytest.approx(10 * weight.sum(), rel=0.01)
    given = remember([one.published for one in releases], releases[1].deviations)
    assert given.forecast.mean == pytest.approx(last.forecast.mean, rel=1e-6)
    estimates = estimate_day(last.published, given.forecast)
    shown = {name: table[name].to_numpy()[is_open] for name in table.column_names if "mean" in name}
    assert shown["mean"] == pytest.approx(estimates.estimate, rel=1e-6)
    assert shown["mean_low"] == pytest.approx(estimates.low, rel=1e-6)
    assert (shown["mean"] != shown["mean_today"]).mean() > 0.9


def test_forged_averages_are_found(published):
    """A forecast, or an average, that does not follow from the others is named."""
    folder = archives.folders(published)[2]
    archives.forge(folder, archives.raise_forecast)
    with pytest.raises(InputError, match="mean is not that of the forecast"):
        hv.verify(folder)


def test_a_restored_day_has_the_same_numbers(published):
    """A folder that is lost is made again, without a record, from what it rested on."""
    places = archives.folders(published)
    whole = archives.contents(places[-1])
    Path("cars.parquet").unlink()
    (places[-1] / "manifest.json").unlink()
    assert hv.publish("run.toml", archives.DAYS[-1])[0].state == "restored"
    again = archives.contents(places[-1])
    # Of the records no name of a file is known then, which the manifest states.
    assert {k for k in whole if again[k] != whole[k]} <= {"manifest.json", "receipt.json"}
    stated = json.loads(whole["manifest.json"])["components"][0]
    assert archives.component(places[-1])["memory"] == stated["memory"]


def test_records_of_earlier_days_enter_through_their_releases_alone(published):
    """With other values on all days the last day's request and plan are the same."""
    archives.check_values_enter_by_releases_alone(published, source="cars.parquet")


def test_without_history_each_day_stands_alone(published):
    """`history = "none"` gives the plan of declarations alone, and no memory."""
    Path("run.toml").write_text(
        RUN.replace('wait = "6h"', 'history = "none"').replace('"maps"', '"own"')
    )
    assert hv.publish("run.toml", archives.DAYS[1])[0].state == "published"
    (folder,) = archives.folders(Path("own/cars"))
    assert not (folder / archives.FILE).exists()
    assert hv.load(folder).manifest["components"][0]["plan"]["form"] == "three stages"


def test_a_share_is_remembered_as_the_average_of_its_indicator(of_share, capsys):
    """Later days pay for one map; the share is what forecast and likelihood give, and verifies."""
    places = archives.folders(of_share)
    for folder in places:
        hv.verify(folder)
    first, _, stated = map(archives.component, places)
    assert [one["plan"]["form"] for one in (first, stated)] == ["shapes", "remembered"]
    words = "These numbers also use earlier maps"
    shown = [(folder / "report.html").read_text() for folder in places]
    for folder in places:
        assert main(["dossier", str(folder)]) == 0
        shown.append(capsys.readouterr().out)
    assert [words in " ".join(text.split()) for text in shown] == 2 * [False, True, True]
    assert [one["stage"] for one in stated["plan"]["stages"]] == ["fine map"]
    releases = [archives.earlier(folder) for folder in places]
    digests = [one.identity["sha256"] for one in releases[:-1]]
    assert stated["plan"]["history"] == digests
    given = remember([one.published for one in releases], releases[1].deviations)
    estimates = estimate_day(releases[-1].published, given.forecast)
    table = pq.read_table(places[-1] / "cells.parquet")
    opened = table.filter(table["is_open"])
    for end, numbers in {"": "estimate", "_low": "low", "_high": "high"}.items():
        expected = getattr(estimates, numbers)
        assert opened[f"share_below_40{end}"].to_numpy() == pytest.approx(expected, abs=1e-6)
    archives.check_values_enter_by_releases_alone(of_share, "share.toml", "cars.parquet")
    archives.forge(places[2], archives.raise_forecast)
    with pytest.raises(InputError, match=r"share_below_40 is not that of memory\.npy"):
        hv.verify(places[2])


def test_bins_of_earlier_days_add_up(city, tmp_path, monkeypatch, capsys):
    """Later days pay for bins alone; what earlier days say is in the folder, and verifies."""
    archives.enter_copy(city, tmp_path, monkeypatch, "bins.toml", "bins")
    places = archives.folders(Path("bins/cars"))
    for folder in places:
        assert main(["verify", str(folder)]) == 0
        assert "likelihoods" not in capsys.readouterr().out
    first, second, stated = map(archives.component, places)
    forms = [one["plan"]["form"] for one in (first, second, stated)]
    assert forms == ["shapes", "remembered shapes", "remembered shapes"]
    assert [one["stage"] for one in stated["plan"]["stages"]] == ["cell bins"]
    assert stated["plan"]["stages"][0]["epsilon"] == pytest.approx(2.0)
    assert first["memory"]["shape"] == stated["memory"]["shape"]
    digests = [one["sha256"] for one in stated["memory"]["releases"]]
    assert stated["plan"]["history"] == digests
    assert [one["day"] for one in stated["memory"]["releases"]] == [*archives.DAYS[:2]]
    # The third day's forecast is of the second day's bins: those of the first day are others.
    rows = [np.load(folder / archives.FILE) for folder in places]
    tables = [pq.read_table(folder / "cells.parquet") for folder in places]
    place, weight = np.array(stated["memory"]["bins"]), rows[1]["bins"].sum(axis=1)
    assert weight == pytest.approx(np.nan_to_num(tables[1]["weight_noisy"].to_numpy()))
    shares, gather = np.array(stated["memory"]["shares"]), np.eye(place.max() + 1)[place]
    ranks = np.cumsum(shares) - shares / 2
    terms = np.polynomial.legendre.legvander(2 * ranks - 1, 3)[:, 1:]
    seen, heavy = rows[1]["bins"] / np.maximum(weight, 1.0)[:, None], weight > 40
    tilted = shares * np.exp(rows[2]["alpha"] @ terms.T)
    forecasts = tilted / tilted.sum(axis=1, keepdims=True), shares
    off = [shape @ gather - seen for shape in forecasts]
    forecast, alike = (np.abs(one[heavy]).mean() for one in off)
    assert forecast < 0.8 * alike
    archives.check_values_enter_by_releases_alone(Path("bins/cars"), "bins.toml", "cars.parquet")
    archives.forge(places[2], lambda rows: rows["alpha"].__iadd__(0.5))
    with pytest.raises(InputError, match=r"p50 is not that of memory\.npy"):
        hv.verify(places[2])
    archives.forge(places[1], lambda rows: rows["bins"].__iadd__(1.0))
    with pytest.raises(InputError, match=r"bins in memory\.npy are not those of the weights"):
        hv.verify(places[1])

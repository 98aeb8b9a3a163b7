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
from hexveil.accounting.promise import PARTS
from hexveil.cli import main
from hexveil.cli.commands.publish_command import publish_run
from hexveil.learning.remembering import estimate_day, remember
from hexveil.mechanisms.presence.contribution import CellWindow
from hexveil.mechanisms.presence.remembered_map import RememberedMap
from hexveil.publishing import receipt
from hexveil.publishing.memory.stored_day import FILE, forecast_of, from_bytes
from hexveil.publishing.verification.verify import find_problems
from mechanisms.presence.presence_laws import ExactPresenceLoss, PresenceWorld
from publishing.memory.test_remembering_archive import (
    check_values_enter_by_releases_alone,
    component,
    contents,
    earlier,
    enter_copy,
    folders,
    forge,
    raise_forecast,
)

RUN = """
source = "cars.parquet"
[columns]
user = "car"
value = "speed"
lat = "lat"
lon = "lon"
time = "time"
[values]
bounds = [0, 130]
[read]
privacy_unit = "user-day"
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
[release]
out = "maps"
accept_noise = true
[publish]
wait = "6h"
[ledger]
url = "ledger.sqlite"
dataset = "cars"
budget = 100
"""
DAYS = ("2024-01-01", "2024-01-02", "2024-01-03")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    """Return a folder with three days of cars, and a run file."""
    folder = tmp_path_factory.mktemp("cars")
    size = ("--vehicles", "cars", "--users", "1500", "--days", "3", "--seed", "3")
    assert main(["simulate", *size, "--out", str(folder / "cars.parquet")]) == 0
    (folder / "run.toml").write_text(RUN)
    return folder


@pytest.fixture
def published(city, tmp_path, monkeypatch):
    """Return a copy of the archive of three days, in a folder of its own."""
    enter_copy(city, tmp_path, monkeypatch)
    return Path("maps/cars")


def test_folders_verify_and_are_all_that_averages_are_made_of(published):
    """A recipient computes forecasts and averages from the three folders alone, and agrees."""
    places = folders(published)
    assert [find_problems(folder) for folder in places] == [()] * 3
    first, _, stated = map(component, places)
    releases = [earlier(folder) for folder in places]
    table, last = pq.read_table(places[-1] / "cells.parquet"), releases[-1]
    digests = [one.sha256 for one in releases[:-1]]
    assert stated["plan"]["form"] == "remembered"
    assert stated["plan"]["history"] == digests
    assert [one["stage"] for one in stated["plan"]["stages"]] == ["fine map"]
    assert first["plan"]["form"] == "three stages"
    assert "mean_today" not in hv.load(places[0]).columns
    is_open = np.array(table["is_open"].to_pylist())
    assert last.published.slot.size == is_open.sum() < is_open.size
    given = remember([one.published for one in releases], releases[1].deviations)
    rows = from_bytes((places[-1] / FILE).read_bytes(), len(table))[is_open]
    assert given.forecast.mean == pytest.approx(forecast_of(rows).mean, rel=1e-6)
    estimates = estimate_day(last.published, given.forecast)
    shown = {name: table[name].to_numpy()[is_open] for name in table.column_names if "mean" in name}
    assert shown["mean"] == pytest.approx(estimates.estimate, rel=1e-6)
    assert shown["mean_low"] == pytest.approx(estimates.low, rel=1e-6)
    assert (shown["mean"] != shown["mean_today"]).mean() > 0.9


def test_forged_averages_are_found(published):
    """A forecast, or an average, that does not follow from the others is named."""
    folder = folders(published)[2]
    forge(folder, raise_forecast)
    assert "mean is not that of the forecast" in " ".join(find_problems(folder))


def test_a_restored_day_has_the_same_numbers(published):
    """A folder that is lost is made again, without a record, from what it rested on."""
    places = folders(published)
    whole = contents(places[-1])
    Path("cars.parquet").unlink()
    (places[-1] / "manifest.json").unlink()
    assert publish_run("run.toml", DAYS[-1])[0].state == "restored"
    again = contents(places[-1])
    # Of the records no name of a file is known then, which the manifest states.
    assert {k for k in whole if again[k] != whole[k]} <= {"manifest.json", receipt.NAME}
    stated = json.loads(whole["manifest.json"])["components"][0]
    assert component(places[-1])["memory"] == stated["memory"]


def test_records_of_earlier_days_enter_through_their_releases_alone(published):
    """With other values on all days the last day's request and plan are the same."""

    def stated(plan):
        window = plan.single.request.mean_allocation().window
        return window.low.tolist(), window.prices.tolist()

    check_values_enter_by_releases_alone("maps", "cars", stated=stated)


def test_without_history_each_day_stands_alone(published):
    """`history = "none"` gives the plan of declarations alone, and no memory."""
    Path("run.toml").write_text(
        RUN.replace('wait = "6h"', 'history = "none"').replace('"maps"', '"own"')
    )
    assert publish_run("run.toml", DAYS[1])[0].state == "published"
    (folder,) = folders(Path("own/cars"))
    assert not (folder / FILE).exists()
    assert hv.load(folder).manifest["components"][0]["plan"]["form"] == "three stages"


@pytest.mark.parametrize("seed", range(4))
def test_no_unit_loses_more_than_epsilon_wherever_earlier_outputs_lead(seed):
    """Of any prices and ranges that a forecast may give the exact loss is nearly ε, never more."""
    rng = np.random.default_rng(seed)
    low = rng.integers(0, PARTS // 2, 2)
    window = CellWindow(rng.integers(1, 2**20, 2), low, low + rng.integers(1, PARTS // 2, 2))
    plan = RememberedMap(
        n_cells=2, span_quanta=2, epsilon=2, form=None, releases=("",), window=window, within=0.1
    )
    base = ((0, 0, 1, 1), (1, 0, 2, 4), (0, 1, 3, 2))
    found = ExactPresenceLoss(PresenceWorld.of(base, 2, 2, max_n=2, step=3), lambda _: plan)
    assert 0.9 * 2 <= found.worst <= 2 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("price", "low", "high"),
    [(-1, 0, 1), (2**20 + 1, 0, 1), (1, -1, 1), (1, 2, 2), (1, 3, 2), (1, 0, PARTS + 1)],
)
def test_parameters_that_break_the_sensitivity_are_refused(price, low, high):
    """A negative price would give weights whose sum is beyond what the noise is for."""
    window = CellWindow(np.array([1, price]), np.array([0, low]), np.array([1, high]))
    with pytest.raises(InputError, match="lead to no map"):
        RememberedMap(
            n_cells=2, span_quanta=2, epsilon=2, form=None, releases=("",), window=window,
            within=0.1,
        )  # fmt: skip

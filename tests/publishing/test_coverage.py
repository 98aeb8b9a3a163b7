"""Bounds and intervals hold as often as they say: flights, real buses and a simulated city.

200 runs of each data set and kind of plan at epsilon 1. Noise and the choice of the interval are
drawn by numpy from the laws that the noise library has (tests/noise), with the plan's own scales,
on top of the statistic that a release computes: so a run costs milliseconds.
"""

import numpy as np
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from hexveil.experiments.city import City
from hexveil.experiments.flights import departures
from hexveil.publishing import ends, linear, weighted
from hexveil.publishing.release import ENDS, _constants, _found
from hexveil.publishing.smoothed import smoothed

RUNS = 200
PLACED = {"user": "user_id", "value": "value", "lat": "lat", "lon": "lon", "time": "timestamp"}
FEED = {
    "user": "license_plate",
    "value": "speed",
    "location": "location.coordinates",
    "time": "observationDateTime",
}


def flights(*_):
    """Return aircraft in cells of airport and scheduled hour."""
    return hv.read(
        departures(),
        user="tailnum",
        value="ground speed",
        bounds=(0, 600),
        cells=hv.Labels("origin", "hour"),
        select=hv.Select(min_users=1),
        repeats="keep",
    )


def surat(request, _):
    """Return Surat's buses in hexagons of about six kilometres, pooled by hour."""
    path = request.getfixturevalue("shared") / "data" / "surat_itms.parquet"
    return hv.read(
        path, **PLACED, bounds=(0, 65), cells=hv.Cells(6, "1h", "Asia/Kolkata", "pooled")
    )


def warsaw(request, _):
    """Return Warsaw's buses in hexagons of about fifteen kilometres, by hour."""
    path = request.getfixturevalue("shared") / "data" / "warsaw_buses.parquet"
    return hv.read(path, **PLACED, bounds=(0, 90), cells=hv.Cells(5, "1h", "Europe/Warsaw"))


def city(_, folder):
    """Return an invented city's buses in hexagons of six kilometres, pooled by parts of a day."""
    path = folder / "city.parquet"
    City(users=120, days=1, seed=1, interval="60s").write(path)
    assert pq.read_metadata(path).num_rows
    grid = hv.Cells(6, "12h", "Asia/Kolkata", "pooled")
    return hv.read(path, **FEED, bounds=(0, 65), cells=grid)


MADE = {"flights": flights, "surat": surat, "warsaw": warsaw, "city": city}


@pytest.fixture(scope="module", params=sorted(MADE))
def dataset(request, tmp_path_factory):
    """Return one of the data sets."""
    return MADE[request.param](request, tmp_path_factory.mktemp("records"))


def averages(dataset, total):
    """Return the average of each cell from whole sums of its pairs."""
    scale, occupancy = dataset.public.scale, dataset.occupancy
    sums = np.bincount(occupancy.cell, weights=total.astype(float))
    return float(scale.lower) + float(scale.quantum) * sums / occupancy.records_per_cell


def plain(dataset, plan, rng):
    """Draw noisy averages of a plan without an interval, for ever; with plan and target."""
    where = linear.lattice(plan, dataset.public.scale)
    whole, live = _constants(plan, where)["mean"], linear.live_cells(plan)
    if live.size:
        whole[live] = linear.statistic(dataset, plan, where)
    middle = linear.means(whole, plan, dataset.public.scale)
    truth = averages(dataset, dataset.sums.total)
    while True:
        yield middle + rng.laplace(0.0, 1.0, middle.size) * plan.parts["mean"].scale, plan, truth


def projected(dataset, plan, rng):
    """Draw noisy averages of a plan with an interval, found anew each time; plan and target."""
    facts, n, total = dataset.public, dataset.occupancy.n, dataset.sums.total
    interval = plan.rows.interval
    asked = ends.ballot(facts, interval.quantiles, interval.epsilon)
    costs = ends.costs(dataset, asked)
    while True:
        # Permute-and-flip is the noisy max with exponential noise.
        chosen = [int(np.argmax(rng.exponential(asked.scale, c.size) - c)) for c in costs]
        two = ends.interval(chosen, asked, facts.scale.steps, interval.stretch)
        shown = _found(plan, {ENDS: np.array(two)}, facts)
        numbers = weighted.statistic(dataset, interval.weight, two)
        middle = weighted.means(numbers, shown, facts.scale)
        target = averages(dataset, np.clip(total, two[0] * n, two[1] * n))
        yield middle + rng.laplace(0.0, 1.0, n_of(shown)) * shown.parts["mean"].scale, shown, target


def n_of(plan):
    """Return the number of cells."""
    return plan.occupancy.n_cells


@pytest.mark.parametrize(("intervals", "draws"), [("none", plain), ("global", projected)])
def test_bounds_and_intervals_hold_as_stated(dataset, intervals, draws):
    """Pooled over cells and 200 runs: bounds at least 95%, intervals between 93% and 99%."""
    plan = hv.plan(dataset, epsilon=1, intervals=intervals, advise=False)
    truth = averages(dataset, dataset.sums.total)
    rng = np.random.default_rng(20)
    bound, interval, raw, drawn = [], [], [], []
    for _, (noisy, shown, target) in zip(range(RUNS), draws(dataset, plan, rng), strict=False):
        clamped = np.clip(noisy, shown.lower, shown.upper)
        done = smoothed(shown, dataset.public, {"mean": noisy})["mean"]
        bound.append(np.abs(clamped - target) <= shown.parts["mean"].bound95 * (1 + 1e-12))
        interval.append((done.low <= truth) & (truth <= done.high))
        raw.append(np.abs(clamped - truth).mean())
        drawn.append(np.abs(done.estimate - truth).mean())
    assert np.mean(bound) >= 0.95
    assert 0.93 <= np.mean(interval) <= 0.99
    assert np.mean(drawn) <= 1.06 * np.mean(raw)

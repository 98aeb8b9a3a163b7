"""Bounds and intervals hold as often as they say: flights, real buses and a simulated city.

40 runs of each data set and kind of plan at epsilon 1; plans with more stages of the flights
alone. With HEXVEIL_ATTACK=1 100 runs, and such plans of each. `-rP` shows the rows of the page
docs/understand/estimates.md. All is as in a release, but for the noise: that and the private
choices are drawn by numpy from the laws that the noise library has (tests/noise), with the scales
that it was asked for. So a run costs milliseconds, and the same seed draws the same runs.
"""

import os
import sys

import numpy as np
import pytest

import hexveil as hv
from hexveil.mechanisms import noise
from hexveil.mechanisms.looks.bounds import WithinBounds
from hexveil.mechanisms.looks.cell_ranges import PerCellRange
from hexveil.planning.allocation import with_outputs
from hexveil.publishing.estimates.decoded_moments import groupings_of, smooth_release
from hexveil.publishing.estimates.posterior_estimates import adopt_intervals, estimate_view
from hexveil.simulation.city import City
from hexveil.simulation.flights import departures
from mechanisms.drawing import executed

LONG = bool(os.environ.get("HEXVEIL_ATTACK"))
RUNS = 100 if LONG else 40
SURE = 4.0
"""How many standard errors below a limit a true share at the limit is found in 1 of 7,000 tests.

By Student's t with 39 degrees of freedom. Under one range of the flights the share of cells whose
interval holds has a standard deviation of 4.9 points from run to run, so that a true share of 89%
is found out with the same certainty; 500 other runs had 92.4%, with a standard error of 0.2.
"""
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
    grid = hv.Cells(6, "12h", "Asia/Kolkata", "pooled")
    return hv.read(path, **FEED, bounds=(0, 65), cells=grid)


MADE = {"flights": flights, "surat": surat, "warsaw": warsaw, "city": city}
STEPS = MADE if LONG else ("flights",)
CASES = [
    *((name, intervals) for name in MADE for intervals in ("bounds", "private")),
    *((name, intervals) for name in STEPS for intervals in ("auto",)),
]


@pytest.fixture(scope="module")
def dataset(request, tmp_path_factory):
    """Return one of the data sets."""
    return MADE[request.param](request, tmp_path_factory.mktemp("records"))


class Drawn:
    """Noise and choices by numpy."""

    def __init__(self, patch, seed):
        """Stand in for the noise library while a test lasts."""
        self.rng = np.random.default_rng(seed)
        patch.setattr(noise, "add_laplace", self.add_laplace)
        patch.setattr(noise, "noisy_max", self.noisy_max)

    def add_laplace(self, values, scales):
        """Return whole numbers with noise; scales are large, so rounding is nothing beside it."""
        return values + np.rint(self.rng.laplace(0.0, scales)).astype(np.int64)

    def noisy_max(self, scores, scale):
        """Return a place: permute-and-flip is the noisy max with exponential noise."""
        return int(np.argmax(self.rng.exponential(scale, scores.size) + scores))


def averages(dataset, total):
    """Return the average of each cell from sums of its pairs."""
    scale, occupancy = dataset.public.lattice, dataset.occupancy
    sums = np.bincount(occupancy.cell, weights=total)
    return float(scale.lower) + float(scale.quantum) * sums / occupancy.records_per_cell


def projected(dataset, shown):
    """Return what the numbers of a plan are about: averages of what was projected."""
    n, total, clipping = dataset.occupancy.n, dataset.sums.total, shown.allocation.clipping
    if isinstance(clipping, WithinBounds):
        return averages(dataset, total)
    if isinstance(clipping, PerCellRange):
        ranges, cell = clipping.released(), dataset.occupancy.cell
        return averages(dataset, np.clip(total, ranges.lower[cell] * n, ranges.upper[cell] * n))
    low, high = clipping.ends
    return averages(dataset, np.clip(total, low * n, high * n))


def held(dataset, intervals, draws, epsilon=1):
    """Return how often bound and interval held in each run, and its errors, raw and smoothed."""
    plan = hv.plan(dataset, epsilon=epsilon, clipping_range=intervals, advise=False)
    facts, truth = dataset.public, averages(dataset, dataset.sums.total)
    found = []
    for _ in range(draws):
        allocation, outputs = executed(dataset, plan)
        shown = with_outputs(plan.single, allocation, outputs)
        values = {one.statistic: one.estimate[0] for one in allocation.decode(outputs)}
        clamped = np.clip(values["mean"], shown.lower, shown.upper)
        done = smooth_release(shown, facts, values)["mean"]
        effects = groupings_of(facts.cells)
        view = allocation.view(outputs)
        if view is not None:
            posterior = estimate_view(view, effects)
            done = adopt_intervals(done, posterior, borrowed=shown.allocation.clipping.borrows)
        off = np.abs(clamped - projected(dataset, shown))
        bound = off <= shown.error_models["mean"].bound95 * (1 + 1e-12)
        inside = (done.low <= truth) & (truth <= done.high)
        errors = np.abs(clamped - truth), np.abs(done.estimate - truth)
        found.append([bound.mean(), inside.mean(), *(one.mean() for one in errors)])
    return np.transpose(found)


@pytest.mark.slow
@pytest.mark.parametrize(("dataset", "intervals"), CASES, indirect=["dataset"])
def test_bounds_and_intervals_hold_as_stated(dataset, intervals, request, monkeypatch):
    """Bounds hold in at least 95% of cells, intervals in 93% to 99%, pooled over cells and runs.

    The lower limit of intervals leaves room for chance; of the flights under one range and by
    default the true share is a little below 93% (see `SURE`). Warsaw's cells of few buses are all
    faster than the others, which the prior of the posterior does not expect: 86%.
    """
    Drawn(monkeypatch, 20)
    bound, inside, raw, drawn = held(dataset, intervals, RUNS)
    name = request.node.callspec.params["dataset"]
    figures = f"{raw.mean():.2f} | {drawn.mean():.2f} | {bound.mean():.1%} | {inside.mean():.1%}"
    sys.stdout.write(f"| {name} | {intervals} | {figures} |\n")
    is_correlated = name == "warsaw" and intervals != "bounds"
    room = SURE * inside.std(ddof=1) / np.sqrt(RUNS)
    assert bound.mean() >= 0.95
    assert (0.86 if is_correlated else 0.93) - room <= inside.mean() <= 0.99
    assert drawn.mean() <= 1.06 * raw.mean()

"""Bounds and intervals hold as often as they say: flights, real buses and a simulated city.

200 runs of each data set and kind of plan at epsilon 1; a two-stage plan of the flights alone, and
with HEXVEIL_ATTACK=1 of each. All is as in a release, but for the noise: that and the private
choices are drawn by numpy from the laws that the noise library has (tests/noise), with the scales
that it was asked for. So a run costs milliseconds, and the same seed draws the same runs.
"""

import os

import numpy as np
import pytest

import hexveil as hv
from hexveil.mechanisms import map_quantiles, noise
from hexveil.planning.allocation import TwoStageRange, WithinBounds
from hexveil.planning.release_allocation import released_quantiles, with_outputs
from hexveil.publishing.estimates.posterior_estimates import adopt_intervals, estimate_means
from hexveil.publishing.estimates.smoothed_estimates import smooth_release
from hexveil.simulation.city import City
from hexveil.simulation.flights import departures
from publishing.drawing import executed
from publishing.two_stage_plans import user_means

RUNS = 200
LONG = bool(os.environ.get("HEXVEIL_ATTACK"))
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
    *((name, "two-stage") for name in STEPS),
]


@pytest.fixture(scope="module")
def dataset(request, tmp_path_factory):
    """Return one of the data sets."""
    return MADE[request.param](request, tmp_path_factory.mktemp("records"))


class Drawn:
    """Noise and choices by numpy; what does not change from run to run is computed once."""

    def __init__(self, patch, seed):
        """Stand in for the noise library while a test lasts."""
        self.rng, known = np.random.default_rng(seed), {}
        patch.setattr(noise, "add_laplace", self.add_laplace)
        patch.setattr(noise, "noisy_max", self.noisy_max)
        real = map_quantiles.RangeQuantiles.measure

        def measure(stage, sums, earlier):
            place = stage.targets, stage.reading.occupancy.fingerprint
            known[place] = known.get(place) or real(stage, sums, earlier)
            return known[place]

        patch.setattr(map_quantiles.RangeQuantiles, "measure", measure)

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
    interval = clipping.range
    found = clipping.stages.outputs if isinstance(clipping, TwoStageRange) else None
    if found is None or found.strategy == "single_stage":
        low, high = interval.ends
        return averages(dataset, np.clip(total, low * n, high * n))
    if found.strategy == "user_residuals":
        own, records = user_means(dataset)
        centre = (np.clip(own / records, *found.user_mean_range))[dataset.occupancy.user]
    else:
        centre = found.centre[dataset.occupancy.cell]
    return averages(
        dataset, n * (centre + np.clip(total / n - centre, -found.half_width, found.half_width))
    )


def held(dataset, intervals, draws):
    """Return how often bound and interval held, and the average errors, raw and smoothed."""
    plan = hv.plan(dataset, epsilon=1, clipping_range=intervals, advise=False)
    facts, truth = dataset.public, averages(dataset, dataset.sums.total)
    found = []
    for _ in range(draws):
        allocation, outputs = executed(dataset, plan)
        shown = with_outputs(plan, allocation, outputs)
        values = {one.statistic: one.estimate[0] for one in allocation.decode(outputs)}
        clamped = np.clip(values["mean"], shown.lower, shown.upper)
        done = smooth_release(shown, facts, values)["mean"]
        posterior = estimate_means(shown, released_quantiles(allocation, outputs), values)
        if posterior is not None:
            done = adopt_intervals(done, posterior, shown.allocation.clipping)
        off = np.abs(clamped - projected(dataset, shown))
        bound = off <= shown.error_models["mean"].bound95 * (1 + 1e-12)
        inside = (done.low <= truth) & (truth <= done.high)
        errors = np.abs(clamped - truth), np.abs(done.estimate - truth)
        found.append([bound.mean(), inside.mean(), *(one.mean() for one in errors)])
    return np.mean(found, axis=0)


@pytest.mark.slow
@pytest.mark.parametrize(("dataset", "intervals"), CASES, indirect=["dataset"])
def test_bounds_and_intervals_hold_as_stated(dataset, intervals, request, monkeypatch):
    """Pooled over cells and 200 runs: bounds at least 95%, intervals between 93% and 99%.

    Under one range intervals hold in 91% of cells at least (flights: 92%). Warsaw's cells of few
    buses are all faster than the others, which the prior of the posterior does not expect: 86%.
    """
    Drawn(monkeypatch, 20)
    bound, inside, raw, drawn = held(dataset, intervals, RUNS)
    is_correlated = request.node.callspec.params["dataset"] == "warsaw" and intervals != "bounds"
    assert bound >= 0.95
    least = 0.93 if intervals == "bounds" else 0.91
    assert (0.86 if is_correlated else least) <= inside <= 0.99
    assert drawn <= 1.06 * raw

"""Releases of distributions, end to end: booked once, replayed, refused, written, verified."""

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from hexveil import InputError
from publishing.releases import restated, statements_of

ASKED = ("mean", "sd", "p15", "p50", "p85", "share<20", "share<40", "share>=40", "histogram")


@pytest.fixture(scope="module")
def dataset():
    """Return 300 vehicles in 6 wards with shapes of their own, read with bins."""
    rng = np.random.default_rng(11)
    bus = rng.integers(0, 300, 9000)
    ward = rng.integers(0, 6, bus.size)
    speed = rng.gamma(4.0, 4.0 + ward) + rng.normal(0, 2, 300)[bus]
    table = pa.table({"bus": bus.astype(str), "ward": ward.astype(str), "speed": speed})
    return hv.read(
        table,
        user="bus",
        value="speed",
        bounds=(0, 80),
        value_unit="km/h",
        cells=hv.Labels("ward"),
        statistics=ASKED,
        # A further assumption, which `verify` counts.
        select=hv.Select(drop_values=(-1,)),
    )


@pytest.fixture(scope="module")
def plan(dataset):
    """Return a plan of everything at once."""
    return hv.plan(dataset, statistics=ASKED, epsilon=4)


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """Return a ledger."""
    folder = tmp_path_factory.mktemp("ledger")
    return hv.Ledger(folder / "ledger.sqlite", dataset="buses", budget="10")


@pytest.fixture(scope="module")
def made(dataset, plan, book):
    """Return one release of everything."""
    return hv.release(dataset, plan, ledger=book)


def nearly_exact(dataset, **options):
    """Return a release with next to no noise."""
    plan = hv.plan(dataset, epsilon=400, **options)
    return hv.release(dataset, plan, ledger=hv.Ledger("memory://", dataset="b", budget=400))


def bin_counts(dataset):
    """Return the records of each of 6 cells in each fine bin."""
    bins, pairs = dataset.sums.bins, dataset.occupancy.local()
    counts = np.zeros((6, dataset.public.bins.n_bins))
    np.add.at(counts, (pairs.cell[bins.pair], bins.bin), bins.count)
    return counts


def shares_up_to(dataset, edge):
    """Return the share of each cell's records up to an edge."""
    counts = bin_counts(dataset)
    return counts[:, dataset.public.bins.edges <= edge].sum(axis=1) / counts.sum(axis=1)


@pytest.mark.parametrize("estimator", ["ranks", "bins"])
def test_large_epsilon_finds_the_truth(dataset, estimator):
    """With next to no noise, estimates come near what a loop over the records says."""
    found = nearly_exact(dataset, statistics=("p50", "share<20"), estimator=estimator)
    counts, share = bin_counts(dataset), shares_up_to(dataset, 19_999)
    tolerance = {"ranks": 0.05, "bins": 0.03}[estimator]
    assert np.abs(found["share_below_20_estimate"] - share).max() < tolerance
    below = np.cumsum(counts, axis=1) / counts.sum(axis=1, keepdims=True)
    places = np.searchsorted(dataset.public.bins.ends, found["p50_estimate"] * 1000)
    ranks = [row[place] for row, place in zip(below, places, strict=True)]
    assert np.abs(np.array(ranks) - 0.5).max() < 0.08


def test_derived_numbers_know_how_means_were_clipped(made):
    """Means beside quantiles under a private range are not taken for proven ones."""
    moments = statements_of(made)["moments"]
    steps = [step["step"] for step in moments["plan"]["privacy_steps"]]
    step = {"step": "clipping_range"}
    hidden = moments | {"plan": moments["plan"] | {"privacy_steps": [step]}}
    plain = moments | {"plan": moments["plan"] | {"privacy_steps": [{"step": "cells"}]}}
    bases = [
        hv.roll_up(restated(made, moments=own), resolution="all").statement["basis"]
        for own in (moments, hidden, plain)
    ]
    assert bases == ["model" if "clipping_range" in steps else "proven", "model", "proven"]
    changes = hv.compare_releases(made, restated(made, request="0" * 64), statistic="p50")
    assert changes.statement["basis"] == "model"
    assert np.array_equal(changes.table["before"], made["p50"])


def test_labels_that_clash_with_columns_are_refused(book):
    """A label column may not have the name of a released column."""
    table = pa.table(
        {
            "bus": [str(i % 20) for i in range(200)],
            "p50_low": ["x"] * 200,
            "speed": [float(i % 50) for i in range(200)],
        }
    )
    options = {"user": "bus", "value": "speed", "bounds": (0, 80), "statistics": "p50"}
    found = hv.read(table, **options, cells=hv.Labels("p50_low"))
    plan = hv.plan(found, statistics="p50", epsilon=1, advise=False)
    with pytest.raises(InputError, match="has the name of a column of this release"):
        hv.release(found, plan, ledger=book, accept_noise=True)


def test_a_cell_unlike_the_map_is_missed():
    """A cell with two peaks, on a map of single ones, is described by a tilt: its p15 is missed."""
    rng = np.random.default_rng(5)
    ward = np.repeat(np.arange(8), 400)
    speed = rng.normal(30.0, 5.0, ward.size)
    is_odd = ward == 7
    speed[is_odd] = rng.normal(30.0, 2.0, is_odd.sum()) + rng.choice([-15, 15], is_odd.sum())
    table = pa.table(
        {"bus": (np.arange(ward.size) % 200).astype(str), "ward": ward.astype(str), "speed": speed}
    )
    options = {"user": "bus", "value": "speed", "bounds": (0, 80), "cells": hv.Labels("ward")}
    asked = ("p15", "p50", "p85")
    found = hv.read(table, **options, statistics=asked)
    estimate = nearly_exact(found, statistics=asked, estimator="ranks")["p15_estimate"]
    truth = np.quantile(speed[is_odd], 0.15)
    assert estimate[7] > truth + 4.0
    assert np.abs(estimate[:7] - np.quantile(speed[~is_odd], 0.15)).max() < 4.0

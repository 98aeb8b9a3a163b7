"""Releases of distributions, end to end: booked once, replayed, refused, written, verified."""

import math
import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from hexveil.base.errors import BudgetError, InputError
from hexveil.mechanisms.contract import MemoryJournal, execute
from hexveil.mechanisms.distribution.binned_stage import BinnedSums
from hexveil.mechanisms.sensitivity_report import Meter
from hexveil.mechanisms.simulated_noise import SimulatedNoise
from hexveil.model.statistic_terms import column_names
from hexveil.planning.distribution_measures import (
    BinPlan,
    IndicatorPlan,
    RankPlan,
)
from hexveil.publishing.derived.release_source import numbers_to_compare, open_sources
from hexveil.publishing.dossier import dossier
from hexveil.publishing.kinds import distribution_table
from hexveil.publishing.kinds.distribution_table import decode_distribution
from publishing.releases import forge_manifest, restated, statements_of

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


def simulated(dataset, plan, seed):
    """Return the outputs of a plan under simulated noise, metered."""
    allocation = plan.stages()
    sums = BinnedSums(dataset.sums.total, dataset.sums.total_sq, dataset.sums.bins)
    source = SimulatedNoise(np.random.default_rng(seed), 1)
    return execute(allocation, sums, source, MemoryJournal(), Meter(allocation.losses()))


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


def test_a_declared_baseline_error_judges_medians_alone(dataset, tmp_path):
    """Errors stay as they are; what one median misses is as declared, also in a saved plan."""
    options = {"statistics": ("p50", "share<20"), "epsilon": 4, "advise": False}
    usual, declared = (hv.plan(dataset, **options, baseline_error=one) for one in (None, "0.5"))
    saved = hv.Plan.load(declared.save(tmp_path / "plan"), dataset)
    for plan in (declared, saved):
        (median, share), (usual_median, usual_share) = plan.statistic_errors, usual.statistic_errors
        assert median.error == pytest.approx(usual_median.error)
        assert (median.baseline_error, usual_median.beats_constant) == (0.5, True)
        assert share == usual_share
    assert "medians are predicted to be off by" in declared.refusal
    assert usual.refusal is None
    with pytest.raises(InputError, match="baseline_error must be at most"):
        hv.plan(dataset, **options, baseline_error=10_000)


@pytest.mark.slow
@pytest.mark.parametrize("asked", [("p50", "share<20"), ("share<20",)])
def test_cells_take_after_those_that_share_a_label(asked, monkeypatch):
    """Where lines differ and hours hardly do, mean ranks and shares come closer by their labels."""
    rng = np.random.default_rng(4)
    bus, line, hour = rng.integers(0, 400, 9000), rng.integers(0, 4, 9000), rng.integers(0, 6, 9000)
    speed = np.clip(5 + 9 * line + rng.normal(0, 9, line.size), 0, 80)
    names = {"bus": bus, "line": line, "hour": hour}
    table = pa.table({name: one.astype(str) for name, one in names.items()} | {"speed": speed})
    cells = hv.Labels("line", "hour")
    dataset = hv.read(
        table, user="bus", value="speed", bounds=(0, 80), cells=cells, statistics=asked
    )
    road = "ranks" if asked[1:] else "auto"
    plan = hv.plan(dataset, statistics=asked, epsilon=2, estimator=road)
    column = plan.terms[-1].column
    lines = np.array(dataset.public.cells.labels["line"], dtype=int)
    true = np.array([(speed[line == one] < 20).mean() for one in range(4)])[lines]

    def error(outputs):
        return np.abs(decode_distribution(plan, outputs)[column].estimate - true).mean()

    outputs = [simulated(dataset, plan, seed) for seed in range(3)]
    shared = sum(map(error, outputs))
    monkeypatch.setattr(distribution_table, "groupings_of", lambda _: ())
    assert shared < 0.9 * sum(map(error, outputs))


def test_statistics_of_a_cell_agree(made, dataset):
    """Quantiles rise, shares lie within 0 and 1 and agree, histograms add up and hold the mean."""
    numbers = {
        name: made.table[name].to_numpy()
        for name in made.table.column_names[5:]
        if not name.endswith("quality")
    }
    low, middle, high = (numbers[f"{name}_estimate"] for name in ("p15", "p50", "p85"))
    assert ((low >= 0) & (low <= middle) & (middle <= high) & (high <= 80)).all()
    below = [numbers[f"share_below_{t}_estimate"] for t in (20, 40)]
    assert ((below[0] >= 0) & (below[0] <= below[1]) & (below[1] <= 1)).all()
    assert np.allclose(below[1] + numbers["share_at_least_40_estimate"], 1)
    bins = np.stack([numbers[f"histogram_{i:02d}_estimate"] for i in range(1, 21)])
    assert np.allclose(bins.sum(axis=0), 1)
    assert np.allclose(bins[:5].sum(axis=0), below[0], atol=1e-3)
    ends = np.arange(21)[:, None] * 4.0
    reach = (bins * ends[:-1]).sum(axis=0), (bins * ends[1:]).sum(axis=0)
    mean = numbers.get("mean_estimate", numbers["mean_raw"])
    assert ((reach[0] - 1e-6 <= mean) & (mean <= reach[1] + 1e-6)).all()
    for prefix in ("p15", "p50", "p85", "share_below_20", "histogram_07"):
        ends = [numbers[f"{prefix}_{key}"] for key in ("low", "estimate", "high")]
        assert (np.diff(ends, axis=0) >= 0).all()
        assert (numbers[f"{prefix}_error"] > 0).all()


@pytest.mark.parametrize("estimator", ["ranks", "bins"])
def test_large_epsilon_finds_the_truth(dataset, estimator):
    """With next to no noise, estimates come near what a loop over the records says."""
    plan = hv.plan(dataset, statistics=("p50", "share<20"), epsilon=400, estimator=estimator)
    assert isinstance(plan.component, RankPlan if estimator == "ranks" else BinPlan)
    found = decode_distribution(plan, simulated(dataset, plan, 0))
    counts, share = bin_counts(dataset), shares_up_to(dataset, 19_999)
    tolerance = {"ranks": 0.05, "bins": 0.03}[estimator]
    assert np.abs(found["share_below_20"].estimate - share).max() < tolerance
    below = np.cumsum(counts, axis=1) / counts.sum(axis=1, keepdims=True)
    places = np.searchsorted(dataset.public.bins.ends, found["p50"].estimate * 1000)
    ranks = [row[place] for row, place in zip(below, places, strict=True)]
    assert np.abs(np.array(ranks) - 0.5).max() < 0.08


def test_the_share_beyond_one_threshold_is_the_mean_of_an_indicator(dataset):
    """A single share needs no shape, and its intervals hold the truth."""
    plan = hv.plan(dataset, statistics="share>=40", epsilon=2)
    assert isinstance(plan.component, IndicatorPlan)
    share = decode_distribution(plan, simulated(dataset, plan, 1))["share_at_least_40"]
    assert ((share.estimate >= 0) & (share.estimate <= 1)).all()
    assert ((share.low <= share.estimate) & (share.estimate <= share.high)).all()
    assert list(plan.expected_error) == ["share"]


@pytest.fixture(scope="module")
def folder(made, tmp_path_factory):
    """Return the release folder; tests change copies."""
    return made.write(tmp_path_factory.mktemp("out") / "map")


def test_the_dossier_names_all_components(folder):
    """A privacy officer reads one loss for everything, and what each part of it costs."""
    text = " ".join(dossier(folder).to_text().split())
    assert "average, standard deviation, 15th percentile" in text.lower()
    assert "It pays for all statistics together" in text
    assert "means and variances: epsilon" in text


def test_derived_numbers_know_how_means_were_clipped(made):
    """Means beside quantiles under a private range are not taken for proven ones."""
    steps = statements_of(made)["moments"]["plan"]["privacy_steps"]
    source = open_sources(made)[""]
    assert bool(source.strategy) == any(step["step"] == "clipping_range" for step in steps)
    hidden = {"moments": {"plan": {"privacy_steps": [{"step": "clipping_range"}]}}}
    ranged = restated(made, **hidden)
    assert open_sources(ranged)[""].strategy == "range"
    changes = numbers_to_compare(source, "p50")
    assert changes.basis == "model"
    assert np.array_equal(changes.number, made["p50"])


def _without_estimates(manifest):
    manifest["plan"]["statistics"].pop()


def _cheaper(manifest):
    manifest["losses"]["mean"] *= 0.99


def _moved(manifest):
    manifest["moments"]["losses"]["mean"] *= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("change", [_without_estimates, _cheaper, _moved])
def test_statements_that_contradict_the_noise_are_found(folder, tmp_path, change):
    """Somebody who changes a statement, and every checksum after it, is found out."""
    copied = tmp_path / "map"
    shutil.copytree(folder, copied)
    forge_manifest(copied, change)
    with pytest.raises(InputError, match="not as it was written"):
        hv.verify(copied)


@pytest.mark.slow
@pytest.mark.parametrize("column", ["p50_estimate", "share_below_20_high", "histogram_03_estimate"])
def test_numbers_that_contradict_each_other_are_found(made, tmp_path, column):
    """A quantile, an interval or a bin that was changed, with all checksums, is found out."""
    index = made.table.column_names.index(column)
    numbers = made.table[column].to_numpy() * 1.2 - 0.5
    changed = made.table.set_column(index, made.table.schema.field(index), pa.array(numbers))
    folder = replace(made, table=changed).write(tmp_path / "map")
    with pytest.raises(InputError, match="not as it was written"):
        hv.verify(folder)


def test_mistakes_cost_nothing(dataset, plan, book, tmp_path):
    """Wrong arguments, other records and budgets that do not suffice are refused and not booked."""
    small = hv.Ledger(tmp_path / "small.sqlite", dataset="buses", budget="1")
    with pytest.raises(BudgetError):
        hv.release(dataset, plan, ledger=small)
    with pytest.raises(InputError, match="needs a ledger"):
        hv.release(dataset, plan)
    with pytest.raises(InputError, match="smoothed goes with means"):
        hv.release(dataset, plan, ledger=book, estimates=("raw", "smoothed"))
    faint = hv.plan(dataset, statistics="p50", epsilon="0.001", advise=False)
    with pytest.raises(InputError, match="nothing was spent"):
        hv.release(dataset, faint, ledger=small)
    constant = hv.plan(dataset, statistics="share<20", epsilon="0.001", advise=False)
    assert constant.epsilon == 0
    with pytest.raises(InputError, match="would publish the same constant"):
        hv.release(dataset, constant, ledger=small, accept_noise=True)
    assert small.spend().lifetime == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"statistics": "mean", "estimator": "bins"}, "estimator goes with quantiles"),
        ({"clipping_range": "bounds"}, "clipping_range has no meaning with quantiles"),
        ({"epsilon": None, "target_error": {"p60": 1}}, "target_error must name p50, got p60"),
        ({"epsilon": None}, "epsilon is needed: .* or target_error"),
        ({"statistics": "share<33"}, "not counted by the bins"),
        ({"estimator": "tree"}, "estimator must be one of"),
        ({"weights": {"mean": 1}}, "weights must be a mapping"),
        ({"weights": {"moments": 1}}, "ask for both"),
        ({"epsilon": 0}, "epsilon must be positive"),
        ({"edition": " "}, "edition must be a name"),
    ],
)
def test_plans_that_cannot_be_made_say_why(dataset, options, message):
    """Each bad argument is named."""
    with pytest.raises(InputError, match=message):
        hv.plan(dataset, **{"statistics": "p50", "epsilon": 1} | options)


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


def test_column_names_are_unique(plan):
    """No two statistics share a column."""
    names = [name for term in plan.terms for name in column_names(term)]
    assert len(set(names)) == len(names) == 6 + 20
    assert math.isfinite(plan.expected_error["share"])


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
    plan = hv.plan(found, statistics=asked, epsilon=400, estimator="ranks")
    estimate = decode_distribution(plan, simulated(found, plan, 3))["p15"]
    truth = np.quantile(speed[is_odd], 0.15)
    assert estimate.estimate[7] > truth + 4.0
    assert np.abs(estimate.estimate[:7] - np.quantile(speed[~is_odd], 0.15)).max() < 4.0

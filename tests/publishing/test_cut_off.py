"""Cells that a private range cut off: graded so, with an interval that reaches to the bound."""

import contextlib
import functools
import math
from dataclasses import replace
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from hexveil.accounting.error_model import LN20
from hexveil.accounting.noise_law import LAPLACE
from hexveil.mechanisms import noise
from hexveil.mechanisms.stage_data import CutOff
from hexveil.model.public_metadata import ValueLattice
from hexveil.publishing.dossier import dossier
from hexveil.publishing.estimates.accuracy import accuracy_statement, grade_against_map
from hexveil.publishing.estimates.posterior_estimates import PosteriorEstimates
from hexveil.publishing.estimates.table import build_table, cells_cut_off
from hexveil.publishing.kinds.moment_checks import check_accuracy
from hexveil.publishing.verification import verify
from publishing.releases import statements_of
from publishing.setting import dataset_of, hexagons

CELLS, USERS, FAST = 16, 240, 54.3
RELEASES = range(9, 17)
"""Seeds of eight releases. One in forty misses a hexagon that lies wholly beyond an end."""
SCALE = ValueLattice.of((0, 65), "0.1")


@functools.cache
def highway(seed=5):
    """Return buses at about 25 km/h in most hexagons, and at 54.3 in the first."""
    rng = np.random.default_rng(seed)
    counts = np.zeros((USERS, CELLS), dtype=np.int64)
    for user in range(USERS):
        counts[user, rng.choice(np.arange(1, CELLS), 5, replace=False)] = 4
    counts[rng.choice(USERS, 60, replace=False), 0] = 4
    user, cell = np.nonzero(counts)
    speed = 25.0 + np.linspace(-3, 3, CELLS)[cell] + rng.normal(0, 2.5, cell.size)
    speed = np.where(cell == 0, FAST, speed)
    totals = np.zeros((USERS, CELLS), dtype=np.int64)
    totals[user, cell] = np.rint(40 * speed)
    dataset = dataset_of(
        counts, 0, scale=SCALE, cells=hexagons(CELLS), value="speed", value_unit="km/h"
    )
    occupancy = dataset.occupancy
    sums = replace(dataset.sums, total=totals[occupancy.user, occupancy.cell])
    return replace(dataset, sums=sums)


@functools.cache
def planned(kind):
    """Return the highway's plan of a kind of interval; plans are immutable, so one serves all."""
    return hv.plan(highway(), epsilon=4, clipping_range=kind, advise=False)


@contextlib.contextmanager
def drawing(seed):
    """Draw the noise of a release with a seed, by the laws of its doors."""
    rng = np.random.default_rng(seed)

    def add_laplace(values, scales):
        return values + np.rint(rng.laplace(0, scales)).astype(np.int64)

    def noisy_max(scores, scale):
        return int((scores + rng.exponential(scale, scores.size)).argmax())

    with (
        patch.object(noise, "add_laplace", add_laplace),
        patch.object(noise, "noisy_max", noisy_max),
    ):
        yield


def published(dataset, plan, tmp_path, seed, **options):
    """Return a release with seeded noise."""
    book = hv.Ledger(tmp_path / f"{seed}.sqlite", dataset="buses", budget=100)
    with drawing(seed):
        return hv.release(dataset, plan, ledger=book, **options)


@pytest.mark.slow
@pytest.mark.parametrize("estimates", ["raw", ("raw", "smoothed")], ids=["raw", "smoothed"])
def test_a_hexagon_far_from_all_others_is_never_good(tmp_path, estimates):
    """In eight of eight releases it is graded as cut off, and its interval holds the truth.

    Its users' averages all lie beyond the range that was found for the whole map.
    """
    dataset = highway()
    plan = planned("private")
    for seed in RELEASES:
        made = published(dataset, plan, tmp_path, seed, estimates=estimates)
        fast, *others = made.table.to_pylist()
        described = made.table.field("mean_high").metadata[b"description"].decode()
        assert "cut off" in described
        assert fast["mean_quality"] in ("cut off", "noise")
        assert fast["mean_low"] <= FAST <= fast["mean_high"] == 65.0
        usable = sum(row["mean_quality"] in ("good", "caution") for row in others)
        assert usable >= CELLS // 2


@pytest.mark.slow
def test_every_text_says_how_many(tmp_path):
    """Manifest, page, README.txt and dossier have the number of cells, and verify accepts them."""
    dataset, plan = highway(), planned("private")
    made = published(dataset, plan, tmp_path, 0)
    folder = made.write(tmp_path / "map")
    many = made.table["mean_quality"].to_pylist().count("cut off")
    assert many == 1
    assert statements_of(made)["cut_off"] == [{"statistic": "mean", "cells": many}]
    said = f"Cut off (average): {many} of {CELLS} cells."
    assert said in " ".join((folder / "README.txt").read_text("utf-8").split())
    assert said in dossier(folder).to_markdown()
    page = (folder / "report.html").read_text("utf-8")
    assert f"; of {many} number one end is unknown." in page
    assert f"<b>One end unknown</b> ({many} of" in page
    assert 'class="swatch steps cut-off"' in page
    assert verify.find_problems(folder) == ()


def interval_plan(ends, steps=100):
    """Return a plan whose release found these ends, and each cell's sum of weights."""
    counts = np.array([[2, 1], [1, 0], [1, 3], [0, 1]])
    dataset = dataset_of(counts, 0, scale=ValueLattice.of((0, steps), 1))
    plan = hv.plan(dataset, epsilon=40, clipping_range="private", advise=False)
    interval = plan.allocation.clipping.with_ends(ends, steps)
    found = plan.changed(allocation=replace(plan.allocation, clipping=interval))
    return found, interval.weight.totals


@pytest.mark.parametrize("away", [-1, 1])
def test_the_margin_is_the_noise_of_the_bound(away):
    """A number is cut off up to the noise of s_bound95 from an end: 39 of 40 that lie there."""
    assert math.exp(-LN20) / 2 == pytest.approx(1 / 40)
    plan, total = interval_plan((20, 60))
    noise = LN20 * plan.mean_noise * 40
    assert plan.error_models["mean"].bound95 - plan.error_models["mean"].bias == pytest.approx(
        noise
    )
    assert noise.max() < 15
    top = np.rint((60 - noise) * total - 4 * away).astype(np.int64)
    bottom = np.rint((20 + noise) * total + 4 * away).astype(np.int64)
    above, below = (
        plan.allocation.clipping.cut_off(plan, {"mean": one})["mean"] for one in (top, bottom)
    )
    cut = away < 0
    assert above.above.tolist() == below.below.tolist() == [cut, cut]
    assert not above.below.any()
    assert not below.above.any()


def test_an_end_at_a_bound_cuts_nothing_off():
    """No value lies beyond the bounds of the records."""
    for ends, below, above in (((0, 60), False, True), ((20, 100), True, False)):
        plan, total = interval_plan(ends)
        low = plan.allocation.clipping.cut_off(plan, {"mean": ends[0] * total})["mean"]
        high = plan.allocation.clipping.cut_off(plan, {"mean": ends[1] * total})["mean"]
        assert low.below.all() == below
        assert high.above.all() == above


@pytest.mark.slow
def test_a_variance_is_cut_off_where_its_mean_or_its_squares_are():
    """A mean that is cut off hides either way; squares that are cut off make it too small."""
    counts = np.array([[2, 1], [1, 2], [2, 3], [3, 1]])
    squares = np.full(8, 10_000)
    dataset = dataset_of(counts, 100, squares, scale=ValueLattice.of((0, 100), 1))
    plan = hv.plan(
        dataset, epsilon=400, clipping_range="private", statistics=("mean", "variance", "sd"),
        advise=False,
    )  # fmt: skip
    interval = replace(plan.allocation.clipping.with_ends((40, 60), 100), radius=Fraction(2))
    plan = plan.changed(allocation=replace(plan.allocation, clipping=interval))
    total = interval.weight.totals
    noisy = {
        "mean": np.array([60, 50]) * total,
        "variance": np.array([2**18, 2**20]) * total,
    }
    made = plan.allocation.clipping.cut_off(plan, noisy)
    assert made["mean"].above.tolist() == [True, False]
    assert made["variance"].below.tolist() == [True, False]
    assert made["variance"].above.tolist() == [True, True]
    table = build_table(
        plan, dataset.public, {"mean": np.array([60.0, 50.0]), "variance": np.array([0.0, 400.0])},
        cut_off=made,
    )  # fmt: skip
    rows = table.to_pydict()
    assert rows["variance_quality"] == rows["sd_quality"] == ["cut off", "cut off"]
    assert rows["variance_low"][0] == rows["sd_low"][0] == 0.0
    assert rows["variance_high"] == [2500.0, 2500.0]
    assert rows["sd_high"] == [50.0, 50.0]
    assert rows["sd_low"][1] > 0
    assert cells_cut_off(table, plan.statistics) == {"mean": 1, "variance": 2, "sd": 2}


def test_noise_stays_what_a_cell_is_graded():
    """A cell whose bound says next to nothing is noise; its interval still reaches to the bound."""
    plan, _ = interval_plan((20, 60))
    loud = plan.changed(
        allocation=replace(
            plan.allocation, noise_scale_records=plan.allocation.noise_scale_records * 1e3
        ),
    )
    both = np.array([True, True])
    table = build_table(
        loud, plan.facts, {"mean": np.array([59.0, 60.0])}, cut_off={"mean": CutOff(~both, both)}
    ).to_pydict()
    assert table["mean_quality"] == ["noise", "noise"]
    assert table["mean_high"] == [100.0, 100.0]


def test_noise_with_a_widened_interval_is_no_forgery():
    """A cell graded before its interval reached to the bound passes; a better grade does not."""
    plan, _ = interval_plan((20, 60))
    factor = 48.0 / (LN20 * float(plan.error_models["mean"].scale[0]))
    noise_scale = plan.allocation.noise_scale_records * factor
    loud = plan.changed(allocation=replace(plan.allocation, noise_scale_records=noise_scale))
    cut = CutOff(np.array([False, False]), np.array([True, False]))
    # 48 is above the 1.75 deviations that a caution may have; half of [40, 100] is not.
    posterior = PosteriorEstimates(
        estimate=np.array([50.0, 50.0]),
        low=np.array([40.0, 40.0]),
        high=np.array([60.0, 60.0]),
        expected_error=np.array([5.0, 5.0]),
        deviation=26.0,
        cut_off=cut,
        surplus=np.zeros(2),
        missed=np.zeros(2),
        tight=np.zeros(2, dtype=bool),
    )
    noisy = {"mean": np.array([60.0, 50.0])}
    table = build_table(loud, plan.facts, noisy, cut_off={"mean": cut}, posterior=posterior)
    assert table["mean_quality"].to_pylist() == ["noise", "good"]
    low, high = (table[f"mean_{end}"].to_numpy() for end in ("low", "high"))
    assert grade_against_map((low, high), 26.0, np.ones(2, dtype=bool)) == ["caution", "good"]
    manifest = {
        "accuracy": accuracy_statement(loud, table, posterior),
        "plan": {"statistics": ["mean"]},
    }
    assert list(check_accuracy(table, manifest, LAPLACE)) == []
    # A range that is tight against the spread within a cell makes a good number a caution.
    posterior = replace(posterior, tight=np.ones(2, dtype=bool))
    careful = build_table(loud, plan.facts, noisy, cut_off={"mean": cut}, posterior=posterior)
    assert careful["mean_quality"].to_pylist() == ["noise", "caution"]
    stated = manifest | {"accuracy": accuracy_statement(loud, careful, posterior)}
    assert list(check_accuracy(careful, stated, LAPLACE)) == []
    # The cell that is cut off counts in the typical error as others do.
    assert stated["accuracy"][0]["typical_error"] == 5.0
    place = table.column_names.index("mean_quality")
    forged = table.set_column(place, "mean_quality", pa.array(["good", "good"]))
    assert "mean_quality is not that of its interval." in list(
        check_accuracy(forged, manifest, LAPLACE)
    )

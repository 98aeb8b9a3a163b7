"""What a fleet supports: advice, the table of grids, proposed runs, declared grids."""

import html
import re
import warnings
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from planning.sums import sums_of
from planning.warsaw import fleet, read, records

RANGES = ("bounds", "private", "per-cell", "auto")


def made(source, **options):
    """Return a plan at a loss of 1 without its warning."""
    return hv.plan(source, **{"epsilon": 1, "clipping_range": "auto"} | options, advise=False)


def named(text):
    """Return the loss that a sentence names."""
    return float(re.search(r"with epsilon ([\d.]+\d)", text)[1])


def warned(source, **options):
    """Return the warning of a plan at a loss of 1."""
    with pytest.warns(hv.GridTooFineWarning) as caught:
        hv.plan(source, **{"epsilon": 1} | options)
    return str(caught[0].message)


def refused(data, **options):
    """Return the sentence that refuses a release at a loss of 1; nothing is booked."""
    book = hv.Ledger("memory://", dataset="buses", budget=1)
    with pytest.raises(hv.InputError) as caught:
        hv.release(data, made(data, **options), ledger=book)
    assert book.spent == 0
    return str(caught.value)


# ---- advice ----


def test_a_warning_names_an_epsilon_that_is_enough_and_counts_nothing(tmp_path):
    """A grid that is too fine is warned of without counting; a supported one is not."""
    file = tmp_path / "records.parquet"
    pq.write_table(records(), file)
    data = read(file, 7)
    # There is nothing left to count.
    file.unlink()
    text = warned(data, clipping_range="bounds")
    assert "hexveil inspect finds grids" in text
    assert made(fleet(7), epsilon=named(text), clipping_range="bounds").support.beats_constant
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hv.plan(fleet(5), epsilon=1)


@pytest.mark.parametrize("users", [60, 19])
def test_plan_release_and_capacity_name_one_epsilon_that_is_enough(users):
    """Also where the default takes a range there ("private" of 60), and has none in the plan."""
    data = fleet(7, users)
    loss = named(warned(data))
    assert made(data, epsilon=loss).support.beats_constant
    # The refusal of a release is the text with a search; the table has the number.
    assert named(refused(data)) == loss
    own = next(one for one in hv.capacity(data, epsilon=1).offers if one.grid.resolution == 7)
    assert own.epsilon_needed in (loss, None)
    assert (own.epsilon_needed is None) == (loss > 10)
    few = hv.capacity(data, epsilon="0.01")
    assert few.proposals == {}
    assert few.sentence.startswith("no grid is expected to say more than one number for the whole")


@pytest.mark.parametrize(
    "options", [{"clipping_range": kind} for kind in RANGES[:2]] + [{"method": "equal-split"}]
)
def test_advice_names_the_finest_usable_grid_and_the_loss_that_would_do(options):
    """The grid is the finest usable one of the table; a tenth less is not enough."""
    text = refused(fleet(7), **options)
    usable = [
        one for one in hv.capacity(fleet(7), epsilon=1, **options).offers
        if one.is_usable and one.grid.resolution < 7
    ]  # fmt: skip
    finest = max(usable, key=lambda one: one.cells)
    assert f"use {finest.description} ({finest.cells:,} cells), the finest usable grid" in text
    for part, enough in ((1, True), (0.9, False)):
        again = made(fleet(7), epsilon=named(text) * part, **options)
        assert again.support.beats_constant is enough


def test_a_prior_moves_the_verdict_and_no_epsilon_up_to_100_is_none():
    """Cells that are known to differ support a finer grid; one user supports none."""
    options = {"clipping_range": "bounds"}
    assert not made(fleet(7), **options).support.beats_constant
    assert made(fleet(7), baseline_error=5, **options).support.beats_constant
    lonely = hv.Occupancy.from_dense(np.ones((1, 40), dtype=int))
    assert "epsilon" not in warned(lonely, bounds=(0, 1))


# ---- the table ----


@cache
def table(kind="bounds", resolution=7):
    """Return the table of the fleet."""
    return hv.capacity(fleet(resolution), epsilon=1, clipping_range=kind)


def test_the_table_has_each_grid_once():
    """What is usable needs no more; the balanced of three runs is proposed, and no other."""
    found = table()
    rows = found.to_arrow().to_pylist()
    assert [row["resolution"] for row in rows] == [4, 5, 6, 7]
    assert [row["beats_constant"] for row in rows] == [True, True, False, False]
    assert [row["floor"] for row in rows] == pytest.approx(
        [10 * row["cells"] / 200 for row in rows]
    )
    assert [row["epsilon_needed"] is None for row in rows] == [True, True, False, False]
    assert found.proposed is found.proposals["balanced"]
    assert [row["proposed"] for row in rows] == [one is found.proposed for one in found.offers]
    assert found.sentence.startswith("proposed: resolution ")


def test_a_grid_of_which_no_cell_is_left_has_nulls():
    """Every cell of it has fewer users than were asked for."""
    few = read(records(), 7, select=hv.Select(min_users=100))
    rows = hv.capacity(few, epsilon=20).to_arrow().to_pylist()
    row = next(row for row in rows if row["cells"] == 0)
    assert row["resolution"] == 8
    assert (row["predicted_error"], row["floor"], row["epsilon_needed"]) == (None, None, None)
    assert row["beats_constant"] is False


def test_what_is_certainly_too_fine_is_not_planned():
    """Its error is said to be above a bound; of cells that say more nothing is said."""
    (finest,) = [one for one in table(resolution=6).offers if one.grid.resolution == 7]
    assert (finest.planned, finest.beats_constant, finest.epsilon_needed) == (False, False, None)
    assert finest.predicted_error >= finest.baseline_error


def test_the_data_sets_own_grid_has_the_plans_figures():
    """On the grid that was planned the row says what the plan says."""
    plan = made(fleet(7))
    row = next(one for one in table("auto").offers if one.grid.resolution == 7)
    assert row.predicted_error == pytest.approx(plan.expected_error, rel=1e-12)
    assert row.beats_constant == plan.support.beats_constant
    assert row.floor == pytest.approx(plan.support.floor)


def test_predictions_honour_the_clipping_range():
    """With a clipping range the same fleet is predicted to do with less error."""
    errors = {
        kind: [one.predicted_error for one in table(kind).offers if one.grid.resolution == 6]
        for kind in RANGES
    }
    assert errors["auto"][0] < errors["bounds"][0]
    assert errors["auto"] == errors["private"] < errors["per-cell"]


def test_refused_tables():
    """A bare occupancy, and records without places."""
    with pytest.raises(hv.InputError, match="public presence"):
        hv.capacity(fleet(5).public.occupancy, epsilon=1, bounds=(0, 10))
    elsewhere = sums_of(np.ones((30, 3), dtype=int), cells=hv.Cells(7, "1h", "Asia/Kolkata"))
    with pytest.raises(hv.InputError, match="records with places"):
        hv.capacity(elsewhere, epsilon=1)


def test_a_notebook_shows_the_recommendation_and_the_grids():
    """The sentence stands above the table; columns that say nothing of these grids are left out."""
    found = table()
    page = found._repr_html_()
    assert html.unescape(re.match("<p>(.*?)</p>", page)[1]).lower() == found.sentence.lower()
    assert page.count("<tr>") == 1 + len(found.offers)
    assert "<th>predicted error</th>" in page
    assert "<th>labels</th>" not in page


@pytest.mark.parametrize("cells", [2, 3, 4, 8, 40])
def test_one_constant_misses_less_on_few_cells(cells):
    """The median of simulated normal cells misses what is said, to a hundredth or two."""
    found = np.random.default_rng(cells).normal(size=(100_000, cells))
    missed = np.abs(found - np.median(found, axis=1, keepdims=True)).mean()
    data = sums_of(np.ones((30, cells), dtype=int), bounds=(0, 20))
    (offer,) = hv.capacity(data, epsilon=1).offers
    # Of many cells it is a twentieth of the width of the bounds.
    assert offer.baseline_error == pytest.approx(missed / np.sqrt(2 / np.pi), rel=0.015)


def on(resolution, timeslot="6h", **changes):
    """Return an offer of 41 cells on a grid."""
    usual = {
        "grid": hv.Cells(resolution, timeslot, "Europe/Warsaw"), "cells": 41, "users": 300,
        "floor": 1.0, "predicted_error": 1.94, "baseline_error": 4.5, "planned": True,
        "epsilon_needed": None, "hexagons": None,
    }  # fmt: skip
    return replace(table().offers[0], **usual | changes)


def proposals(*runs):
    """Return the three runs that are proposed of some."""
    return hv.Capacity(runs, 1.0, "user").proposals


def test_without_a_usable_grid_the_loss_that_would_do_is_named():
    """The least that was found; else that there is none, or no map."""

    def sentence(*offers):
        return hv.Capacity(offers, 1.0, "user").sentence

    six, seven = (on(r, predicted_error=9.0, epsilon_needed=e) for r, e in ((6, 2.4), (7, 7.5)))
    assert sentence(seven, six) == (
        "no grid is expected to say more than one number for the whole map at epsilon 1; "
        "resolution 6 in 6h slots (41 cells) needs epsilon 2.4."
    )
    # A tie goes to smaller hexagons, here and among proposals, in whatever order they come.
    assert "; resolution 7" in sentence(replace(six, epsilon_needed=7.5), seven)
    runs = [on(r, slot) for r in (3, 4, 6) for slot in ("1d", "1h", None)]
    found = {*proposals(*runs).values(), *proposals(*runs[::-1]).values()}
    assert found == {on(6, "1h")}
    noisy = replace(six, epsilon_needed=None)
    assert "nor at ten times that" in sentence(noisy)
    alone = "no grid tried leaves a map of three cells, or of three hexagons."
    assert sentence(on(6, cells=1)) == alone
    assert sentence(on(6, grid=hv.Labels("origin", "hour"))).startswith(
        "proposed: origin x hour, unit user: 41"
    )


# ---- proposed runs ----


def test_finest_accurate_and_in_between():
    """The most cells, the least error, and the most cells weighed by what they gain."""
    fine = on(7, cells=60, predicted_error=4.3)
    middle, coarse = on(6, cells=30, predicted_error=2.0), on(4, cells=4, predicted_error=0.5)
    useless = on(9, cells=900, predicted_error=5.0)
    assert proposals(coarse, fine, middle, useless) == {
        "finest": fine, "balanced": middle, "accurate": coarse,
    }  # fmt: skip
    assert proposals(useless) == {}


@pytest.mark.slow
def test_every_proposed_run_is_usable_and_what_a_plan_reaches():
    """Errors are those of the plan that is then made; there are hexagons for a map."""
    advice = hv.capacity(fleet(7), epsilon=1)
    assert set(advice.proposals) == {"finest", "balanced", "accurate"}
    for run in advice.proposals.values():
        assert run.is_usable
        assert run.hexagons >= 3
        plan = made(read(records(), run.grid.resolution, cells=run.grid))
        assert plan.expected_error == pytest.approx(run.predicted_error, rel=0.1)
    assert advice.proposals["finest"].cells >= advice.proposals["accurate"].cells


# ---- declared grids ----


@pytest.mark.parametrize("statistics", ["mean", ("mean", "p50"), "users", ("mean", "users")])
def test_declared_grids_are_judged_by_their_plans(statistics):
    """Closed cells are off by one constant's error; a map that is refused beats none."""
    area = hv.Cells(7, "1d", "Europe/Warsaw", "pooled", area=(20.8, 52.05, 21.3, 52.35))
    facts = hv.declare(
        user="car", value="speed", bounds=(0, 90), lat="lat", lon="lon", time="time", cells=area,
        protect="presence", statistics=statistics,
    )  # fmt: skip
    plans = [
        hv.plan(facts, epsilon=epsilon, fleet=3000, statistics=statistics, advise=False)
        for epsilon in (Fraction(1, 100), 1, 100)
    ]
    errors = [plan.prediction.relative_error for plan in plans]
    assert errors == sorted(errors, reverse=True)
    assert [plan.refusal is None for plan in plans][::2] == [False, True]
    for plan, relative in zip(plans, errors, strict=True):
        error, baseline = plan.expected
        closed = 1 - plan.figures().get("open_traffic", 1.0)
        expected = (1 - closed) * error / baseline + closed
        if statistics == ("mean", "users"):
            counts = plan.prediction.counts
            expected = max(expected, counts.count_error / counts.typical_count)
        assert relative == pytest.approx(expected)


# ---- quick predictions against plans in full, and the loss that an error needs ----


@cache
def crowd(seed, users=300, cells=12):
    """Return records of a fleet whose users differ, by a label and by one of a third as many."""
    rng = np.random.default_rng(seed)
    dense = rng.poisson(rng.gamma(0.4, 4.0, (users, 1)) * rng.gamma(1.0, 1.0, (1, cells)))
    dense[np.arange(cells), np.arange(cells)] += 1
    user, cell = (np.repeat(one, dense.ravel()) for one in np.indices(dense.shape).reshape(2, -1))
    columns = {"bus": user.astype(str), "speed": cell * 1.0}
    return pa.table(columns | {"road": cell.astype(str), "area": (cell // 3).astype(str)})


def by(source, *labels):
    """Return records read by these labels."""
    return hv.read(
        source, user="bus", value="speed", bounds=(0, 60), cells=hv.Labels(*labels),
        select=hv.Select(min_users=1),
    )  # fmt: skip


def level(source, columns, **asked):
    """Return what is said of a level of labels, where records were read by another one."""
    offers = hv.capacity(by(source, "area", "road"), **asked).offers
    return next(one for one in offers if one.grid.columns == columns)


@pytest.mark.slow
@pytest.mark.parametrize("kind", RANGES)
@pytest.mark.parametrize("epsilon", ["0.3", "1", "5"])
def test_a_prediction_is_near_the_plan(kind, epsilon):
    """Within a few percent of the error of the plan in full, and hardly below it."""
    offer = level(crowd(2), ("area",), epsilon=epsilon, clipping_range=kind)
    plan = made(by(crowd(2), "area"), epsilon=epsilon, clipping_range=kind)
    assert 0.98 < offer.predicted_error / plan.expected_error < 1.08


@pytest.mark.slow
@pytest.mark.parametrize("kind", RANGES)
def test_the_loss_that_is_named_is_enough(kind):
    """Planned in full there, the error is small enough; well below it, it is not.

    "auto" takes another clipping range from some epsilon on, so that its error may rise there.
    """
    data, below = by(crowd(3), "area"), 0.5 if kind == "auto" else 0.8
    for baseline in (1.0, 3.0):
        # So small that it is not enough, and not so small that no more is said.
        asked = {"clipping_range": kind, "epsilon": 0.45 / baseline if kind == "private" else 0.5}
        offer = level(crowd(3), ("area",), baseline_error=baseline, **asked)
        needed, error = offer.epsilon_needed, offer.baseline_error
        at = [
            made(data, epsilon=needed * part, clipping_range=kind).expected_error
            for part in (1.0, below)
        ]
        assert at[0] <= error * 1.01
        assert at[1] > error


def test_other_requests_are_planned_in_full():
    """Of what has no quick way the plan itself is the prediction."""
    source = crowd(4, users=60, cells=6)
    for asked in ({"method": "per-cell"}, {"objective": "max"}, {"statistics": ("mean", "sd")}):
        plan = hv.plan(by(source, "area"), epsilon=9, advise=False, **asked)
        offer = level(source, ("area",), epsilon=9, **asked)
        assert offer.planned
        assert offer.predicted_error == pytest.approx(plan.primary_statistic.error.mean())

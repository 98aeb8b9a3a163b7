"""What a fleet supports: advice, the table of grids, proposed runs, declared grids."""

import html
import re
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import hexveil as hv
from hexveil import Capacity
from hexveil.model.cells import CellTable
from hexveil.model.public_metadata import PublicMetadata, ValueLattice
from hexveil.planning.feasibility import grid_assessment
from hexveil.planning.feasibility.capacity import assess_grids
from hexveil.planning.feasibility.grid_assessment import GridAssessment
from hexveil.planning.feasibility.prediction import ErrorPredictor
from hexveil.planning.feasibility.recommendation import choose, ways_out
from hexveil.planning.feasibility.utility_test import small_map_factor
from planning.fleets import GRID, fleet, recount

RANGES = ("bounds", "private", "per-cell", "auto")
OFFER = GridAssessment(
    hv.Cells(6, "6h", "Europe/Warsaw", "pooled"), "user", cells=41, users=300, floor=1.0,
    predicted_error=1.94, baseline_error=4.5, planned=True,
)  # fmt: skip


def on(resolution, timeslot="6h", **changes):
    """Return an offer on another grid."""
    return replace(OFFER, grid=hv.Cells(resolution, timeslot, "Europe/Warsaw"), **changes)


def made(source, **options):
    """Return a plan at a loss of 1 without its warning."""
    return hv.plan(source, **{"epsilon": 1, "clipping_range": "auto"} | options, advise=False)


def named(text):
    """Return the loss that a sentence names."""
    return float(re.search(r"with epsilon ([\d.]+\d)", text)[1])


# ---- advice ----


def test_a_warning_names_an_epsilon_that_is_enough_and_counts_nothing():
    """A grid that is too fine is warned of without counting; a supported one is not."""

    def counted_again(grids, unit):
        raise AssertionError("the warning counts records again")

    with pytest.warns(hv.GridTooFineWarning, match="hexveil inspect finds grids") as caught:
        hv.plan(fleet(7, recount=counted_again), epsilon=1, clipping_range="bounds")
    enough = made(fleet(7), epsilon=named(str(caught[0].message)), clipping_range="bounds")
    assert enough.support.beats_constant
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hv.plan(fleet(5, recount=recount), epsilon=1)


@pytest.mark.parametrize("users", [60, 19])
def test_plan_release_and_capacity_name_one_epsilon_that_is_enough(users):
    """Also where the default takes a range there ("private" of 60), and has none in the plan."""

    def same(grids, unit):
        return tuple(fleet(grid.resolution, unit, users=users) for grid in grids)

    plan = made(fleet(6, users=users, recount=same))
    loss = named(ways_out(plan, search=False))
    assert made(plan.facts, epsilon=loss).support.beats_constant
    # The refusal of a release is the text with a search; the table has the number.
    assert named(ways_out(plan, search=True)) == loss
    own = next(one for one in assess_grids(plan.single).offers if one.grid == plan.facts.cells.grid)
    assert own.epsilon_needed == loss
    few = assess_grids(made(plan.facts, epsilon="0.01").single)
    assert few.proposals == {}
    assert few.sentence.startswith("no grid has an error below the baseline at epsilon 0.01")


@pytest.mark.parametrize(
    "options", [{"clipping_range": kind} for kind in RANGES[:2]] + [{"method": "equal-split"}]
)
def test_advice_names_the_finest_usable_grid_and_the_loss_that_would_do(options):
    """The grid is the finest usable one of the table; a tenth less is not enough."""
    plan = made(fleet(7, recount=recount), **options)
    text = ways_out(plan, search=True)
    usable = [
        one for one in assess_grids(plan.single).offers
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
    assert not made(fleet(6), **options).support.beats_constant
    assert made(fleet(6), baseline_error=5, **options).support.beats_constant
    lonely = hv.Occupancy.from_dense(np.ones((1, 40), dtype=int))
    assert "epsilon" not in ways_out(made(lonely, bounds=(0, 1)), search=True)


# ---- the table ----


def table(**changes):
    """Return the table of a fleet that crosses 4 ** (resolution - 4) cells."""
    grids = tuple(replace(GRID, resolution=r) for r in (1, 5, 6, 7, 9))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grid_assessment, "grids_to_try", lambda *_: grids)
        usual = {"epsilon": 1, "clipping_range": "bounds"}
        return hv.capacity(fleet(6, recount=recount), **usual | changes)


def test_the_table_has_each_grid_once():
    """Nothing left says so with nulls; the balanced of three runs is proposed, and no other."""
    found = table()
    rows = found.to_arrow().to_pylist()
    assert [row["beats_constant"] for row in rows] == [False, True, False, False, False]
    assert (rows[0]["cells"], rows[0]["predicted_error"], rows[0]["floor"]) == (0, None, None)
    assert rows[2]["floor"] == pytest.approx(10 * 16 / 200)
    assert rows[1]["epsilon_needed"] is None
    assert rows[2]["epsilon_needed"] == pytest.approx(1.7, abs=0.15)  # the own grid
    assert found.proposed is choose(found.offers)["balanced"]
    assert [row["proposed"] for row in rows] == [one is found.proposed for one in found.offers]
    assert found.sentence.startswith("proposed: resolution 5 in ")


def test_what_is_certainly_too_fine_is_not_planned():
    """Its error is said to be above a bound; of cells that say more nothing is said."""
    seven, nine = table().offers[-2:]
    for one in (seven, nine):
        assert (one.planned, one.beats_constant, one.epsilon_needed) == (False, False, None)
        assert one.predicted_error >= one.baseline_error


def test_the_data_sets_own_grid_has_the_plans_figures():
    """On the grid that was planned the row says what the plan says."""
    plan = made(fleet(6, recount=recount))
    row = next(one for one in table(clipping_range="auto").offers if one.grid.resolution == 6)
    assert row.predicted_error == pytest.approx(plan.expected_error, rel=1e-12)
    assert row.beats_constant == plan.support.beats_constant
    assert row.floor == pytest.approx(plan.support.floor)


def test_predictions_honour_the_clipping_range():
    """With a clipping range the same fleet is predicted to do with less error."""
    errors = {
        kind: [one.predicted_error for one in table(clipping_range=kind).offers[2:4]]
        for kind in RANGES
    }
    assert errors["auto"][0] < errors["bounds"][0]
    assert errors["auto"] == errors["private"] < errors["per-cell"]


def test_refused_tables():
    """A bare occupancy, and records without places."""
    with pytest.raises(hv.InputError, match="not for a bare occupancy"):
        assess_grids(made(fleet(5).occupancy, bounds=(0, 10)).single)
    with pytest.raises(hv.InputError, match="records with places"):
        hv.capacity(fleet(6), epsilon=1)


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
    assert small_map_factor(cells) == pytest.approx(missed / np.sqrt(2 / np.pi), rel=0.015)


def test_without_a_usable_grid_the_loss_that_would_do_is_named():
    """The least that was found; else that there is none, or no map."""

    def sentence(*offers):
        return Capacity(offers, 1.0, "user").sentence

    six, seven = (on(r, predicted_error=9.0, epsilon_needed=e) for r, e in ((6, 2.4), (7, 7.5)))
    assert sentence(seven, six) == (
        "no grid has an error below the baseline at epsilon 1; resolution 6 in 6h slots (41 cells) "
        "needs epsilon 2.4."
    )
    # A tie goes to smaller hexagons, here and among proposals, in whatever order they come.
    assert "; resolution 7" in sentence(replace(six, epsilon_needed=7.5), seven)
    runs = [on(r, slot) for r in (3, 4, 6) for slot in ("1d", "1h", None)]
    assert {*choose(runs).values(), *choose(runs[::-1]).values()} == {on(6, "1h")}
    noisy = replace(six, epsilon_needed=None)
    assert "nor at ten times that" in sentence(noisy)
    alone = "no grid tried leaves a map of three cells, or of three hexagons."
    assert sentence(replace(OFFER, cells=1)) == alone
    level = replace(OFFER, grid=hv.Labels("origin", "hour"))
    assert sentence(level).startswith("proposed: origin x hour, unit user: 41")


# ---- proposed runs ----


def test_finest_accurate_and_in_between():
    """The most cells, the least error, and the most cells weighed by what they gain."""
    fine = on(7, cells=60, predicted_error=4.3)
    middle, coarse = on(6, cells=30, predicted_error=2.0), on(4, cells=4, predicted_error=0.5)
    useless = on(9, cells=900, predicted_error=5.0)
    assert choose([coarse, fine, middle, useless]) == {
        "finest": fine, "balanced": middle, "accurate": coarse,
    }  # fmt: skip
    assert choose([useless]) == {}


@pytest.mark.slow
def test_every_proposed_run_is_usable_and_what_a_plan_reaches():
    """Errors are those of the plan that is then made; there are hexagons for a map."""
    advice = assess_grids(made(fleet(7, recount=recount)).single, min_users=10)
    assert {one.min_users for one in advice.others} <= {20, 40}
    assert set(advice.proposals) == {"finest", "balanced", "accurate"}
    for run in advice.proposals.values():
        assert run.is_usable
        assert run.hexagons >= 3
        plan = made(fleet(run.grid.resolution))
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
    grids = [GridAssessment.on_paper(plan.single) for plan in plans]
    errors = [grid.relative_error for grid in grids]
    assert errors == sorted(errors, reverse=True)
    assert [grid.is_usable for grid in grids][::2] == [False, True]
    for plan, offer in zip(plans, grids, strict=True):
        assert offer.grid == plan.facts.cells.grid
        assert offer.beats_constant is (plan.refusal is None)
        closed = 1 - plan.figures().get("open_traffic", 1.0)
        expected = (1 - closed) * offer.predicted_error / offer.baseline_error + closed
        if statistics == ("mean", "users"):
            counts = plan.prediction.counts
            expected = max(expected, counts.count_error / counts.typical_count)
        assert offer.relative_error == pytest.approx(expected)


# ---- quick predictions against plans in full, and the loss that an error needs ----


def crowd(seed, users=300, cells=12):
    """Return public facts of a fleet whose users differ."""
    rng = np.random.default_rng(seed)
    dense = rng.poisson(rng.gamma(0.4, 4.0, (users, 1)) * rng.gamma(1.0, 1.0, (1, cells)))
    dense[np.arange(cells), np.arange(cells)] += 1
    occupancy = hv.Occupancy.from_dense(dense[dense.sum(axis=1) > 0])
    table = CellTable(hv.Labels("cell"), labels={"cell": tuple(f"{i:03d}" for i in range(cells))})
    return PublicMetadata(occupancy, table, ValueLattice.of((0, 60), "0.001"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", RANGES)
@pytest.mark.parametrize("epsilon", ["0.3", "1", "5"])
def test_a_prediction_is_near_the_plan(kind, epsilon):
    """Within a few percent of the error of the plan in full, and hardly below it."""
    known = crowd(2)
    plan = made(known, epsilon=epsilon, clipping_range=kind)
    quick_error = ErrorPredictor(plan, known).predict(Fraction(epsilon)).mean_error
    assert 0.98 < quick_error / plan.expected_error < 1.08


@pytest.mark.slow
@pytest.mark.parametrize("kind", RANGES)
def test_the_loss_that_is_named_is_enough(kind):
    """Planned in full there, the error is small enough; well below it, it is not.

    "auto" takes another clipping range from some epsilon on, so that its error may rise there.
    """
    known, below = crowd(3), 0.5 if kind == "auto" else 0.8
    plan = made(known, clipping_range=kind)
    for error in (1.0, 3.0):
        needed = ErrorPredictor(plan, known).epsilon_needed(error)
        at = [
            made(known, epsilon=needed * part, clipping_range=kind).expected_error
            for part in (1.0, below)
        ]
        assert at[0] <= error * 1.01
        assert at[1] > error


def test_other_requests_are_planned_in_full():
    """Of what has no quick way the plan itself is the prediction; nothing is certain of it."""
    known = crowd(4, users=60, cells=4)
    for asked in ({"method": "per-cell"}, {"objective": "max"}, {"statistics": ("mean", "sd")}):
        plan = hv.plan(known, epsilon=2, advise=False, **asked)
        predictor = ErrorPredictor(plan, known)
        assert not predictor.is_fast
        quick = predictor.predict(Fraction(2)).mean_error
        assert quick == pytest.approx(plan.primary_statistic.error.mean())
    assert predictor.error_lower_bound(2.0) == 0.0

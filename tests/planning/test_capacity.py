"""The table of what a fleet can support."""

import html
import importlib.util
import math
import re
from dataclasses import replace

import numpy as np
import pytest

import hexveil as hv
from fleets import fleet, recount
from hexveil.planning.feasibility.advice import epsilon_needed
from hexveil.planning.feasibility.capacity import assess_grids
from hexveil.planning.feasibility.prediction import ErrorPredictor
from hexveil.planning.feasibility.proposals import propose_runs
from hexveil.planning.feasibility.utility_test import small_map_factor


def table(**changes):
    """Return the table of a fleet that crosses 4 ** (resolution - 4) cells."""
    usual = {"resolutions": (1, 5, 6, 7, 9), "timeslots": ("1h",), "clipping_range": "bounds"}
    asked = usual | changes
    return hv.capacity(fleet(6, recount=recount), epsilon=1, **asked)


def test_one_grid_is_proposed():
    """The one of most cells with an error under half of one constant's is marked and named."""
    found = table()
    assert found.proposed.resolution == 5
    rows = found.to_arrow().to_pylist()
    assert [row["proposed"] for row in rows] == [row["resolution"] == 5 for row in rows]
    assert found.sentence.startswith("proposed: resolution 5 in 1h slots, unit user: 4 cells")
    assert "The finer resolution 6 in 1h slots (16 cells) needs epsilon" in found.sentence


def test_the_named_loss_halves():
    """Planned at the loss that is named, the error is under half of one constant's."""
    six = next(one for one in table().offers if one.resolution == 6)
    assert not six.halved
    for epsilon, halved in ((six.epsilon_halved, True), (six.epsilon_halved * 0.85, False)):
        again = hv.plan(fleet(6), epsilon=epsilon, clipping_range="bounds", advise=False)
        assert again.support.halved is halved
    assert six.epsilon_least <= six.epsilon_halved


def test_what_is_certainly_too_fine_is_not_planned():
    """Its error is said to be above a bound; of cells that say more nothing is said."""
    seven, nine = table().offers[-2:]
    for one in (seven, nine):
        assert (one.planned, one.beats_constant, one.halved) == (False, False, False)
        assert one.better is None
        assert one.predicted_error >= one.baseline_error
    assert seven.epsilon_needed == pytest.approx(6.5, abs=0.15)
    assert seven.epsilon_least == pytest.approx(12.8 / small_map_factor(64))  # 10 * 64 / 200 / 0.25
    assert (seven.epsilon_halved, nine.epsilon_needed) == (None, None)  # above ten times 1


def test_the_data_sets_own_grid_has_the_plans_figures():
    """On the grid that was planned the row says what the plan says."""
    made = hv.plan(fleet(6, recount=recount), epsilon=1, advise=False)
    row = next(one for one in table(clipping_range="auto").offers if one.resolution == 6)
    assert row.predicted_error == pytest.approx(made.expected_error, rel=1e-12)
    assert (row.better, row.beats_constant) == (made.support.better, made.support.beats_constant)
    assert row.floor == pytest.approx(made.support.floor)


def test_where_nothing_is_left_there_are_no_figures():
    """A grid without cells has nulls for figures, also for machines."""
    empty = table().offers[0]
    assert (empty.cells, empty.beats_constant, empty.halved) == (0, False, False)
    assert math.isnan(empty.predicted_error)
    row = table().to_arrow().to_pylist()[0]
    assert row["predicted_error"] is None
    assert row["floor"] is None


def test_predictions_honour_the_interval():
    """With a clipping range the same fleet is predicted to do with less error."""
    errors = {
        intervals: [one.predicted_error for one in table(clipping_range=intervals).offers[2:4]]
        for intervals in ("bounds", "private", "per-cell", "auto")
    }
    assert errors["auto"][1] < errors["bounds"][1]
    assert errors["auto"] == errors["private"] < errors["per-cell"]


def test_the_unit_of_the_data_set_is_proposed_for():
    """Rows of other units are shown; the proposal is for the one that was read."""
    found = table(privacy_units=("user-day", "user"))
    assert [one.privacy_unit for one in found.offers] == ["user-day"] * 5 + ["user"] * 5
    assert found.proposed.privacy_unit == "user"


@pytest.mark.parametrize("epsilon", ["0.3", 1])
def test_the_sentence_alone_takes_fewer_searches(epsilon, monkeypatch):
    """It is the one of the whole table, whichever grid needs the least."""
    searches, search = [], ErrorPredictor.epsilon_needed
    monkeypatch.setattr(
        ErrorPredictor,
        "epsilon_needed",
        lambda *given: searches.append(1) or search(*given),
    )
    made = hv.plan(fleet(7, recount=recount), epsilon=epsilon, clipping_range="bounds",
                   advise=False)  # fmt: skip
    sentence, few = assess_grids(made, losses="cheapest").sentence, len(searches)
    made = replace(made)  # another plan, which has no predictions yet
    assert sentence == assess_grids(made).sentence
    assert 0 < few < len(searches) - few


def test_targets_become_what_they_cost():
    """A plan within targets is compared at the loss it takes."""
    made = hv.plan(fleet(6, recount=recount), target_error="3%", advise=False)
    found = assess_grids(made.single)
    assert found.epsilon == pytest.approx(float(made.epsilon))
    assert found.proposed is not None


def test_a_bare_occupancy_has_no_other_grids():
    """Grids are compared for data sets."""
    made = hv.plan(fleet(5).occupancy, bounds=(0, 10), epsilon=1, advise=False)
    with pytest.raises(hv.InputError, match="not for a bare occupancy"):
        assess_grids(made)


def test_an_unknown_unit_is_refused():
    """Units are named."""
    with pytest.raises(hv.InputError, match="unit must be one of user, user-day, user-week"):
        table(privacy_units=("bus",))


@pytest.mark.parametrize("cells", [2, 3, 4, 5, 8, 15, 40])
def test_one_constant_misses_less_on_few_cells(cells):
    """The median of simulated normal cells misses what is said, to a hundredth or two."""
    found = np.random.default_rng(cells).normal(size=(100_000, cells))
    missed = np.abs(found - np.median(found, axis=1, keepdims=True)).mean()
    assert small_map_factor(cells) == pytest.approx(missed / np.sqrt(2 / np.pi), rel=0.015)


def test_without_pandas_its_extra_is_named(monkeypatch):
    """A data frame needs pandas, and the sentence says how to have it."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(
        hv.InputError, match=r'pandas is not installed: pip install "hexveil\[pandas\]"'
    ):
        table().to_pandas()


def test_a_notebook_shows_the_recommendation_and_the_grids():
    """The sentence stands above the table; columns that say nothing of these grids are left out."""
    page = table()._repr_html_()
    sentence = html.unescape(re.match("<p>(.*?)</p>", page)[1])
    assert sentence.lower() == table().sentence.lower()
    assert page.count("<tr>") == 1 + len(table().offers)
    assert "<th>predicted error</th>" in page
    assert "<th>labels</th>" not in page
    unplanned = [offer for offer in table().offers if offer.cells and not offer.planned]
    assert unplanned
    assert page.count("<td>&gt; ") == len(unplanned)


@pytest.mark.parametrize("clipping_range", ["auto", "bounds"])
@pytest.mark.parametrize("epsilon", ["0.5", 1, 2])
def test_every_table_and_sentence_names_one_epsilon(epsilon, clipping_range):
    """The table of `inspect`, the sentence of `plan` and the whole table: the same of one grid."""

    def losses(kind):
        made = hv.plan(
            fleet(7, recount=recount), epsilon=epsilon, clipping_range=clipping_range, advise=False
        )
        offers = assess_grids(made, losses=kind).offers
        return {one.grid: one.epsilon_halved for one in offers if one.epsilon_halved is not None}

    everywhere, quick, sentence = (losses(kind) for kind in ("all", "planned", "cheapest"))
    assert quick.items() <= everywhere.items()
    assert sentence.items() <= everywhere.items()
    assert everywhere


def test_the_nearest_run_needs_what_the_plan_of_its_grid_names():
    """Where no run is usable, the number of the proposal is that of the advice."""

    def same(grids, unit):
        return tuple(fleet(grid.resolution, unit) for grid in grids)

    plan = hv.plan(fleet(5, recount=same), epsilon="0.05", advise=False)
    runs = propose_runs(plan.single)
    assert runs.nearest.grid == plan.facts.cells.grid
    assert runs.epsilon_needed == epsilon_needed(plan.single)

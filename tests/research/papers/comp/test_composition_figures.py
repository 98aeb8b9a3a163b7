"""COMP's studies: each runs, has the stated lines, and its claims come out as they should."""

from dataclasses import replace

import numpy as np
import pytest

from hexveil import theory
from hexveil_research.papers.comp import (
    axes,
    busiest_hour,
    cell_claims,
    composition_figures,
    runs,
    suppression_claims,
)
from hexveil_research.papers.comp.busiest_hour import Slot
from hexveil_research.papers.comp_setting import SPAN, comp_setting


def run(**changed):
    """Return a run in which all claims of the figures hold."""
    kept = runs.Run(1.0, 12, 5, 400.0, 400.0, 0, 300.0, 310.0, 2.0, 1.5)
    return replace(kept, **changed)


def test_a_claim_of_the_figures_can_fail():
    """K that is not lower, errors that are not, a costly plan: each verdict turns."""
    good, no_gain = ((run(),),), ((run(degradation=12, capped=400.0),),)
    assert composition_figures.lower_loss("Figure 3", 3, good).holds
    assert not composition_figures.lower_loss("Figure 3", 3, no_gain).holds
    assert composition_figures.lower_error("Figure 6", 3, good).holds
    assert not composition_figures.lower_error("Figure 6", 3, no_gain).holds
    cheap, dear = np.array([[0.1]]), np.array([[9.0]])
    verdicts = [
        [claim.holds for claim in axes.loss_claims("Figure 3", "", runs, joint)]
        for runs, joint in ((good, cheap), (good, dear), (((run(plain_loss=9.0),),), cheap))
    ]
    assert verdicts == [[True, True], [True, False], [False, True]]
    verdicts = [
        [claim.holds for claim in axes.error_claims("Figure 6", "", SPAN, runs, joint)]
        for runs, joint in ((good, dear), (((run(capped=900.0),),), 1000 + dear))
    ]
    assert verdicts == [[True, False], [False, True]]


def test_a_run_is_what_the_formulas_say():
    """E is CLIP-USER's own, both losses are those of the occupancy, and K ε is never less."""
    occupancy = comp_setting(3, 0)
    found, done = runs.run(occupancy, SPAN, "1"), theory.clip_user(occupancy, SPAN, 1)
    assert found.bound == pytest.approx(done.bound, rel=1e-12)
    assert (found.degradation, found.cells) == (done.degradation, 12)
    assert found.largest == pytest.approx(done.errors.max(), rel=1e-12)
    assert found.kept_loss <= found.claimed
    assert found.plain_loss <= found.counted
    assert found.capped <= found.largest
    kept = theory.clip_user(occupancy, SPAN, 1, unfinished_stage="keep").contributions
    printed = runs.cap_after_suppression(occupancy, kept, SPAN, 1).max_error
    assert found.capped_halted == pytest.approx(printed, rel=1e-12)
    assert found.capped_halted != found.capped


# ---- Figures 1 and 2 on an hour of records: tiny tables, the simulated city, real records ----


SLOT = Slot("drawn", 65.0, comp_setting(3, 0, cells=6))


def test_the_papers_records_are_not_called_reproduced():
    """Its hour is not published: the claim says what stands in its place, without a verdict."""
    claim = busiest_hour.resemblance((SLOT,))
    assert claim.verdict == "not tried"
    assert "drawn: 6 cells, 63 users, at most 6 a user" in claim.measured


def test_claims_of_the_slots_can_hold_and_fail():
    """With a heavy hitter in each cell caps help a lot; where nothing changes they do not."""
    runs = busiest_hour.runs_of(SLOT)
    assert busiest_hour.most_epsilons(SLOT, runs).holds
    assert not busiest_hour.little(SLOT, runs).holds
    flat = ((busiest_hour.Run(1.0, 3, 3, 5.0, 5.0, 0, 5.0, 5.0, 1.0, 1.0),),)
    assert not busiest_hour.most_epsilons(SLOT, flat).holds
    assert busiest_hour.little(SLOT, flat).holds


# ---- Claims about one cell: a wrong formula turns their verdicts ----


def less(formula):
    """Return the formula, 1% too small."""
    return lambda *cell: 0.99 * formula(*cell)


@pytest.mark.parametrize(
    ("kind", "formula"),
    [("mean", theory.mean_sensitivity), ("variance", theory.variance_sensitivity)],
)
def test_a_wrong_sensitivity_is_found(kind, formula):
    """One percent less than the truth fails, for plain and for kept samples, and as noise."""
    assert cell_claims.sensitivity_claim("", kind, formula).holds
    assert not cell_claims.sensitivity_claim("", kind, less(formula)).holds
    assert not cell_claims.clipped_claim("", kind, less(formula)).holds
    taken = {"mean": theory.mean_sensitivity, "variance": theory.variance_sensitivity}
    taken[kind] = less(formula)
    assert not composition_figures.baseline_claim(**taken).holds


# ---- Claims about many cells: other numbers turn their verdicts ----


def test_the_first_suppression_depends_on_the_choice():
    """Arg max, as printed, is above E where arg min is not (ERRATA 2)."""
    occupancy = comp_setting(3, 0)
    assert not suppression_claims.first_stage(occupancy, 1.0)
    assert suppression_claims.first_stage(occupancy, 1.0, np.argmin)


# ---- The search that COMP's formulas are held against, against cases that are known by hand ---

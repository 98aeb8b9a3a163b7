"""COMP's studies: each runs, has the stated lines, and its claims come out as they should."""

from dataclasses import replace

import numpy as np
import pytest

import hexveil as hv
from hexveil import theory
from hexveil_research.papers.comp import axes, composition_figures, runs
from hexveil_research.papers.comp_setting import SPAN, comp_setting

STUDIES = {study.name: study for study in composition_figures.STUDIES}


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
    assert found.largest == pytest.approx(done.max_error, rel=1e-12)
    assert found.kept_loss <= found.claimed
    assert found.plain_loss <= found.counted
    assert found.capped <= found.largest
    kept = theory.clip_user(occupancy, SPAN, 1, unfinished_stage="keep").contributions
    printed = theory.cap_after_suppression(occupancy, kept, SPAN, 1).max_error
    assert found.capped_halted == pytest.approx(printed, rel=1e-12)
    assert found.capped_halted != found.capped


def test_a_cell_of_one_record_has_no_variance_to_lose():
    """Its variance is 0 without noise; the mean alone is charged."""
    assert runs.exact_loss(hv.Occupancy.from_dense([[1]]), 65.0, 1.0) == pytest.approx(0.5)

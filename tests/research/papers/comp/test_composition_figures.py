"""COMP's studies: each runs, has the stated lines, and its claims come out as they should."""

from dataclasses import replace

import numpy as np
import pytest

from hexveil import Occupancy, theory
from hexveil_research.papers.comp import axes, composition_figures, runs
from hexveil_research.papers.comp_setting import SPAN, comp_setting
from hexveil_research.papers.study import Setting

FEW = Setting(trials=2)
STUDIES = {study.name: study for study in composition_figures.STUDIES}
LOSSES = (
    ("cells counted, G₁ε", "paper"),
    ("CLIP-USER, Kε", "paper"),
    ("exact, CLIP-USER", "ours"),
    ("exact, nothing cut", "ours"),
    ("joint plan, same error", "ours"),
)
ERRORS = (
    ("before, E", "paper"),
    ("CLIP-USER and caps, halted stage undone", "paper"),
    ("CLIP-USER and caps, halted stage kept (printed)", "paper"),
    ("joint plan, same loss", "ours"),
    ("constants, no loss", "reference"),
)


def named(panel):
    return tuple((line.name, line.whose) for line in panel.lines)


def test_the_studies_are_the_eight_figures_and_the_claims():
    """Each figure can be drawn of the counts of other data; none reads values."""
    assert list(STUDIES) == [*(f"comp:fig{n}" for n in range(1, 9)), "comp:claims"]
    assert [name for name, study in STUDIES.items() if study.altered] == list(STUDIES)[:8]
    assert not any(study.values for study in STUDIES.values())


@pytest.mark.slow
def test_a_loss_figure():
    """Bands over the draws, an ε axis from 0.1 to 1, and every claim holds: one gamma of three.

    Another is drawn in full: test_paper_gallery.py.
    """
    told = []
    outcome = STUDIES["comp:fig3"].make(replace(FEW, tell=told.append))
    (panel,) = outcome.panels
    assert named(panel) == LOSSES
    assert (panel.log_x, panel.log_y) == (True, False)
    assert panel.ends == "smallest and largest of 2 draws"
    assert panel.lines[0].x[[0, -1]].tolist() == [0.1, 1.0]
    counted, clip_user = panel.lines[:2]
    assert counted.low is None  # every draw has a user in all cells
    assert (clip_user.low <= clip_user.y).all()
    assert (clip_user.y < clip_user.high).any()
    runs = [theory.clip_user(comp_setting(3, seed), SPAN, 1) for seed in (0, 1)]
    assert panel.lines[1].y[-1] == np.mean([run.degradation for run in runs])
    assert [claim.verdict for claim in outcome.claims] == ["holds"] * 3
    assert told[-1] == 1


@pytest.mark.slow
def test_an_error_figure():
    """Both axes are logarithmic, the constants are a rule at 560.625, and every claim holds."""
    outcome = STUDIES["comp:fig8"].make(Setting(trials=1))
    (panel,) = outcome.panels
    assert named(panel) == ERRORS
    assert (panel.log_x, panel.log_y, panel.ends) == (True, True, "")
    assert set(panel.lines[-1].y.tolist()) == {560.625}
    assert (panel.lines[3].y < panel.lines[1].y).all()
    assert [claim.verdict for claim in outcome.claims] == ["holds"] * 3


@pytest.mark.slow
def test_the_same_seed_gives_the_same_figure():
    """Draws follow from the seed alone, and another seed has none of them."""
    one, again = (STUDIES["comp:fig3"].make(Setting(trials=1)) for _ in range(2))
    other = STUDIES["comp:fig3"].make(Setting(trials=1, seed=1))
    for first, second in zip(one.panels[0].lines, again.panels[0].lines, strict=True):
        assert first.y.tolist() == second.y.tolist()
    assert one.claims == again.claims
    assert other.panels[0].lines[3].y.tolist() != one.panels[0].lines[3].y.tolist()
    assert set(runs.seeds(Setting())).isdisjoint(runs.seeds(Setting(seed=1)))


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


def test_the_kept_part_has_no_user_without_samples():
    """Users are numbered anew; counts and cells stay."""
    occupancy = comp_setting(3, 0, cells=3)
    kept = np.where(occupancy.user == 0, 0, occupancy.n)
    part = runs.kept_part(occupancy, kept)
    assert (part.n_users, part.n_cells) == (occupancy.n_users - 1, 3)
    assert part.n.sum() == kept.sum()


def test_a_cell_of_one_record_has_no_variance_to_lose():
    """Its variance is 0 without noise; the mean alone is charged."""
    assert runs.exact_loss(Occupancy.from_dense([[1]]), 65.0, 1.0) == pytest.approx(0.5)

"""Claims about many cells: other numbers turn their verdicts."""

from dataclasses import replace

import numpy as np
import pytest

from hexveil_research.papers.comp import composition_claims, runs, suppression_claims
from hexveil_research.papers.comp_setting import comp_setting
from hexveil_research.papers.study import Setting

FEW = Setting(trials=2)


@pytest.fixture(scope="module")
def made():
    return {gamma: runs.synthetic_runs(FEW, gamma) for gamma in runs.GAMMAS}


def changed(rows, **numbers):
    """Return the runs with these numbers in place of theirs."""
    return tuple(tuple(replace(one, **numbers) for one in row) for row in rows)


@pytest.mark.slow
def test_claims_of_the_runs_can_fail(made):
    """A loss above K ε, an error above E, caps that raise it, no cell raised: verdicts turn."""
    rows = made[3]
    assert composition_claims.within_claim(rows).holds
    assert not composition_claims.within_claim(changed(rows, kept_loss=99.0)).holds
    assert not composition_claims.within_claim(changed(rows, largest=1e6)).holds
    assert suppression_claims.capped_claim(rows).holds
    assert not suppression_claims.capped_claim(changed(rows, capped=1e6)).holds
    assert suppression_claims.raised_claim(rows).holds
    assert not suppression_claims.raised_claim(changed(rows, raised=0)).holds
    verdicts = [claim.holds for claim in composition_claims.counting_claims(made, rows)]
    costly = changed(rows, plain_loss=99.0)
    turned = [claim.holds for claim in composition_claims.counting_claims(made, costly)]
    assert (verdicts, turned) == ([True, False, True], [False, True, False])


@pytest.mark.slow
def test_what_grows_with_gamma_is_found_not_to_in_reverse(made):
    """The heaviest hitters first: all three claims about the figures fail."""
    # Each draw six times: two draws alone leave every claim undecided.
    often = {gamma: 6 * rows for gamma, rows in made.items()}
    back = dict(zip(often, reversed(often.values()), strict=True))
    assert [claim.holds for claim in composition_claims.gamma_claims(often)] == [True] * 3
    assert [claim.holds for claim in composition_claims.gamma_claims(back)] == [False] * 3
    assert [c.verdict for c in composition_claims.gamma_claims(made)] == ["undecided"] * 3


def test_one_draw_shows_no_trend(made):
    """Without a second draw the noise of draws is unknown."""
    single = {gamma: rows[:1] for gamma, rows in made.items()}
    assert [c.verdict for c in composition_claims.gamma_claims(single)] == ["undecided"] * 3


def test_the_first_suppression_depends_on_the_choice():
    """Arg max, as printed, is above E where arg min is not (ERRATA 2)."""
    occupancy = comp_setting(3, 0)
    assert not suppression_claims.first_stage(occupancy, 1.0)
    assert suppression_claims.first_stage(occupancy, 1.0, np.argmin)


def test_a_loss_that_is_not_reached_is_not_called_tight():
    """Half of the loss is found to fall short of the sum over cells."""

    def half(*release):
        return np.array([2.5])

    assert not composition_claims.tight_claim(half).holds


def test_without_an_error_above_theirs_constants_prove_nothing(made):
    """Where E is always below 560.6 the claim about constants does not hold by default."""
    first = {3: comp_setting(3, 0)}
    low = {gamma: changed(rows, bound=100.0) for gamma, rows in made.items()}
    assert not composition_claims.constants_claim(low, first).holds

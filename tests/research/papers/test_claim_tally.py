"""Tally of claims: restatements and repeated trials count once, kinds are apart."""

from dataclasses import replace

import numpy as np
import pytest

from hexveil_research.papers.claim_tally import markdown_table
from hexveil_research.papers.simultaneous_tests import (
    LEVEL,
    Margins,
    at_least,
    everywhere,
    on_average,
)
from hexveil_research.papers.study import Claim

PRINTED = Claim("WC", "Section IV-D, figure 2", "AKMV errs more (uniform)", "1.1", holds=True)


def test_the_table_counts_statements():
    """Every kind has a row with the number of its statements by verdict."""
    fails = Claim("WC", "Eq. (12)", "the error is E", "0.4", holds=False)
    claims = [
        PRINTED,
        fails,
        replace(fails, says="it is E' (ERRATA 5)", holds=True, reading="corrected"),
        Claim("WC", "Eq. (13)", "so is that", "ERRATA 6 has why", holds=False),
        Claim("WC", "Eq. (14)", "nor this", "", holds=False, basis="other records"),
        replace(PRINTED, says="close", holds=None, within_noise=True),
        replace(PRINTED, says="closed", holds=None),
        replace(PRINTED, says="ours", reading="ours"),
        replace(PRINTED, says="searched", basis="by construction"),
    ]
    assert markdown_table(claims).splitlines() == [
        "| statements | holds | fails | undecided | not tried |",
        "|---|---:|---:|---:|---:|",
        "| as printed | 1 | 2 | 1 | 1 |",
        "| as printed, on other records than the paper's | 0 | 1 | 0 | 0 |",
        "| true by construction | 1 | 0 | 0 | 0 |",
        "| corrected by the errata | 1 | 0 | 0 | 0 |",
        "| not stated by the papers | 1 | 0 | 0 | 0 |",
    ]


# ---- Simultaneous tests: wrong verdicts are rare, stated differences are seen ----


N_POINTS = 20
N_REPEATS = 2000


def margins(estimate, noise=1.0, degrees=np.inf):
    estimate = np.asarray(estimate, dtype=float)
    full = np.full(estimate.size, float(noise))
    return Margins(estimate, full, np.ones(estimate.size), degrees)


def verdicts(truth, test, *, common=0.0):
    """Return the verdicts on drawn margins; a part of their variance is common to all points."""
    generator = np.random.default_rng(0)
    noise = generator.normal(size=(N_REPEATS, N_POINTS)) * (1 - common) ** 0.5
    noise += generator.normal(size=(N_REPEATS, 1)) * common**0.5
    return [test(margins(row)).holds for row in truth + noise]


def allowed():
    """Return a count of wrong verdicts that the level exceeds once in a thousand times."""
    return N_REPEATS * LEVEL + 3.1 * (N_REPEATS * LEVEL) ** 0.5


FAR = np.full(N_POINTS, 9.0)
FAR_MARGINS = margins(FAR)
ONE_AT_ZERO = np.where(np.arange(N_POINTS) == 3, 0.0, 9.0)


@pytest.mark.parametrize("common", [0.0, 0.9])
@pytest.mark.slow
@pytest.mark.parametrize(
    ("test", "truth", "wrong"),
    [
        (everywhere, ONE_AT_ZERO, True),
        (everywhere, np.zeros(N_POINTS), False),
        (lambda one: at_least(1, one), np.zeros(N_POINTS), True),
        (lambda one: at_least(1, one), -ONE_AT_ZERO, False),
        (lambda one: at_least(11, one), np.where(np.arange(N_POINTS) < 10, 9.0, 0.0), True),
        (lambda one: at_least(11, one), np.where(np.arange(N_POINTS) < 9, -9.0, 0.0), False),
        (on_average, np.zeros(N_POINTS), True),
        (on_average, np.zeros(N_POINTS), False),
        (lambda one: on_average(one, FAR_MARGINS), np.zeros(N_POINTS), True),
    ],
)
def test_a_wrong_verdict_is_as_rare_as_stated(test, truth, wrong, common):
    """At the border of a claim, whether points are independent or move together."""
    found = verdicts(truth, test, common=common)
    assert len(found) == N_REPEATS
    assert found.count(wrong) <= allowed()

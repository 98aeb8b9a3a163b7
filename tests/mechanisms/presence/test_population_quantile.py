"""Private quantile of a population of private size."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from hexveil.mechanisms.contract import Outputs
from hexveil.mechanisms.presence.any_unit import PresenceSums
from hexveil.mechanisms.presence.contribution import PARTS
from hexveil.mechanisms.presence.population_quantile import (
    PopulationQuantile,
    QuantileCost,
    UnitTotals,
)
from hexveil.mechanisms.private_quantile import ListedPoints
from hexveil.model.private_pairs import PrivatePairs

POINTS = ListedPoints(np.arange(1, 5))
NOTHING = Outputs()
ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(1, 4)), max_size=8)
QUANTILES = st.builds(Fraction, st.integers(0, 20), st.just(20))


def sums_of(rows, units=None):
    """Return sums of rows (cell, unit, n): each value in a cell is the number of the cell."""
    cell, unit, n = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return PresenceSums(PrivatePairs(cell, unit, n, n * cell * 4))


def stage_of(quantile, prices=(1, 2, 3)):
    """Return the stage at a loss of 1: of a unit with one record, the price of its cell."""
    return PopulationQuantile.at_loss(
        "q", UnitTotals(np.array(prices)), POINTS, quantile, Fraction(1)
    )


@examples(120)
@given(rows=ROWS, own=ROWS, quantile=QUANTILES)
def test_a_unit_moves_each_score_by_at_most_its_sensitivity(rows, own, quantile):
    """Whatever values vote, adding a unit moves scores by at most 2^20 max(a, d - a)."""
    new = [(cell, 99, n) for cell, _, n in own]
    for prices in ((1, 2, 3), (5, 0, PARTS)):
        stage = stage_of(quantile, prices)
        without, present = (
            stage.measure(sums_of(some), NOTHING)[0].scores for some in (rows, [*rows, *new])
        )
        (report,) = stage.sensitivity(NOTHING)
        assert np.abs(present - without).max() <= report.by[0]
        assert report.by[0] == PARTS * stage.cost.sensitivity


@pytest.mark.parametrize(("quantile", "loss"), [("0.5", 1), ("0.85", 17), ("0.1", 9), ("1", 1)])
def test_the_scale_follows_the_larger_side_of_the_quantile(quantile, loss):
    """The noise scale is 2 V max(a, d - a) / ε for the quantile a/d."""
    assert stage_of(Fraction(quantile)).scale == 2 * PARTS * loss


def test_the_sensitivity_is_attained():
    """A unit at one end moves a score by max(a, d - a) votes exactly."""
    stage = stage_of(Fraction("0.75"))
    scores = [
        stage.measure(sums_of(rows), NOTHING)[0].scores[0]
        for rows in ([(2, 0, 1)] * 1, [(2, 0, 1), (2, 1, 1)], [(2, 0, 1), (0, 1, 1)])
    ]
    # At the lowest point nobody of the first two votes: 3 votes are missing for each.
    assert scores[1][0] - scores[0][0] == -3 * PARTS
    assert scores[2][0] - scores[0][0] == PARTS


def test_the_quantile_costs_nothing_where_it_is():
    """A candidate with the wanted share of votes at or below it has the best score."""
    rows = [(cell, unit, 1) for unit, cell in enumerate([0, 0, 0, 1])]
    scores = stage_of(Fraction("0.75")).measure(sums_of(rows), NOTHING)
    assert scores[0].scores[0].tolist() == [0, -4 * PARTS, -4 * PARTS, -4 * PARTS]


@pytest.mark.parametrize("quantile", [Fraction(3, 2), Fraction(1, 101), Fraction(-1, 2)])
def test_no_quantile_outside_its_range(quantile):
    """A quantile lies from 0 to 1, in whole hundredths at most."""
    with pytest.raises(ValueError, match="no quantile"):
        QuantileCost.of(quantile)

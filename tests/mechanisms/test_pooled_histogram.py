"""Pooled histogram: exact losses in both privacy models, and broken twins that are found."""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

from hexveil.accounting.promise import PARTS, Pure, Squares, promised
from hexveil.base.errors import HexveilError
from hexveil.mechanisms.contract import DONE, NoisyTotals
from hexveil.mechanisms.distribution.binned_stage import SUBSTITUTED
from hexveil.mechanisms.looks.pooled_means import user_histogram
from hexveil.mechanisms.presence import contribution
from hexveil.mechanisms.presence.any_unit import PresenceSums
from hexveil.mechanisms.presence.contribution import value_votes
from hexveil.mechanisms.stage_data import Outputs, PrivateSums
from presence_laws import ExactPresenceLoss, PresenceWorld
from stage_laws import ExactLoss, Problem

EPSILON, SPAN, NOTHING = Fraction(2), 2, Outputs()
EDGES = np.array([PARTS // 4, 3 * PARTS // 4])
BASE = ((0, 0, 1, 1), (1, 0, 2, 4), (0, 1, 3, 2))
VOTES = {
    "even": None,
    "priced": (np.array([PARTS // 2, 0]), np.array([1, 5])),
}


@dataclass(frozen=True, eq=False)
class OneStage:
    """A plan of one stage."""

    stage: NoisyTotals
    booked: object
    kind = "test"

    def losses(self):
        """Return what is booked."""
        return self.booked

    def next_stage(self, earlier):
        """Return the stage, then DONE."""
        return DONE if self.stage.name in earlier else self.stage


def presence_plan(votes, promise):
    """Return the plan of a histogram with private presence."""
    law = promise.noise()
    stage = value_votes("h", SPAN, EDGES, law, VOTES[votes])
    return OneStage(stage, np.full(1, float(promise.amount)))


def presence_loss(votes="even"):
    """Return the exact loss over all records that one more unit can have."""
    plan = presence_plan(votes, Pure(EPSILON))
    return ExactPresenceLoss(PresenceWorld.of(BASE, 2, SPAN, max_n=2), lambda _: plan)


@pytest.mark.parametrize("votes", VOTES)
def test_a_unit_that_comes_or_goes_loses_at_most_epsilon(votes):
    """Presence private: the whole loss is attained, and never exceeded."""
    assert 0.99 * EPSILON <= presence_loss(votes).worst <= EPSILON * (1 + 1e-9)


@pytest.mark.parametrize("votes", VOTES)
def test_a_unit_moves_gaussian_bins_by_less_than_is_stated(votes):
    """Presence private: squares of the moves stay within the report, up to all of it."""
    (report,) = presence_plan(votes, promised(EPSILON, Fraction(1, 1000))).stage.sensitivity(
        NOTHING
    )
    stage = presence_plan(votes, Pure(EPSILON)).stage
    base, *others = (
        stage.measure(PresenceSums(pairs), NOTHING)[0].integers
        for pairs in PresenceWorld.of(BASE, 2, SPAN, max_n=2).data_sets()
    )
    squares = [float(((one - base) ** 2).sum()) for one in others]
    assert 0.99 * report.by <= max(squares) <= report.by


def test_full_votes_for_every_pair_are_found(monkeypatch):
    """A unit that votes fully with each of its pairs moves the bins by more than is stated."""
    monkeypatch.setattr(contribution, "_even_votes", lambda pairs: np.full_like(pairs.cell, PARTS))
    with pytest.raises(AssertionError, match="more than is stated"):
        presence_loss()


# ---- values private ----

PROBLEM = Problem(counts=(1, 2, 1), span=2, user=(0, 0, 1))
USER_VOTES = np.array([PARTS, PARTS])


class SplitVotes:
    """Means of pairs with a part of their user's votes each."""

    def __init__(self, each):
        self._each = np.array(each)

    def tally(self, sums, candidates):
        """Return the votes of each place."""
        places = candidates.places(sums.total // np.array(PROBLEM.counts))
        tally = np.zeros((len(places), candidates.size + 1), np.int64)
        for row, of_row in zip(tally, places, strict=True):
            np.add.at(row, of_row, self._each)
        return tally


def users_plan(each, promise=Pure(EPSILON), booked=None):  # noqa: B008  frozen
    """Return the plan of a histogram where values alone are private."""
    noise = promise.noise(SUBSTITUTED)
    stage = user_histogram("h", SplitVotes(each), np.array([0, 1]), USER_VOTES, noise)
    return OneStage(stage, np.full(2, float(promise.amount)) if booked is None else booked)


SOUND, FULL = (PARTS // 2, PARTS // 2, PARTS), (PARTS, PARTS, PARTS)


def test_a_user_whose_votes_move_loses_at_most_epsilon():
    """Values private: every user can lose all of it, and no more."""
    worst = ExactLoss(PROBLEM, users_plan(SOUND)).worst
    assert worst == pytest.approx([float(EPSILON)] * 2)


def test_votes_that_are_not_divided_over_cells_are_found():
    """A user in two cells who votes fully in each is found, as is a booking of half the loss."""
    with pytest.raises(AssertionError):
        ExactLoss(PROBLEM, users_plan(FULL))
    with pytest.raises(HexveilError, match="more than was booked"):
        ExactLoss(PROBLEM, users_plan(SOUND, booked=np.full(2, float(EPSILON) / 2)))


def test_a_user_moves_gaussian_bins_by_the_root_of_two():
    """Values private: moving all votes from one bin to another is the most there is."""
    stage = users_plan(SOUND, Squares(Fraction(1), Fraction(1, 1000))).stage
    integers = stage.measure(PrivateSums(PROBLEM.data), NOTHING)[0].integers
    for user, (one, other) in enumerate(PROBLEM.neighbours):
        squares = ((integers[one] - integers[other]) ** 2).sum(axis=1)
        assert squares.max() == 2 * USER_VOTES[user] ** 2
    (report,), (request,) = stage.sensitivity(NOTHING), stage.noise(NOTHING)
    assert report.squares_lower_bound(request, 2) == pytest.approx([1.0, 1.0])


def test_decisions_are_stored_with_the_votes():
    """The row holds the noisy votes, then what was decided from them."""
    law = Pure(EPSILON).noise()
    votes = value_votes("h", SPAN, EDGES, law)
    stage = replace(votes, decide=lambda noisy: noisy[:1] * 2, n_decided=1)
    row = stage.row(np.array([[5, 6, 7]]), NOTHING)
    outputs = NOTHING.extended("h", stage.entries, row)
    assert stage.noisy(outputs).tolist() == [5, 6, 7]
    assert stage.decisions(outputs).tolist() == [10]

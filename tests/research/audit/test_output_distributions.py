"""Exact laws of outcomes: what simulation draws, worked out branch by branch."""

import numpy as np
import pytest
from scipy.stats import laplace

import hexveil as hv
from hexveil_research.audit.output_distributions import AuditedRelease, Event, Mixture

TRIALS = 100_000
COUNTS, MEANS = [9, 7, 5, 4, 2, 1], np.array([-3.0, 0.5, 1.0, 4.0, 5.0, -1.0])
MECHANISMS = [
    hv.mechanisms.Baseline(),
    hv.mechanisms.ArrayAveraging("wrap_around", "sqrt"),
    hv.mechanisms.Levy(gamma=1, cap=9),
    hv.mechanisms.FixedQuantile(0.1, 0.9, candidates=5),
    hv.mechanisms.OptimizedQuantile(candidates=4, cap=2),
    hv.mechanisms.AKMV(candidates=6),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_simulated_outcomes_have_the_law(mechanism):
    """Shares of simulated outcomes are the exact chances, 5 standard errors aside."""
    plan = mechanism.plan(COUNTS, bounds=(-3, 5), epsilon=3)
    law = AuditedRelease(plan).mixture(MEANS)
    assert law.weights.sum() == pytest.approx(1, abs=1e-9)
    outcomes = plan.simulate(MEANS, np.random.default_rng(2), TRIALS)
    events = [Event(high=t) for t in np.linspace(-4, 6, 11)]
    events += [Event(low=1.0), Event(-1.0, 1.0), Event(-3.01, -2.99), Event(4.99, 5.01)]
    for event in events:
        chance = law.chance(event)
        error = np.sqrt(chance * (1 - chance) / TRIALS)
        assert abs(event.count(outcomes) / TRIALS - chance) <= 5 * error + 1e-12


def test_a_choice_has_a_law_of_points():
    """A choice alone has one point per candidate, at its own chance, without noise."""
    plan = hv.mechanisms.Levy(gamma=1, cap=20).plan([20] * 3, bounds=(0, 8), epsilon=2)
    subject = AuditedRelease(plan, choice_alone=True)
    bins = subject.choice.candidates.size
    middles = 8 * (np.arange(bins) + 0.5) / bins
    means = np.array([1.0, 1.5, 7.0])
    law = subject.mixture(means)
    assert sorted(law.centres) == pytest.approx(middles.tolist(), abs=1e-5)
    assert not law.scales.any()
    assert law.weights.sum() == pytest.approx(1)
    points = subject.simulate(means, np.random.default_rng(3), TRIALS)
    for centre, weight in zip(law.centres, law.weights, strict=True):
        error = np.sqrt(weight * (1 - weight) / TRIALS)
        assert abs((points == centre).mean() - weight) <= 5 * error
        assert law.chance(Event(centre, centre)) == weight
    assert law.chance(Event(middles[0] + 0.1, middles[1] - 0.1)) == 0


def test_chances_are_laplace_far_into_the_tails():
    """Chances of intervals agree with the Laplace law where its density is 1e-100."""
    law = Mixture(np.array([1.0]), np.array([2.0]), np.array([3.0]))
    for low, high in [(-700, -690), (-1, 5), (2, 2), (690, 700), (-np.inf, 2), (500, np.inf)]:
        ends = sorted((abs(low - 2), abs(high - 2)))
        far = low > 2 or high < 2
        expected = (
            laplace.sf(ends[0], scale=3) - laplace.sf(ends[1], scale=3)
            if far
            else laplace.cdf(high, 2, 3) - laplace.cdf(low, 2, 3)
        )
        assert law.chance(Event(low, high)) == pytest.approx(expected, rel=1e-9, abs=0)


def test_events_hold_their_ends():
    """An outcome at an end of an event lies within."""
    assert Event(1.0, 2.0).count(np.array([0.9, 1.0, 1.5, 2.0, 2.1])) == 3
    assert Event().count(np.array([-np.inf, 0.0])) == 2

"""IOT's lemmas: a wrong formula turns each verdict."""

import numpy as np
import pytest

import hexveil as hv
from hexveil import theory
from hexveil_research.papers.iot import (
    choices,
    gains,
    iot_claims,
    lengths,
    scaling,
    surrogate,
)

CELLS = surrogate.instances(3, 30)


@pytest.fixture(scope="module", autouse=True)
def fewer():
    """Forty random cells where the studies take 300."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(iot_claims, "instances", lambda seed: surrogate.instances(seed, 40))
        yield


def test_a_wrong_sensitivity_is_found():
    """Another formula, too little noise, or noise of another scale: the verdicts turn."""
    assert gains.moved_claim().holds
    assert not gains.moved_claim(lambda counts, _: 1 / len(counts)).holds
    assert not gains.private_claim(noise=0.9).holds
    assert gains.tail_claim(2000, 1).holds
    assert not gains.tail_claim(2000, 1, factor=1.3).holds


def test_a_wrong_cap_is_found():
    """The mean in place of the median, the largest in place of eq. (9): the verdicts turn."""
    heavy = [*CELLS, (60, *[1] * 60)]
    assert gains.median_claim(heavy).holds
    assert not gains.median_claim(heavy, max).holds
    assert gains.root_claim(CELLS).holds
    assert not gains.root_claim(CELLS, max).holds


def test_a_radius_that_is_too_small_is_found():
    """At a third of τ array means are not concentrated."""
    assert gains.concentrated_claim(2).holds
    assert not gains.concentrated_claim(2, radius=1 / 3).holds


def test_choices_that_are_right_hold():
    """With the true costs, or half the weight, what fails as printed would hold."""
    assert choices.middle_claims(choices.nearest_costs)[0].holds
    # A law that ignores the data, or prefers one end whatever the data are, never holds.
    for costs in (lambda _: np.full(4, 3.0), lambda _: np.arange(4.0), lambda _: -np.arange(4.0)):
        assert not choices.middle_claims(corrected=costs)[1].holds
    printed, right = choices.quantile_claims(factor=0.5)
    assert printed.holds
    assert right.holds
    assert not choices.quantile_claims(factor=2.0)[1].holds


def test_the_middle_loses_its_part_by_search():
    """One array: the loss is reached to a third and never exceeded; two arrays: up to twice."""
    assert choices.middle_loss(1) <= choices.EPSILON / 2 < choices.middle_loss(2)
    assert choices.middle_loss(2) <= choices.EPSILON


def test_scaling_by_other_caps_is_found():
    """A cap that does not grow with the samples, and a noise that falls with them."""
    assert scaling.samples_claim(CELLS).holds
    assert not scaling.samples_claim(CELLS, [lambda _: 2]).holds
    assert scaling.same_noise_claim(CELLS).holds
    assert not scaling.same_noise_claim(CELLS, [hv.mechanisms.Levy()]).holds


@pytest.mark.parametrize("check", [lengths.counts_claim, lengths.growing_claim, lengths.ends_claim])
def test_a_wrong_length_is_found(check):
    """A rule that takes a larger cap for a smaller ε has no lemma on its side."""

    def upside_down(counts, epsilon):
        return max(counts) if epsilon < 1 else min(counts)

    assert check(CELLS).holds
    assert not check(CELLS, upside_down).holds


def test_curves_of_another_shape_are_found():
    """A square is convex and not concave, its negative the converse."""

    def square(_, cap):
        return cap**2

    def hill(_, cap):
        return -(cap**2)

    concave, not_convex, _ = lengths.concave_claims(CELLS, square)
    assert not concave.holds
    assert not not_convex.holds
    assert not lengths.convex_claim(CELLS, hill).holds


def test_a_rule_for_the_surrogate_is_judged():
    """The true rule in place of the printed one holds, the printed one in its place fails."""
    printed, exact = surrogate.rule_claims(CELLS, printed=theory.surrogate_cap)
    assert printed.holds
    assert exact.holds
    assert not surrogate.rule_claims(CELLS, exact=max)[1].holds

"""IOT's lemmas: a wrong formula turns each verdict."""

from dataclasses import replace
from fractions import Fraction

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
from hexveil_research.papers.study import Setting

FEW = Setting(trials=400)
CELLS = surrogate.instances(3, 30)


@pytest.fixture(scope="module", autouse=True)
def fewer():
    """Forty random cells where the studies take 300."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(iot_claims, "instances", lambda seed: surrogate.instances(seed, 40))
        yield


@pytest.fixture(scope="module")
def stated():
    """Return the outcome of the study, and what it told of its progress."""
    seen = []
    return iot_claims.stated(replace(FEW, tell=seen.append)), seen


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


def test_one_user_has_no_narrow_interval():
    """Where LEVY's interval is never narrow there is nothing to show, and it does not hold."""
    assert not gains.narrow_claim((1,)).holds


def test_a_median_that_exists_is_found():
    """Without ties the printed definition names a number."""
    printed, right = gains.exact_median_claims((5, 4, 1))
    assert printed.holds
    assert right.holds


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


def test_bias_of_samples_in_their_places():
    """Counts (2, 1) in arrays [2] and [1]: U/6, as in the errata; alone in one: nothing."""
    assert choices.sample_bias(theory.best_fit([2, 1], 2), [2, 1]) == pytest.approx(1 / 6)
    assert choices.sample_bias(theory.best_fit([2], 2), [2]) == 0.0
    split = theory.wrap_around([3, 2, 2], 3)  # two full arrays, the last sample dropped
    assert choices.sample_bias(split, [3, 2, 2]) == pytest.approx(1 / 7)


def test_scaling_by_other_caps_is_found():
    """A cap that does not grow with the samples, and a noise that falls with them."""
    assert scaling.samples_claim(CELLS).holds
    assert not scaling.samples_claim(CELLS, [lambda _: 2]).holds
    assert scaling.same_noise_claim(CELLS).holds
    assert not scaling.same_noise_claim(CELLS, [hv.mechanisms.Levy()]).holds


def test_levy_where_nothing_was_cut():
    """For many samples of many users √λ is right as printed; small cells are what fails."""
    assert scaling.levy_sensitivity([400] * 50) == (pytest.approx(0.0053, rel=0.02), False)
    assert scaling.levy_sensitivity([1]) == (1.0, True)


def test_user_scaling_of_one_user_is_as_printed():
    """A user alone fills its array, so λ of them fill λ."""
    cap, arrays, right = scaling.users_claims([(4,)])
    assert cap.holds
    assert arrays.holds
    assert right.holds


def test_the_limit_needs_its_width():
    """An interval of twice U is never reached."""
    assert scaling.quantile_limit_claim(1).holds
    assert not scaling.quantile_limit_claim(1, span=150).holds


def test_the_printed_factor():
    """gamma/(2K̄) exp(2 m_UB/9), at the published K̄ = 164."""
    factor, cap, arrays = scaling.printed_factor()
    assert arrays == 164
    assert factor == pytest.approx(0.2 / 328 * np.exp(2 * cap / 9))


@pytest.mark.parametrize("check", [lengths.counts_claim, lengths.growing_claim, lengths.ends_claim])
def test_a_wrong_length_is_found(check):
    """A rule that takes a larger cap for a smaller ε has no lemma on its side."""

    def upside_down(counts, epsilon):
        return max(counts) if epsilon < 1 else min(counts)

    assert check(CELLS).holds
    assert not check(CELLS, upside_down).holds


def test_bias_by_search():
    """Both signs are looked at: weights too large for some are too small for others."""
    assert lengths.searched_bias([0.5, 0.5], (3, 1)) == pytest.approx(0.25)
    assert lengths.searched_bias([0.75, 0.25], (3, 1)) == 0.0


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


def test_equation_15_is_right_for_a_cell_of_equal_counts():
    """One cap only, all arrays full: no clipping, and the noise of one user in L."""
    assert surrogate.worst_error((4, 4), 4, Fraction(1)) == Fraction(1, 2)
    assert surrogate.worst_error((4, 4), 2, Fraction(1)) == 1


def test_a_rule_for_the_surrogate_is_judged():
    """The true rule in place of the printed one holds, the printed one in its place fails."""
    printed, exact = surrogate.rule_claims(CELLS, printed=theory.surrogate_cap)
    assert printed.holds
    assert exact.holds
    assert not surrogate.rule_claims(CELLS, exact=max)[1].holds


def test_one_cell_decides_nothing():
    """Both orders of the ends must be seen."""
    assert not surrogate.undecided_claim([(4, 4)]).holds

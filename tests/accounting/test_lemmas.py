"""The printed lemmas that mechanisms rest on: they hold on random counts, or here is where not.

docs/understand/errata.md lists those that do not.
"""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import gamma, norm

from accounting.small_cells import SMALL, SPAN, keeps, mask, moved, name, owners, values, variance
from examples import examples
from hexveil import Occupancy, theory
from strategies import occupancies

COUNTS = st.lists(st.integers(1, 30), min_size=1, max_size=20)
SCALES = st.integers(2, 6)
GAMMA = 0.2


def kept(counts, cap):
    return [min(m, cap) for m in counts]


def proxy(counts, cap):
    """Δ̃ of IOT section III-C for U = 1: the sensitivity if every array were full."""
    return Fraction(cap) / sum(kept(counts, cap))


def every_cap(counts):
    return range(min(counts), max(counts) + 1)


def minimax_error(counts, cap, epsilon):
    """IOT eq. (15) for U = 1."""
    return 1 - Fraction(sum(kept(counts, cap)), sum(counts)) + proxy(counts, cap) / epsilon


def levy_sensitivity(n_arrays, cap):
    """IOT eq. (8) for U = 1."""
    tau = math.sqrt(math.log(2 * n_arrays / GAMMA) / (2 * cap))
    return min(3 * tau, 1.0) / n_arrays


@given(COUNTS, st.fractions(0, 1, max_denominator=20))
def test_iot_lemma_iii_1_and_comp_lemma_d_1(counts, share):
    """Capping does not raise the mean's sensitivity, for any real cap up to m*."""
    cap = max(share * max(counts), Fraction(1, 20))
    assert Fraction(max(counts), sum(counts)) >= proxy(counts, cap)


@given(COUNTS)
def test_iot_lemma_iii_2(counts):
    """The median's gain is at least half of the largest, m* L / N."""
    gain = Fraction(max(counts), sum(counts)) / proxy(counts, theory.median_cap(counts))
    largest = Fraction(max(counts) * len(counts), sum(counts))
    assert largest / 2 <= gain <= largest


def test_the_printed_median_need_not_exist():
    """Three equal counts: 3 or 0 of them are not below a number, and exactly 2 are asked for."""
    not_below = {sum(m >= x for m in (5, 5, 5)) for x in (4, 5, 6)}
    assert not_below == {3, 0}
    assert theory.median_cap([5, 5, 5]) == 5


@given(COUNTS)
def test_iot_equation_5(counts):
    """The gain of a cap is at most m*/cap and at most m* L / N, each met at its end (RW (1))."""
    largest, total = max(counts), sum(counts)
    gains = {cap: Fraction(largest, total) / proxy(counts, cap) for cap in every_cap(counts)}
    most = Fraction(largest * len(counts), total)
    assert all(gain <= min(Fraction(largest, cap), most) for cap, gain in gains.items())
    assert gains[largest] == 1
    assert gains[min(counts)] == most


@given(COUNTS, SCALES)
def test_iot_lemma_iv_1_sample_scaling(counts, scale):
    """More samples of everybody: caps grow with them, the arrays stay (RW Lemma V.1)."""
    grown = [scale * m for m in counts]
    for rule in (theory.median_cap, theory.sqrt_cap):
        cap = rule(counts)
        assert rule(grown) == scale * cap
        for group in (theory.wrap_around, theory.best_fit):
            assert group(grown, scale * cap).n_arrays == group(counts, cap).n_arrays


@given(COUNTS, SCALES)
def test_iot_proposition_iv_1_but_for_levy(counts, scale):
    """Under sample scaling the sensitivities of Baseline and ArrayAveraging stay."""
    grown = [scale * m for m in counts]
    assert theory.mean_sensitivity(grown, 1.0) == pytest.approx(
        theory.mean_sensitivity(counts, 1.0)
    )
    for group in (theory.wrap_around, theory.best_fit):
        before = group(counts, theory.sqrt_cap(counts)).user_sensitivity(1.0)
        after = group(grown, theory.sqrt_cap(grown)).user_sensitivity(1.0)
        assert after.tolist() == pytest.approx(before.tolist())


@given(COUNTS, SCALES)
def test_iot_proposition_iv_1_for_levy(counts, scale):
    """Levy's falls by √λ where 3τ <= U; where 3τ was cut to U it falls by less."""
    cap = theory.sqrt_cap(counts)
    arrays = theory.best_fit(counts, cap).n_arrays
    before, after = levy_sensitivity(arrays, cap), levy_sensitivity(arrays, scale * cap)
    if before < 1.0 / arrays:
        assert after == pytest.approx(before / math.sqrt(scale))
    assert before / math.sqrt(scale) <= after + 1e-15
    assert after <= before


def test_iot_proposition_iv_1_fails_for_levy_where_the_interval_was_cut():
    """One user of one sample: 3τ = 3.2 U, so doubling the samples changes nothing."""
    assert levy_sensitivity(1, 2) == levy_sensitivity(1, 1) == 1.0


@given(COUNTS, SCALES)
def test_iot_lemma_iv_2_holds_for_the_cap(counts, scale):
    """User scaling leaves both rules' caps as they are (RW Lemma V.2)."""
    more = np.repeat(counts, scale)
    for rule in (theory.median_cap, theory.sqrt_cap):
        assert rule(more) == rule(counts)


@given(COUNTS, SCALES)
def test_what_is_true_of_iot_lemma_iv_2(counts, scale):
    """λK <= K' < λ(K + 1) under WRAPAROUND; BESTFIT needs at least λΣΓ/m_UB arrays."""
    cap, more = theory.sqrt_cap(counts), np.repeat(counts, scale)
    before, after = theory.wrap_around(counts, cap), theory.wrap_around(more, cap)
    assert scale * before.n_arrays <= after.n_arrays < scale * (before.n_arrays + 1)
    assert theory.best_fit(more, cap).n_arrays * cap >= scale * sum(kept(counts, cap))


def test_iot_lemma_iv_2_fails_for_the_arrays():
    """K' = λK and K̄' = λK̄ fail for (2, 1); BESTFIT can also need more than λK̄ arrays."""
    cap = theory.sqrt_cap([2, 1])
    assert cap == 2
    assert theory.wrap_around([2, 1], cap).n_arrays == 1
    assert theory.wrap_around([2, 1, 2, 1], cap).n_arrays == 3  # printed: 2
    assert theory.best_fit([2, 1], cap).n_arrays == 2
    assert theory.best_fit([2, 1, 2, 1], cap).n_arrays == 3  # printed: 4
    counts = [20, 9, 4, 3, 2]
    assert theory.sqrt_cap(counts) == 9
    assert theory.best_fit(counts, 9).n_arrays == 3
    assert theory.best_fit(counts * 2, 9).n_arrays == 7  # printed: 6


@given(st.lists(st.integers(1, 20), min_size=1, max_size=6))
@examples(40)
def test_iot_proposition_iv_2_for_levy(counts):
    """From the printed λ on, ArrayAveraging's noise is below Levy's, which pays ε/2 for it."""
    cap = theory.sqrt_cap(counts)
    arrays = theory.best_fit(counts, cap).n_arrays
    scale = max(1, math.ceil(GAMMA / (2 * arrays) * math.exp(2 * cap / 9)))
    more = theory.best_fit(np.repeat(counts, scale), cap)
    assert more.user_sensitivity(1.0).max() < 2 * levy_sensitivity(more.n_arrays, cap)


def test_iot_proposition_iv_2_for_quantiles():
    """With one sample per array the extremes spread over more than U/2 as users are added."""
    draw, rank = np.random.default_rng(5), 2  # ε = 1
    for users in (10**3, 10**4, 10**5):
        means = np.sort(np.clip(draw.normal(20.66769, 10.730, users), 0, 65))
        width = means[-rank] - means[rank - 1]
        assert 2 * width > 65.0  # noise of 2 width/K at ε/2 against U/K


def test_iot_proposition_iv_2_needs_more_users_than_there_are():
    """At the published cap an array mean of 0 has probability Q^60: below 10^-90."""
    zero = norm.sf(20.66769 / 10.730)
    assert 60 * math.log10(zero) < -90
    printed = 60 * math.log10(1 - zero)  # the proof writes (1 - Q)^w for it
    assert printed > -1


@given(COUNTS)
def test_iot_lemma_v_1_if_arrays_are_full(counts):
    """Dropping all but min(m, cap) has bias U(1 - ΣΓ/N) when samples are averaged plainly."""
    total = sum(counts)
    for cap in {1, theory.sqrt_cap(counts), max(counts)}:
        n = sum(kept(counts, cap))
        weights = np.concatenate([[1 / n] * min(m, cap) + [0] * max(m - cap, 0) for m in counts])
        truth = theory.linear_bias(weights, np.ones(total, dtype=int), 1.0)
        assert theory.truncation_mean_bias(kept(counts, cap), counts, 1.0) == pytest.approx(truth)


def test_iot_lemma_v_1_fails_for_arrays_as_best_fit_leaves_them():
    """ERRATA 8: raw samples of (2, 1) in arrays [2] and [1]: printed 0, true U/6."""
    groups = theory.best_fit([2, 1], 2)
    per_sample = np.repeat(1 / (groups.n_arrays * groups.fill), groups.fill)
    assert theory.linear_bias(per_sample, [1, 1, 1], 1.0) == pytest.approx(1 / 6)
    assert theory.truncation_mean_bias([2, 1], [2, 1], 1.0) == 0.0


@given(COUNTS, st.fractions(Fraction(1, 100), 100, max_denominator=100))
def test_iot_lemma_v_2(counts, epsilon):
    """A minimiser of the worst-case error is one of the counts, among all real caps."""
    best = min(minimax_error(counts, m, epsilon) for m in counts)
    low, high = min(counts), max(counts)
    caps = [Fraction(low) + Fraction((high - low) * k, 60) for k in range(61)]
    assert best <= min(
        1 - sum(kept(counts, cap)) / Fraction(sum(counts)) + proxy(counts, cap) / epsilon
        for cap in caps
    )


@pytest.mark.slow
@given(COUNTS, st.lists(st.fractions(Fraction(1, 100), 100, max_denominator=100), min_size=2))
def test_iot_lemma_v_3(counts, epsilons):
    """The smallest minimiser does not fall as ε grows."""
    caps = [theory.minimax_cap(counts, epsilon) for epsilon in sorted(epsilons)]
    assert all(before <= after for before, after in pairwise(caps))


@given(COUNTS, st.fractions(1, 9, max_denominator=5))
def test_iot_lemma_v_4_and_corollary_v_1(counts, factor):
    """The cap is m_* up to ε = m_*/(LN), and m* from (N/(L m_*))² on."""
    total, users, least = sum(counts), len(counts), min(counts)
    low, high = Fraction(least, users * total), Fraction(total, users * least) ** 2
    assert theory.minimax_cap(counts, low / factor) == least
    assert theory.minimax_cap(counts, high * factor) == max(counts)


def bends_down(function, low, high, parts=8):
    """Whether a function is concave on a grid between two ends."""
    at = [function(low + Fraction(k, parts) * (high - low)) for k in range(parts + 1)]
    return all(2 * at[i] >= at[i - 1] + at[i + 1] for i in range(1, parts))


@given(COUNTS)
def test_iot_lemma_vi_1(counts):
    """The function m / Σ min(m_l, m) is concave between neighbouring counts (RW Lemma H.1)."""
    for low, high in pairwise(sorted(set(counts))):
        assert bends_down(lambda cap: proxy(counts, cap), Fraction(low), Fraction(high))


@given(COUNTS)
def test_iot_lemma_vi_2_names_a_minimiser(counts):
    """Where N/m* is whole and that largest count is not below the mean, no count is better."""
    padded = counts + [1] * (-sum(counts) % max(counts))
    rank = sum(padded) // max(padded)
    stationary = sorted(padded)[-rank]
    assume(stationary * len(padded) >= sum(padded))
    best = Fraction(theory.surrogate_cap(padded)).limit_denominator(20 * 30)
    found = theory.surrogate_objective(padded, Fraction(stationary))
    assert found == theory.surrogate_objective(padded, best)


def test_iot_lemma_vi_2_does_not_name_all_stationary_points():
    """Counts (6, 4, 1, 1): the objective is flat from the mean, 3, to the second count, 4."""
    counts = [6, 4, 1, 1]
    flat = {theory.surrogate_objective(counts, Fraction(k, 4)) for k in range(12, 17)}
    assert flat == {Fraction(5, 6)}
    assert theory.surrogate_cap(counts) == 3.0
    assert theory.surrogate_cap(counts, rule="printed") == 4.0


@given(st.floats(1e-6, 0.999), st.integers(2, 5))
def test_comp_proposition_ii_1_fails_for_more_than_one_number(delta, numbers):
    """|Z_1| + ... + |Z_d| follows a gamma law, whose tail is above δ; each |Z_i| has tail δ."""
    bound = math.log(1 / delta)
    assert gamma.sf(bound, 1) == pytest.approx(delta)
    assert gamma.sf(bound, numbers) > delta
    everywhere = 1 - (1 - math.exp(-math.log(numbers / delta))) ** numbers
    assert everywhere <= delta * (1 + 1e-9)  # the largest of them, with ln(d/δ)


@pytest.mark.parametrize("users", range(1, 40))
def test_comp_corollary_iii_1(users):
    """One sample per user: U²(L - 1)/L², more than 8 times below the usual 8 U²/L."""
    exact = theory.variance_sensitivity([1] * users, 3.0)
    assert exact == pytest.approx(9.0 * (users - 1) / users**2)
    assert 8 * exact < 8 * 9.0 / users


@pytest.mark.parametrize("counts", SMALL, ids=name)
def test_comp_lemmas_iii_1_and_iii_2(counts):
    """The variance moves most from all values equal: the user's own to the mean of the others."""
    x, own = values(sum(counts)), owners(counts) == np.argmax(counts)
    others = x[:, ~own]
    equal = np.ptp(others, axis=1) == 0 if others.size else np.ones(len(x), dtype=bool)
    most = x[equal].var(axis=1).max()
    assert most == pytest.approx(theory.variance_sensitivity(counts, SPAN), abs=1e-12)
    assert most == pytest.approx(moved(x.var(axis=1), counts, int(np.argmax(counts))), abs=1e-12)


def clipped_variance(counts, cap):
    return theory.variance_sensitivity(kept(counts, cap), 1.0)


@given(st.lists(st.integers(1, 30), min_size=4, max_size=12))
def test_comp_lemma_d_2(counts):
    """Between neighbouring counts with three users or more above, it is concave in a real cap."""

    def sensitivity(cap):
        share = proxy(counts, cap)
        return share * (1 - share)

    for low, high in pairwise(sorted(counts)[:-2]):
        assert bends_down(sensitivity, Fraction(low), Fraction(high))


def test_the_proof_of_comp_lemma_d_2_has_a_slip():
    """Of its two terms, -m²/n² with n = c1 + c2 m is not concave by itself: c1 = 1, c2 = 3."""
    assert not bends_down(lambda m: -((m / (1 + 3 * m)) ** 2), Fraction(1), Fraction(2))


@given(st.lists(st.integers(1, 30), min_size=3, max_size=12))
def test_comp_lemma_d_3_for_three_users_or_more(counts):
    """The variance's sensitivity is least at a cap that is one of the counts."""
    best = min(clipped_variance(counts, m) for m in counts)
    assert best <= min(clipped_variance(counts, cap) for cap in every_cap(counts)) + 1e-12


def test_comp_lemma_d_3_fails_for_two_users():
    """Counts (3, 1): cap 2 leaves three samples and 2/9; caps 1 and 3 leave an even number, 1/4."""
    sensitivities = [clipped_variance([3, 1], cap) for cap in (1, 2, 3)]
    assert sensitivities == pytest.approx([1 / 4, 2 / 9, 1 / 4])


@given(COUNTS)
def test_comp_lemma_d_4(counts):
    """For an even number of samples no cap raises the variance's sensitivity."""
    assume(sum(counts) % 2 == 0)
    whole = theory.variance_sensitivity(counts, 1.0)
    assert all(clipped_variance(counts, cap) <= whole + 1e-12 for cap in every_cap(counts))


def test_comp_lemma_d_4_needs_the_even_number():
    """Counts (2, 1): 2/9, and 1/4 once the first is capped."""
    assert theory.variance_sensitivity([2, 1], 1.0) == pytest.approx(2 / 9)
    assert clipped_variance([2, 1], 1) == 0.25


@pytest.mark.parametrize("counts", SMALL, ids=name)
def test_comp_lemmas_e_1_and_e_2(counts):
    """With more than half kept the whole variance is the larger, most so if the kept are equal."""
    x, total = values(sum(counts)), sum(counts)
    for kept in keeps(counts):
        if 2 * sum(kept) <= total or sum(kept) == total:
            continue
        mass = mask(kept, counts) / sum(kept)
        above = x.var(axis=1) - variance(x, mass)
        assert above.max() >= -above.min()
        equal = variance(x, mass) == 0.0
        assert x[equal].var(axis=1).max() == pytest.approx(above.max(), abs=1e-12)


@given(occupancies(users=8, cells=5), st.sampled_from(["0.1", "1", "5"]))
def test_comp_proposition_v_1(occupancy, epsilon):
    """What CLIP-USER keeps, released with noise for ε a cell, loses at most K ε."""
    done = theory.clip_user(occupancy, 5.0, epsilon)
    live = done.contributions > 0
    left = Occupancy.from_coo(occupancy.cell[live], occupancy.user[live], done.contributions[live])
    cells = [left.n[left.cell == g] for g in range(left.n_cells)]
    mean = [2 / float(epsilon) * theory.mean_sensitivity(n, 5.0) for n in cells]
    spread = [2 / float(epsilon) * theory.variance_sensitivity(n, 5.0) for n in cells]
    fixed = [b if b > 0 else np.inf for b in spread]  # one sample has no variance
    loss = theory.privacy_loss(left, mean, fixed, 5.0)
    assert loss.max() <= done.degradation * float(epsilon) * (1 + 1e-9)
    assert done.errors.max() <= done.bound * (1 + 1e-11)


def test_wc_remark_on_the_worst_data_needs_symmetric_intervals():
    """All samples at U are the worst for [1/4, 3/4]; for [1/2, 1] they have no error at all."""
    for low, high, worst in ((0.25, 0.75, True), (0.5, 1.0, False)):
        at_the_top = abs(1.0 - np.clip(1.0, low, high))
        assert (at_the_top == theory.clipping_bias([low], [high], 1.0)) == worst

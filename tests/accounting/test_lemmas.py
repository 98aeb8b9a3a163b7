"""The printed lemmas that mechanisms rest on: they hold on random counts, or here is where not.

docs/understand/errata.md lists those that do not. What rests on no code of the package is held by
the studies of claims: tests/research/papers/test_paper_gallery.py.
"""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import gamma, norm

from accounting.small_cells import SMALL, SPAN, moved, name, owners, values
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


def minimax_error(counts, cap, epsilon):
    """IOT eq. (15) for U = 1."""
    return 1 - Fraction(sum(kept(counts, cap)), sum(counts)) + proxy(counts, cap) / epsilon


def levy_sensitivity(n_arrays, cap):
    """IOT eq. (8) for U = 1."""
    tau = math.sqrt(math.log(2 * n_arrays / GAMMA) / (2 * cap))
    return min(3 * tau, 1.0) / n_arrays


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


def test_the_proof_of_comp_lemma_d_2_has_a_slip():
    """Of its two terms, -m²/n² with n = c1 + c2 m is not concave by itself: c1 = 1, c2 = 3."""
    assert not bends_down(lambda m: -((m / (1 + 3 * m)) ** 2), Fraction(1), Fraction(2))


def test_comp_lemma_d_3_fails_for_two_users():
    """Counts (3, 1): cap 2 leaves three samples and 2/9; caps 1 and 3 leave an even number, 1/4."""
    sensitivities = [clipped_variance([3, 1], cap) for cap in (1, 2, 3)]
    assert sensitivities == pytest.approx([1 / 4, 2 / 9, 1 / 4])


def test_comp_lemma_d_4_needs_the_even_number():
    """Counts (2, 1): 2/9, and 1/4 once the first is capped."""
    assert theory.variance_sensitivity([2, 1], 1.0) == pytest.approx(2 / 9)
    assert clipped_variance([2, 1], 1) == 0.25


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

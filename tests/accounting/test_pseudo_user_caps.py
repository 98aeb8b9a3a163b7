"""Rules for the cap, against brute force over every cap."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from hexveil import theory
from hexveil.accounting import pseudo_user_caps as caps_module
from hexveil.base.errors import InputError

COUNTS = st.lists(st.integers(1, 40), min_size=1, max_size=25)
EPSILON = st.sampled_from(["0.01", "0.1", "0.5", "1", "2", "10", "100"])


def kept(counts, cap):
    return sum(min(m, cap) for m in counts)


def full_error(counts, cap, epsilon, factor=1):
    """IOT eq. (15) for U = 1, exactly."""
    noise = Fraction(cap) * Fraction(factor) / (Fraction(epsilon) * kept(counts, cap))
    return 1 - Fraction(kept(counts, cap), sum(counts)) + noise


def every_cap(counts):
    return range(min(counts), max(counts) + 1)


def heavy_tailed(seed, users=40):
    return ((np.random.default_rng(seed).pareto(1.2, users) * 10).astype(int) + 1).tolist()


def test_the_published_cell_has_the_published_caps(shared):
    """IOT section IV-B: median 46, square-root rule 60, Baseline's error at ε = 1."""
    counts = json.loads((shared / "data" / "itms_like_counts.json").read_text())
    assert theory.median_cap(counts) == 46
    assert theory.sqrt_cap(counts) == 60
    assert theory.mean_sensitivity(counts, 65) == pytest.approx(65 * 417 / 17166, rel=1e-12)
    assert round(theory.mean_sensitivity(counts, 65), 3) == 1.579


@given(COUNTS)
def test_the_median_is_the_middle_from_above(counts):
    """At least ⌈L/2⌉ counts are not below it, and it is the largest such value."""
    cap, half = theory.median_cap(counts), math.ceil(len(counts) / 2)
    assert sum(m >= cap for m in counts) >= half
    assert sum(m > cap for m in counts) < half
    if len(set(counts)) == len(counts):
        assert sum(m >= cap for m in counts) == half  # IOT's definition


@given(COUNTS)
def test_the_square_root_rule_is_the_best_of_every_cap(counts):
    """IOT eq. (9) over all whole caps from m_* to m*, the smallest of equals."""
    best = min(every_cap(counts), key=lambda c: (-Fraction(kept(counts, c) ** 2, c), c))
    assert theory.sqrt_cap(counts) == best


@given(COUNTS, EPSILON)
def test_the_minimax_cap_is_the_best_of_every_cap(counts, epsilon):
    """IOT eq. (15) over all whole caps from m_* to m*, the smallest of equals."""
    best = min(every_cap(counts), key=lambda c: (full_error(counts, c, epsilon), c))
    assert theory.minimax_cap(counts, epsilon) == best


@given(COUNTS, EPSILON)
def test_the_other_minimax_cap_weighs_noise_by_its_standard_deviation(counts, epsilon):
    """ERRATA 15: RW eq. (4) is IOT eq. (15) at ε/√2."""
    root = Fraction(math.sqrt(2))
    best = min(every_cap(counts), key=lambda c: (full_error(counts, c, epsilon, root), c))
    assert theory.minimax_cap(counts, epsilon, noise="std") == best


def test_the_two_minimax_caps_differ_on_the_published_cell(shared):
    """ERRATA 15: at ε = 0.01 the heavier noise of RW chooses a smaller cap."""
    counts = json.loads((shared / "data" / "itms_like_counts.json").read_text())
    assert theory.minimax_cap(counts, "0.01", noise="std") < theory.minimax_cap(counts, "0.01")


@given(COUNTS)
def test_the_surrogate_objective_is_the_printed_one(counts):
    """IOT eq. (19), term by term."""
    mean, cap = Fraction(sum(counts), len(counts)), Fraction(7, 2)
    expected = 1 - sum(min(Fraction(m), cap) for m in counts) / sum(counts)
    expected += max(cap, mean) / max(counts)
    assert theory.surrogate_objective(counts, cap) == expected


def test_the_printed_surrogate_rule_misses_the_minimum():
    """ERRATA 6: its end points are worse than the mean on nearly every heavy-tailed cell."""
    worse = 0
    for seed in range(100):
        counts = heavy_tailed(seed)
        printed = Fraction(theory.surrogate_cap(counts, rule="printed"))
        exact = Fraction(theory.surrogate_cap(counts)).limit_denominator(len(counts))
        objective = [theory.surrogate_objective(counts, cap) for cap in (exact, printed)]
        assert objective[0] <= objective[1]
        worse += objective[0] < objective[1]
    assert worse >= 90


def test_the_printed_surrogate_rule_is_followed_in_both_steps():
    """Step (i) where N/m* is whole and that count is not below the mean; else an end point."""
    assert theory.surrogate_cap([4, 4, 2, 2], rule="printed") == 4.0  # N/m* = 3, m_3 below 3
    assert theory.surrogate_cap([6, 4, 1, 1], rule="printed") == 4.0  # N/m* = 2, m_2 = 4 >= 3
    assert theory.surrogate_cap([10, 3, 1, 1], rule="printed") == 10.0
    assert theory.surrogate_cap([5, 1, 1, 1, 1], rule="printed") == 1.0


@given(COUNTS, EPSILON, st.sampled_from(["mean", "std"]))
@examples(60)
def test_the_exact_cap_is_the_best_of_every_cap(counts, epsilon, noise):
    """ERRATA 8: no whole cap has a smaller planning error under BESTFIT; pruning loses none."""
    price = float(epsilon) / (math.sqrt(2) if noise == "std" else 1.0)
    for many, caps in ((10_000, every_cap(counts)), (0, sorted(set(counts)))):
        errors = {
            cap: theory.linear_error(theory.best_fit(counts, cap).weights, counts, 1.0, price)
            for cap in caps
        }
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(caps_module, "MANY_CAPS", many)
            found = theory.exact_cap(counts, epsilon, noise)
        assert errors[found] == pytest.approx(min(errors.values()), rel=1e-11)
        assert found == min(c for c in errors if errors[c] <= errors[found] * (1 + 1e-13))


@given(st.lists(st.integers(1, 12), min_size=1, max_size=14), EPSILON)
def test_skipped_caps_could_not_have_won(counts, epsilon):
    """The floor by which caps are skipped is below BESTFIT's error for every cap, and near it."""
    m, caps, price = np.array(counts), np.array(every_cap(counts)), 1 / Fraction(epsilon)
    floor = caps_module._error_floor(m, caps, price)
    for cap, least in zip(caps, floor, strict=True):
        error = theory.linear_error(theory.best_fit(m, cap).weights, m, 1.0, epsilon)
        assert least <= error * (1 + 1e-12)


def test_full_arrays_mislead_the_choice_of_cap(shared):
    """ERRATA 8: on the published counts IOT's cap costs half as much again at ε = 1."""
    counts = json.loads((shared / "data" / "itms_like_counts.json").read_text())
    error = {
        cap: theory.linear_error(theory.best_fit(counts, cap).weights, counts, 65.0, 1)
        for cap in (theory.minimax_cap(counts, 1), theory.exact_cap(counts, 1))
    }
    printed, exact = error.values()
    assert printed > 1.5 * exact


def test_unknown_words_and_bad_numbers_are_refused():
    """Each error names the argument and what it may be."""
    with pytest.raises(InputError, match='noise must be "mean" or "std"'):
        theory.minimax_cap([2, 1], 1, noise="median")
    with pytest.raises(InputError, match='rule must be "exact" or "printed"'):
        theory.surrogate_cap([2, 1], rule="both")

    with pytest.raises(InputError, match="epsilon must be positive and finite"):
        theory.minimax_cap([2, 1], 0)
    with pytest.raises(InputError, match="counts must be whole numbers"):
        theory.sqrt_cap([])

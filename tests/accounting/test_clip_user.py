"""CLIP-USER against a literal Algorithm 1 in exact numbers, its laws, and COMP's synthetic figures.

The oracle keeps a table of kept counts, restarts every error from it, and uses Fractions.
"""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from hexveil import Occupancy, theory
from hexveil.base.errors import InputError
from hexveil_research.papers.comp_setting import SPAN, comp_setting
from strategies import occupancies

EPSILONS = ("0.1", "0.5", "1", "2", "10")


def sensitivities(kept, span):
    """COMP eq. (9) and Lemma III.3."""
    n, most = sum(kept), max(kept)
    if n > 2 * most:
        return span * Fraction(most, n), span**2 * Fraction(most * (n - most), n * n)
    return span * Fraction(most, n), span**2 / 4 * (1 - Fraction(n % 2, n * n))


def biases(kept, counts, span):
    """COMP Theorems IV.1 and IV.2, the cases as in ERRATA 1."""
    n, total = sum(kept), sum(counts)
    mean = span * (1 - Fraction(n, total))
    if n == total:
        return mean, Fraction(0)
    if total < 2 * n:
        return mean, span**2 * Fraction(n * (total - n), total**2)
    return mean, span**2 / 4 * (1 - Fraction(total % 2, total**2))


def cell_errors(kept, counts, span, epsilon):
    """COMP eq. (13), mean and variance apart; infinite if nothing is kept."""
    if not sum(kept):
        return math.inf, math.inf
    pairs = zip(biases(kept, counts, span), sensitivities(kept, span), strict=True)
    return tuple(bias + 2 * moved / epsilon for bias, moved in pairs)


def judged(errors, targets):
    """One number per cell: the sum, or the larger share of its target."""
    if targets is None:
        return sum(errors)
    return max(e / t if 0 < t < math.inf else 0 for e, t in zip(errors, targets, strict=True))


def algorithm_1(table, span, epsilon, *, bound=None, targets=None, unfinished="undo", choose=min):
    """Return kept counts, users down and cells across, K and (degree, treated, finished).

    The cell of smallest initial error is exempt, as the paper runs it. `choose=max` is line 11 as
    eq. (14) prints it.
    """
    table, span, epsilon = np.asarray(table).tolist(), Fraction(span), Fraction(epsilon)
    users, cells = range(len(table)), range(len(table[0]))
    gamma = [list(row) for row in table]

    def error(g):
        counts = [table[u][g] for u in users]
        return judged(cell_errors([gamma[u][g] for u in users], counts, span, epsilon), targets)

    initial = [error(g) for g in cells]
    limit = 1 if targets else max(initial) if bound is None else bound
    untouched = min(cells, key=lambda g: initial[g])
    stages, halt = [], False
    while not halt:
        before = [list(row) for row in gamma]
        degree = [sum(count > 0 for count in row) for row in gamma]
        stage = [u for u in users if degree[u] == max(degree)]
        treated = 0
        for u in stage:
            after = {}
            for g in cells:
                if gamma[u][g] and g != untouched:
                    held, gamma[u][g] = gamma[u][g], 0
                    after[g] = error(g)
                    gamma[u][g] = held
            least = choose(after, key=after.get, default=None)
            if least is None or after[least] > limit:
                halt = True
                break
            gamma[u][least] = 0
            treated += 1
        stages.append((max(degree), treated, not halt))
    if unfinished == "undo":
        gamma = before
    return gamma, max(sum(count > 0 for count in row) for row in gamma), stages


def dense(occupancy, per_pair):
    table = np.zeros((occupancy.n_users, occupancy.n_cells), dtype=np.int64)
    table[occupancy.user, occupancy.cell] = per_pair
    return table


def agree(occupancy, done, expected):
    """Compare a suppression with the oracle's answer."""
    gamma, degradation, stages = expected
    assert dense(occupancy, done.contributions).tolist() == gamma
    assert done.degradation == degradation
    assert [(s.degree, s.suppressed, s.finished) for s in done.stages] == stages


BOUNDS = [None, 1, 3, 10, 100]
TARGETS = [None, (1, 4), (4, 2), (2, math.inf), (math.inf, 10)]


@examples(120)
@given(
    occupancies(users=7),
    st.sampled_from(EPSILONS),
    st.sampled_from([*(("sum", one) for one in BOUNDS), *(("separate", one) for one in TARGETS)]),
    st.sampled_from(["undo", "keep"]),
)
def test_it_is_algorithm_1(occupancy, epsilon, bound, unfinished):
    """ERRATA 1 and 2: the same pairs, K and stages as a literal transcription, any bound.

    Cells are judged by the sum, or by the larger share of the targets, with E = 1.
    """
    (error, limits), table = bound, dense(occupancy, occupancy.n)
    asked = {"bound": limits}
    if error == "separate":
        whole = [cell_errors(column, column, 3, Fraction(epsilon)) for column in columns(table)]
        judge = limits or [max(errors) for errors in zip(*whole, strict=True)]
        asked = {"targets": judge}
    expected = algorithm_1(table, 3, epsilon, unfinished=unfinished, **asked)
    done = theory.clip_user(
        occupancy, 3, epsilon, error=error, bound=limits, unfinished_stage=unfinished
    )
    agree(occupancy, done, expected)
    if error == "separate":
        assert done.bound == pytest.approx([float(one) for one in judge], rel=1e-12)


def columns(table):
    """Each cell's counts of the users it has."""
    return [[count for count in column if count] for column in np.asarray(table).T.tolist()]


def larger(seed, users=40, cells=9):
    """Draw counts with a heavy tail; every user is in several cells."""
    draw = np.random.default_rng(seed)
    table = draw.geometric(0.05, (users, cells)) * (draw.random((users, cells)) < 0.6)
    table[np.arange(users), draw.integers(0, cells, users)] += 1
    return Occupancy.from_dense(table * draw.choice([1, 1, 1, 6], table.shape))


@pytest.mark.parametrize(("seed", "epsilon"), list(product(range(3), ("0.05", "0.3", "2"))))
def test_many_stages_agree_with_algorithm_1(seed, epsilon):
    """Forty users of up to nine cells: short and long runs, whichever way cells are compared."""
    occupancy = larger(seed)
    table = dense(occupancy, occupancy.n)
    for error, targets in (("sum", None), ("separate", (60.0, 1500.0))):
        done = theory.clip_user(occupancy, 65, epsilon, error=error, bound=targets)
        agree(occupancy, done, algorithm_1(table, 65, epsilon, targets=targets))


@given(occupancies(users=8, cells=5), st.sampled_from(EPSILONS), st.booleans())
def test_errors_stay_within_the_bound_and_are_those_of_the_formulas(occupancy, epsilon, keep):
    """No cell is above E; K never grows; each error is bias against the original plus noise."""
    kind = "keep" if keep else "undo"
    done = theory.clip_user(occupancy, 5, epsilon, unfinished_stage=kind)
    assert done.errors.max() <= done.bound * (1 + 1e-11)
    assert 1 <= done.degradation <= occupancy.cells_per_user.max()
    assert done.degradation == done.stages[-1].degree
    assert ((done.contributions == 0) | (done.contributions == occupancy.n)).all()
    assert (done.contributions[occupancy.cell == done.exempt] > 0).all()
    for g in range(occupancy.n_cells):
        kept, counts = done.contributions[occupancy.cell == g], occupancy.n[occupancy.cell == g]
        live = kept[kept > 0]
        noise = theory.mean_sensitivity(live, 5.0), theory.variance_sensitivity(live, 5.0)
        mean = theory.truncation_mean_bias(kept, counts, 5.0) + 2 / float(epsilon) * noise[0]
        spread = theory.truncation_variance_bias(kept, counts, 5.0) + 2 / float(epsilon) * noise[1]
        assert done.mean_errors[g] == pytest.approx(mean, rel=1e-12)
        assert done.variance_errors[g] == pytest.approx(spread, rel=1e-12)
        assert done.errors[g] == pytest.approx(mean + spread, rel=1e-12)


@pytest.mark.parametrize(
    ("epsilon", "gamma", "published", "low", "high"),
    [(1, 3, 5.0, 378, 441), (2, 3, 12.0, 189, 221), (2, 6, 10.5, 309, 357), (2, 9, 10.5, 414, 472)],
)
def test_the_synthetic_setting_gives_the_known_loss(epsilon, gamma, published, low, high):
    """Mean over ten draws of K ε, within 0.6 of four to six other draws; E in a fixed range.

    The figures are those that the project's goals state for CLIP-USER on COMP section VI-A.2.
    """
    runs = [theory.clip_user(comp_setting(gamma, seed), SPAN, epsilon) for seed in range(10)]
    assert np.mean([run.degradation for run in runs]) * epsilon == pytest.approx(published, abs=0.6)
    assert all(low - 1 <= run.bound <= high + 1 for run in runs)
    assert all(run.errors.max() <= run.bound * (1 + 1e-11) for run in runs)


def test_the_synthetic_setting_is_as_described():
    """4095 users, the first in all twelve cells, half of them in one; one heavy hitter a cell."""
    occupancy, plain = comp_setting(9, 3), comp_setting(0, 3)
    assert (occupancy.n_users, occupancy.n_cells) == (4095, 12)
    degrees = [12 - (user + 1).bit_length() + 1 for user in range(4095)]
    assert occupancy.cells_per_user.tolist() == degrees
    assert (occupancy.n != plain.n).sum() == 12
    assert (occupancy.kth_largest(1) == 10 * plain.kth_largest(1)).all()
    assert plain.n.mean() == pytest.approx(100, rel=0.05)


def test_the_printed_arg_max_suppresses_next_to_nothing():
    """ERRATA 2: eq. (14) as printed halts at the first user where arg min goes on."""
    occupancy = comp_setting(3, 0, cells=6)
    table = dense(occupancy, occupancy.n)
    _, printed, _ = algorithm_1(table, 65, 1, choose=max)
    _, meant, _ = algorithm_1(table, 65, 1)
    assert printed == 6
    assert meant < printed
    assert theory.clip_user(occupancy, SPAN, 1).degradation == meant


def test_a_user_of_more_than_half_a_cell_is_charged_in_full():
    """ERRATA 4: counts (3, 1) have a variance sensitivity of U²/4, not eq. (12)'s 3/16 U²."""
    done = theory.clip_user(Occupancy.from_dense([[3], [1]]), 1.0, 2)
    assert done.variance_errors.tolist() == [0.25]
    assert done.mean_errors.tolist() == [0.75]
    with pytest.raises(InputError, match="the occupancy is empty"):
        theory.clip_user(Occupancy.from_coo([], [], []), 1.0, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bound": 0}, "bound must be positive"),
        ({"bound": (1, 2)}, 'bound must be a number for error "sum"'),
        ({"error": "separate", "bound": 3}, "else a pair, got 3"),
        ({"error": "separate", "bound": (1, -2)}, "bound must be positive"),
        ({"error": "separate", "bound": (math.inf, math.inf)}, "must be finite"),
        ({"error": "both"}, 'error must be "sum" or "separate"'),
        ({"unfinished_stage": "drop"}, 'unfinished_stage must be "undo" or "keep"'),
        ({"epsilon": 0}, "epsilon must be positive"),
        ({"span": -1}, "span must be positive"),
    ],
)
def test_bad_arguments_are_refused_in_a_sentence(options, message):
    """Each says what is wrong, where, and what to do."""
    arguments = {"span": 1.0, "epsilon": 1} | options
    with pytest.raises(InputError, match=message):
        theory.clip_user(Occupancy.from_dense([[1, 2], [3, 4]]), **arguments)

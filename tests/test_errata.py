"""Page of errata: all are there, with tests that exist and numbers that the code gives.

Each function below works out one counterexample, the printed value by the printed formula and the
true one by the code, and returns the words that the page must have in that entry.
"""

import ast
import math
import re
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import gamma, norm

import hexveil as hv
from hexveil import theory
from hexveil_research.papers.exponential_mechanism import middle_costs, rank_costs
from hexveil_research.papers.iot.extremes import price

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "understand" / "errata.md"
NUMBERED = [str(n) for n in range(1, 16)]


def short(number):
    """Return a float that stands for a simple fraction as that fraction."""
    near = Fraction(float(number)).limit_denominator(200)
    assert float(near) == pytest.approx(float(number), abs=1e-12)
    return str(near)


def cell_error(kept, counts, epsilon):
    """Return COMP eq. (13) for U = 1, by the formulas of the code."""
    live = [g for g in kept if g]
    noise = theory.mean_sensitivity(live, 1.0) + theory.variance_sensitivity(live, 1.0)
    bias = theory.truncation_mean_bias(kept, counts, 1.0)
    return bias + theory.truncation_variance_bias(kept, counts, 1.0) + 2 * noise / epsilon


def variance_bias():
    """Try COMP Theorem IV.2 on one and on three of four samples."""

    def printed(n, total):
        return Fraction(n * (total - n), total**2) if total > 2 * n else Fraction(1, 4)

    return [
        f"printed {printed(sum(kept), 4)} U², "
        f"true {short(theory.truncation_variance_bias(kept, [2, 2], 1.0))} U²"
        for kept in ([1, 0], [2, 1])
    ]


def arg_max():
    """Try COMP eq. (14) in three cells."""
    table = np.array([[1, 2, 1], [9, 0, 0], [9, 0, 0], [0, 4, 0], [0, 0, 30], [0, 0, 30]])
    done = theory.clip_user(hv.Occupancy.from_dense(table), 1.0, 1)
    cells = [column[column > 0] for column in table.T]
    initial = [cell_error(cell, cell, 1) for cell in cells]
    without = [cell_error([0, *cell[1:]], cell, 1) for cell in cells]
    assert done.bound == pytest.approx(max(initial))
    assert done.exempt == np.argmin(initial) == 0
    halted = max(without[1:]) > max(initial)  # the exempt cell is not tried
    assert halted
    return [
        f"E is {done.bound:.2f}",
        f"error of the second cell is {without[1]:.2f}, that of the third {without[2]:.2f}",
        f"printed K = {max(np.count_nonzero(table, axis=1))}, true K = {done.degradation}",
    ]


def counting_cells():
    """Try COMP Theorem II.3 on users who lead in different cells."""
    occupancy = hv.Occupancy.from_dense(9 * np.eye(4, dtype=int) + 1)
    loss = theory.privacy_loss(occupancy, np.full(4, 10 / 13), None, 1.0).max()
    return [f"printed {occupancy.cells_per_user.max()}, true {loss:.1f}."]


def variance_noise():
    """Try COMP eq. (12) on a user of three of four samples."""
    printed = Fraction(3 * (4 - 3), 4**2)
    occupancy = hv.Occupancy.from_dense([[3], [1]])
    loss = theory.privacy_loss(occupancy, None, [float(printed)], 1.0).max()
    true = theory.variance_sensitivity([3, 1], 1.0)
    return [f"printed {printed} U², true {short(true)} U²", f"loses {short(loss)} of the ε"]


def least_error():
    """Try WC eq. (12) on counts (4, 2, 1)."""
    counts, span = np.array([4, 2, 1]), 8
    clip = theory.optimal_clipping(counts, span, 1)
    reach = span * counts
    bias = np.maximum((reach - clip.threshold) / (2 * counts), 0).sum()
    printed = (bias + min(clip.threshold, reach.min())) / counts.sum()
    true = clip.worst_case_error
    return [f"T = {clip.threshold:.0f}", f"printed {short(printed)}, true {short(true)}"]


def surrogate():
    """Try IOT Lemma VI.2's rule on counts (10, 3, 1, 1)."""
    counts = [10, 3, 1, 1]
    caps = [theory.surrogate_cap(counts, rule=rule) for rule in ("printed", "exact")]
    printed, true = (theory.surrogate_objective(counts, Fraction(cap)) for cap in caps)
    return [f"the cap {caps[0]:.0f}", f"the mean {caps[1]}", f"printed {printed}, true {true}."]


def wrap_around():
    """Try IOT section III-C on counts (3, 2, 2)."""
    groups = theory.wrap_around([3, 2, 2], 3)
    assert groups.n_arrays == 2
    true = groups.user_sensitivity(1.0).max()
    return [f"printed {Fraction(2, groups.n_arrays)} U, true {short(true)} U"]


def best_fit_bias():
    """Try IOT Lemma V.1 on counts (2, 1)."""
    groups = theory.best_fit([2, 1], 2)
    printed = theory.truncation_mean_bias([2, 1], [2, 1], 1.0)
    true = theory.linear_bias(groups.weights, [2, 1], 1.0)
    return [f"printed {short(printed)}, true {short(true)} U"]


def reweighting():
    """Try COMP Proposition III.1 on kept counts, and compare both biases of the mean."""
    kept, counts = [2, 1], [4, 1]
    printed = theory.variance_sensitivity(kept, 1.0)
    true = theory.user_reweighted_variance_sensitivity(kept, counts, 1.0).max()
    dropped = theory.truncation_mean_bias(kept, counts, 1.0)
    weighted = theory.reweighted_mean_bias(kept, counts, 1.0)
    return [
        f"printed {short(printed)} U², true {short(true)} U²",
        f"{short(dropped)} U by dropping, {short(weighted)} U by weights",
    ]


def midpoint():
    """Suppress one of four users of one sample."""
    kept, counts = [1, 1, 1, 0], [1, 1, 1, 1]
    dropped = [
        theory.truncation_mean_bias(kept, counts, 1.0),
        theory.truncation_variance_bias(kept, counts, 1.0),
    ]
    middle = [
        theory.midpoint_mean_bias(kept, counts, 1.0),
        theory.midpoint_variance_bias(kept, counts, 1.0),
    ]
    return [
        f"By dropping: {short(dropped[0])} U for the mean and {short(dropped[1])} U²",
        f"At the middle: {short(middle[0])} U and {short(middle[1])} U²",
    ]


def middles():
    """Try IOT Algorithm 3, step 3, on three array means near the upper bound."""
    points, means = np.array([1.0, 3.0, 5.0, 7.0]), np.array([6.9, 7.0, 7.2])

    def printed_costs(array_means):
        distance = np.abs(array_means[:, None] - points).min(axis=1)
        below = (distance[:, None] < points).sum(axis=0)
        above = (distance[:, None] > points).sum(axis=0)
        return distance, np.maximum(below, above)

    distance, printed = printed_costs(means)
    true = middle_costs(means, 8, 4)
    shares = [np.exp(-costs / 4) / np.exp(-costs / 4).sum() for costs in (printed, true)]
    mirrored = printed_costs(8 - means)[1]
    assert mirrored.tolist() == printed.tolist()
    assert middle_costs(8 - means, 8, 4).tolist() != true.tolist()
    return [
        "middles {:.0f}, {:.0f}, {:.0f} and {:.0f}".format(*points),
        "distances are {:.1f}, {:.1f} and {:.1f}".format(*distance),
        "so the middles cost {}, {}, {} and {}".format(*printed),
        "nearest middles they cost {}, {}, {} and {}".format(*true),
        f"printed {shares[0][3]:.2f}, true {shares[1][3]:.2f}",
        "With array means {:.1f}, {:.1f} and {:.1f}".format(*(8 - means)),
    ]


def quantile_weights():
    """Move one value under the exponential mechanism without 1/2."""
    chances = []
    for values in ([0.0, 0.01], [1.0, 0.01]):
        weights = 2.0 ** -rank_costs(values, 100, 1)
        chances.append(weights[0] / weights.sum())
    loss = math.log2(chances[0] / chances[1])
    return [
        f"among {weights.size} candidates",
        f"falls from {chances[0]:.4f} to {chances[1]:.4f}",
        f"printed 1.00 ε, true {loss:.2f} ε",
    ]


def zeros():
    """Count samples of neighbours, with zeros removed before and without."""

    def counts(first, dropped):
        rows = pa.table({"v": [first, 5.0, 7.0], "u": ["a", "a", "b"], "k": ["x"] * 3})
        select = hv.Select(min_users=1, drop_values=dropped)
        found = hv.read(
            rows, user="u", value="v", bounds=(0, 10), cells=hv.Labels("k"), select=select
        )
        return tuple(found.occupancy.n.tolist())

    assert counts(0.0, ()) == counts(3.0, ())
    return [
        f"from {counts(0.0, (0,))} to {counts(3.0, (0,))} if zeros are removed first",
        f"stay {counts(0.0, ())} if they are not",
    ]


def clipping_bias():
    """Try WC Lemma III.1 on two intervals that err in opposite directions."""
    a, b = np.array([0.5, 0.0]), np.array([1.0, 0.5])
    printed = np.maximum(a, 1 - b).mean()
    return [f"printed {short(printed)} U, true {short(theory.clipping_bias(a, b, 1.0))} U"]


def two_caps():
    """Compare RW eq. (4) and IOT eq. (15) on counts (2, 1)."""
    rw, iot = (theory.minimax_cap([2, 1], "0.6", noise=noise) for noise in ("std", "mean"))
    assert rw != iot
    return [f"the cap is {rw} as RW weighs, {iot} as IOT does"]


def median():
    """Ask how many of three equal counts are not below a number."""
    found = sorted({sum(m >= x for m in (5, 5, 5)) for x in (4, 5, 6)}, reverse=True)
    assert math.ceil(3 / 2) not in found
    return [f"{math.ceil(3 / 2)} are asked for, and {found[0]} or {found[1]} of them"]


def levy():
    """Try IOT eq. (8) on one user, before and after doubling its samples."""
    before, after = (
        hv.mechanisms.Levy(gamma="0.2").plan([m], bounds=(0, 1), epsilon=1).sensitivity
        for m in (1, 2)
    )
    assert before == 1.0
    return [f"printed {before / math.sqrt(2):.2f} U, true {after:.2f} U"]


def user_scaling():
    """Compare the arrays of twice the users at the same cap."""

    def arrays(group, counts):
        cap = theory.sqrt_cap(counts)
        return f"printed {2 * group(counts, cap).n_arrays}, true {group(counts * 2, cap).n_arrays}"

    return [
        f"WRAPAROUND: {arrays(theory.wrap_around, [2, 1])}",
        f"BESTFIT: {arrays(theory.best_fit, [2, 1])}",
        f"under BESTFIT: {arrays(theory.best_fit, [20, 9, 4, 3, 2])}",
    ]


def zero_means():
    """Find the chance that an array of 60 projected normal samples is all zero."""
    chance = norm.sf(20.66769 / math.sqrt(115.135))
    printed, true = 60 * math.log10(1 - chance), 60 * math.log10(chance)
    return [f"printed 10^{printed:.1f}, true 10^{true:.0f}"]


def stationary():
    """Try the surrogate of (6, 4, 1, 1) between the mean and the second count."""
    counts = [6, 4, 1, 1]
    values = {theory.surrogate_objective(counts, Fraction(k, 8)) for k in range(24, 33)}
    (value,) = values
    around = [theory.surrogate_objective(counts, Fraction(k, 8)) for k in (23, 33)]
    assert min(around) > value
    printed = theory.surrogate_cap(counts, rule="printed")
    return [
        f"objective is {value} at every cap from 3 to 4, of which the lemma names {printed:.0f}"
    ]


def tail():
    """Find the chance that two Laplace numbers together exceed COMP's bound."""
    return [f"printed 0.05, true {gamma.sf(math.log(1 / 0.05), 2):.2f}"]


def second_derivative():
    """Find the second derivative of -m²/n² by an exact difference."""

    def term(m):
        return -((m / (1 + 3 * m)) ** 2)

    step = Fraction(1, 10**8)
    true = (term(1 + step) + term(1 - step) - 2 * term(Fraction(1))) / step**2
    printed = Fraction(-2 * 1 * (1 + (3 - 3) * 1), (1 + 3) ** 4)
    return [f"printed {printed}, true {true.limit_denominator(1000)}"]


def clipped_variance(counts, caps):
    """Return the least sensitivity of the capped variance, and the cap."""
    return min(
        (theory.variance_sensitivity([min(m, cap) for m in counts], 1.0), cap) for cap in caps
    )


def capped_pair():
    """Try COMP Lemma D.3 on counts (3, 1)."""
    printed, true = clipped_variance([3, 1], (1, 3)), clipped_variance([3, 1], (1, 2, 3))
    return [f"printed {short(printed[0])} U², true {short(true[0])} U², at cap {true[1]}"]


def odd_number():
    """Try COMP Lemma D.4 on counts (2, 1)."""
    whole, capped = clipped_variance([2, 1], (2,)), clipped_variance([2, 1], (1,))
    return [f"{short(whole[0])} U² in full, {short(capped[0])} U² capped at 1"]


def worst_data():
    """Clip one sample to the upper half of the bounds."""
    printed, true = 1 - np.clip(1.0, 0.5, 1.0), theory.clipping_bias([0.5], [1.0], 1.0)
    return [f"printed {short(printed)} U, true {short(true)} U"]


def multipliers():
    """Try WC (9) with the multipliers that the proof gives."""
    clip = theory.optimal_clipping([4, 2, 1], 8.0, 1)
    assert clip.threshold > 0
    projected = int((clip.lower > 0).sum())
    assert projected == 1
    return [f"add up to {Fraction(projected, 2)} where (9) asks for 1"]


def lower_extreme():
    """Take the ends of an interval at ε = 1.5, where 2/ε is 4/3."""
    x, epsilon = np.array([0.0, 1.0, 5.0, 9.0, 10.0]), Fraction(3, 2)
    printed, true = (price(x, x[rank - 1], x[-2], epsilon) for rank in (1, 2))
    assert true == min(price(x, low, high, epsilon) for low in x for high in x if low <= high)
    return [f"printed {printed:.1f}, true {true:.1f}"]


FOUND = {
    "1": variance_bias,
    "2": arg_max,
    "3": counting_cells,
    "4": variance_noise,
    "5": least_error,
    "6": surrogate,
    "7": wrap_around,
    "8": best_fit_bias,
    "9": reweighting,
    "10": midpoint,
    "11": middles,
    "12": quantile_weights,
    "13": zeros,
    "14": clipping_bias,
    "15": two_caps,
    "IOT section II-A, the median": median,
    "IOT Proposition IV.1, LEVY": levy,
    "IOT Lemma IV.2 (RW Lemma V.2), arrays": user_scaling,
    "IOT Proposition IV.2, its proof": zero_means,
    "IOT Lemma VI.2 (RW Lemma VI.2), stationary points": stationary,
    "IOT section III-E (RW appendix D), the lower extreme": lower_extreme,
    "COMP Proposition II.1, more than one number": tail,
    "COMP Lemma D.2, its proof": second_derivative,
    "COMP Lemma D.3": capped_pair,
    "COMP Lemma D.4, its condition": odd_number,
    "WC remark after Lemma III.1, the worst data": worst_data,
    "WC Theorem III.1, its proof": multipliers,
}


def without_tex(text):
    """Return a text with the few marks of TeX in its numbers as they are read."""
    for mark, shown in (("$", ""), (r"\,", " "), ("^2", "²"), ("{", ""), ("}", "")):
        text = text.replace(mark, shown)
    return text


def entries():
    """Return the page's entries: number, or title if it has none, and text."""
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.split(r"^(?=\*\*)|^#.*$", text, flags=re.MULTILINE)
    found = [re.match(r"\*\*(?:(\d+)\. )?(.*?)\.\*\* ", block) for block in blocks]
    return [(head[1] or head[2], block) for head, block in zip(found, blocks, strict=True) if head]


@cache
def functions(path):
    """Return the names of the functions of a test file, without importing it."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_each_entry_has_a_counterexample_here():
    """The page has the fifteen errata and the further ones, each once, and this table has them."""
    names = [name for name, _ in entries()]
    assert sorted(names) == sorted(FOUND)
    assert set(NUMBERED) <= set(names)


@pytest.mark.parametrize("name", FOUND)
def test_counterexamples_are_what_the_code_gives(name):
    """Every number of a counterexample is worked out anew, and the page has these very words."""
    text = dict(entries())[name]
    counterexample = without_tex(text.partition("*Counterexample.*")[2])
    words = FOUND[name]()
    assert words
    assert [part for part in words if part not in counterexample] == []


def test_each_entry_names_tests_that_exist():
    """An entry names at least one test, and those it names are there."""
    texts = dict(entries())
    named = {name: re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", texts[name]) for name in FOUND}
    assert [name for name, tests in named.items() if not tests] == []
    tests = {test for found in named.values() for test in found}
    assert [test for path, test in tests if test not in functions(path)] == []

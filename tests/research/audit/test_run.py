"""The audit: no claim is refuted, every broken twin is, and the page says what was found."""

import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from hexveil.mechanisms.private_quantile import selection_scale
from hexveil.mechanisms.single_cell.pseudo_user_means import PseudoUserMeans
from hexveil_research.audit import run
from hexveil_research.audit.cases import suite
from hexveil_research.audit.output_distributions import SCALES, SCORES, Weakening

CASES = suite()
LEVEL = run.level(CASES)
SEED = 0
TAIL = 1e-10
"""The chance on either side that a count of the vetted noise is called impossible."""
FEWER = (50_000, 100_000, 200_000, 400_000)
"""Simulated releases that are enough to catch some of the broken twins."""
PAGE = Path(__file__).resolve().parents[3] / "docs" / "understand" / "audit.md"


def quick(name):
    """Return whether a case is in the quick suite: one of each mechanism, of those of quantiles.

    A million choices of two quantiles take a second.
    """
    quantiles = name.startswith(("FixedQuantile", "OptimizedQuantile"))
    return not quantiles or name == 'OptimizedQuantile(cap=1, split="0.9", candidates=2)'


def marked(case, *more):
    """Return a case as a parameter, slow where it is not in the quick suite."""
    marks = [] if quick(case.name) else [pytest.mark.slow]
    return pytest.param(case, *more, marks=marks, id="-".join(one.name for one in (case, *more)))


each = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
each_simulated = pytest.mark.parametrize("case", [marked(case) for case in CASES])
with_twin = pytest.mark.parametrize(
    ("case", "twin"), [marked(case, twin) for case in CASES for twin in case.catches]
)


def named(name):
    """Return the case of a name."""
    return next(case for case in CASES if case.name == name)


def test_the_level_covers_the_whole_suite():
    """Two ends in two directions of every event on both paths share one chance in a million."""
    events = sum(len(case.events) for case in CASES)
    assert len(CASES) == 20
    assert LEVEL * events * 8 == pytest.approx(1e-6)


@each_simulated
def test_simulated_releases_do_not_refute_the_claim(case):
    """A million simulated releases under each input prove no more than the claim, and much of it.

    Up to 7 standard errors of the two counts are given away; near-tight pairs leave the rest.
    """
    bound = run.simulated_bound(case, LEVEL, SEED)
    assert bound <= case.claim
    assert bound > 0.9 * run.exact_loss(case)
    assert printed(case)["bound"] == pytest.approx(bound, abs=0.02)


def noticed(case, twin, trials):
    """Return a chance with which, or with more, counts of a twin leave the exact law of a case."""
    chances = zip(run.event_chances(case), run.event_chances(case, twin), strict=True)
    return max(
        binom.sf(binom.isf(TAIL, trials, law), trials, chance)
        + binom.cdf(binom.ppf(TAIL, trials, law) - 1, trials, chance)
        for pairs in chances
        for law, chance in zip(*pairs, strict=True)
    )


def vetted_trials(case):
    """Return the fewest releases with which counts notice a twin in 99 of 100 runs."""
    return next(
        few
        for few in (2500, 4000, run.VETTED)
        if max(noticed(case, twin, few) for twin in case.catches) > 0.99
    )


def rarest(counts, trials, chances):
    """Return the least tail probability of counts of events, either side, under exact chances."""
    tails = [
        min(binom.cdf(k, trials, chance), binom.sf(k - 1, trials, chance))
        for pair, exact in zip(zip(*counts, strict=True), chances, strict=True)
        for k, chance in zip(pair, exact, strict=True)
    ]
    return min(tails)


@pytest.mark.slow
@each
def test_vetted_releases_do_not_refute_the_claim(case):
    """Releases with the vetted noise prove no more than the claim, and follow their exact laws.

    The noise has no seed. A sound one is refuted with a chance of at most 2 LEVEL a pair of counts,
    and leaves its law in any of the 68 counts with one of at most 68 x 2 TAIL, about 1e-8.
    """
    trials = vetted_trials(case)
    counts = run.vetted_counts(case, trials)
    assert run.largest_bound(counts, trials, LEVEL) <= case.claim
    assert rarest(counts, trials, run.event_chances(case)) > TAIL


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Baseline()", "Levy(gamma=1, cap=19): middle"])
def test_too_much_noise_leaves_the_exact_law(name):
    """Noise of double the scale refutes no claim, but its counts are not those of the exact law.

    By these laws it goes unseen with a chance below 1e-9.
    """
    case, double = named(name), Weakening("scales x 2", Fraction(2), Fraction(2))
    trials = run.VETTED
    assert noticed(case, double, trials) > 1 - 1e-9
    counts = run.vetted_counts(case, trials, double)
    assert run.largest_bound(counts, trials, LEVEL) <= case.claim
    assert rarest(counts, trials, run.event_chances(case)) <= TAIL


@with_twin
def test_broken_twins_are_caught(case, twin, monkeypatch):
    """A broken twin is refuted here, and by exact laws in at least 99 of 100 audits.

    Where fewer releases would all but certainly do, by these laws, there are fewer.
    """
    assert run.power(case, twin, LEVEL) >= 0.99
    enough = [few for few in FEWER if run.power(case, twin, LEVEL, few) > 0.9999]
    monkeypatch.setattr(run, "SIMULATED", min(enough, default=run.SIMULATED))
    assert run.simulated_bound(case, LEVEL, SEED, twin) > case.claim


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "twin"),
    [
        ("Baseline()", SCALES),
        ('FixedQuantile("1/3", "2/3", cap=1, candidates=4): low', SCORES),
    ],
    ids=lambda one: getattr(one, "name", one),
)
def test_the_vetted_path_has_power_too(name, twin):
    """Ten thousand vetted releases are enough to catch these: the vetted audit can fail as well.

    The chance to be caught is above 1 - 1e-8, so this test is not one of luck.
    """
    case = named(name)
    assert run.power(case, twin, LEVEL, run.VETTED) > 1 - 1e-8
    assert run.vetted_bound(case, LEVEL, twin) > case.claim


@pytest.mark.parametrize(
    ("module", "case"),
    [
        pytest.param(
            "quantile_averaging",
            'grouping="wrap_around", cap=3, candidates=12): low',
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "quantile_averaging",
            'grouping="wrap_around", cap=3, candidates=12)',
            marks=pytest.mark.slow,
        ),
        ("levy", 'grouping="wrap_around", cap=24): middle'),
    ],
)
def test_scores_that_are_not_doubled_are_caught(module, case, monkeypatch):
    """If the code forgot that WRAPAROUND moves two array means, its audit would fail."""
    monkeypatch.setattr(
        f"hexveil.mechanisms.single_cell.{module}.selection_scale",
        lambda _, part: selection_scale(1, part),
    )
    (slipped,) = [one for one in suite() if one.name.endswith(case)]
    assert run.simulated_bound(slipped, LEVEL, SEED) > named(slipped.name).claim


@pytest.mark.slow
def test_a_sensitivity_of_one_array_under_wrap_around_is_caught(monkeypatch):
    """If the noise were fitted to one array of the two that a user moves, the audit would fail."""
    monkeypatch.setattr(
        PseudoUserMeans,
        "max_sensitivity",
        lambda arrays, width: np.minimum(width, arrays.reach.max()),
    )
    (slipped,) = [
        one for one in suite() if one.name.endswith('"wrap_around", cap=3, candidates=12)')
    ]
    assert run.simulated_bound(slipped, LEVEL, SEED) > slipped.claim


class YesOrNo:
    """Randomised response: a mechanism whose loss is known, for the auditor itself."""

    def __init__(self, epsilon):
        self.yes = math.exp(epsilon) / (1.0 + math.exp(epsilon))

    def simulate(self, values, generator, trials):
        """Return 1 with the chance of the truth, or of its contrary."""
        chance = self.yes if values[0] else 1.0 - self.yes
        return (generator.random(trials) < chance).astype(np.float64)


@pytest.mark.parametrize("epsilon", [0.25, 1.0, 2.0])
def test_the_auditor_finds_a_known_loss(epsilon):
    """Of randomised response the auditor finds ε but for 0.03, never more, whatever the order."""
    events = (run_event(1.0), run_event(0.0))
    pair = (np.array([0.0]), np.array([1.0]))
    for inputs in (pair, pair[::-1]):
        case = run.Case("yes or no", epsilon, YesOrNo(epsilon), inputs, events, ())
        found = [run.simulated_bound(case, LEVEL, seed) for seed in range(3)]
        assert max(found) <= epsilon
        assert min(found) > epsilon - 0.03
        too_quiet = run.Case("yes or no", epsilon, YesOrNo(1.1 * epsilon), inputs, events, ())
        assert run.simulated_bound(too_quiet, LEVEL, 5) > min(found) + 0.05 * epsilon


def run_event(answer):
    """Return the event of an answer."""
    return type(CASES[0].events[0])(answer, answer)


def test_a_seed_gives_one_bound():
    """The same seed repeats the bound, another changes it."""
    bounds = [run.simulated_bound(CASES[0], LEVEL, seed) for seed in (1, 1, 2)]
    assert bounds[0] == bounds[1] != bounds[2]


@pytest.mark.slow
def test_the_table_has_a_row_per_case_and_twin(monkeypatch):
    """The table of the whole suite holds what the functions return, here for two cases."""
    some = (CASES[0], named("Levy(gamma=1, cap=19): middle"))
    monkeypatch.setattr(run, "suite", lambda: some)
    monkeypatch.setattr(run, "VETTED", 200)
    table = run.table(seed=SEED).to_pylist()
    assert [(row["case"], row["twin"]) for row in table] == [
        (case.name, twin and twin.name)
        for case in some
        for twin in (None, *case.subject.weakenings)
    ]
    for row in table:
        assert (row["twin"] is None) == (row["detection"] is None) == (row["vetted"] is not None)
        assert (row["bound"] > row["claim"]) == (row["twin"] is not None)
    assert table[0]["bound"] == run.simulated_bound(some[0], run.level(some), SEED)


def rows(heading):
    """Return the rows of a table of the page, as lists of cells."""
    text = PAGE.read_text(encoding="utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = re.findall(r"^\| (.+) \|$", text, flags=re.MULTILINE)
    return [line.split(" | ") for line in lines[1:]]


def printed(case):
    """Return what the page says of a case."""
    (row,) = [row for row in rows("What was found") if row[0] == f"`{case.name}`"]
    return dict(zip(("claim", "exact", "bound", "vetted"), map(float, row[1:]), strict=True))


@each
def test_the_page_says_what_is_claimed_and_exact(case):
    """Claims and exact losses on the page are those of the code."""
    assert printed(case)["claim"] == pytest.approx(case.claim, abs=5e-4)
    assert printed(case)["exact"] == pytest.approx(run.exact_loss(case), abs=6e-4)


@pytest.mark.slow
def test_the_page_says_which_twin_is_caught_where():
    """The page has every twin of every case, and its detection probability by exact laws."""
    found = {(row[0], row[1]): row for row in rows("Broken twins")}
    for case in CASES:
        for twin in case.subject.weakenings:
            row = found.pop((f"`{case.name}`", twin.name))
            assert float(row[3]) == pytest.approx(run.exact_loss(case, twin), abs=6e-4)
            said = "> 0.999" if (power := run.power(case, twin, LEVEL)) > 0.999 else "no"
            assert row[5] == said
            assert twin not in case.catches or power > 0.99
    assert not found

"""The audit: no claim is refuted, every broken twin is, and the page says what was found."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta, binom, laplace

import hexveil as hv
from hexveil.mechanisms.private_quantile import MiddleCost, RankCost, selection_scale
from hexveil.mechanisms.stage_data import Outputs
from hexveil_research.audit import run
from hexveil_research.audit.cases import suite
from hexveil_research.audit.output_distributions import (
    NOISE,
    SCALES,
    SCORES,
    AuditedRelease,
    Event,
    Mixture,
    WeakenedSource,
)
from hexveil_research.audit.run import detection, exact_loss, loss_bound, lower_end, tail, upper_end
from stage_laws import candidate_scores

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


@with_twin
def test_broken_twins_are_caught(case, twin, monkeypatch):
    """A broken twin is refuted here, and by exact laws in at least 99 of 100 audits.

    Where fewer releases would all but certainly do, by these laws, there are fewer.
    """
    assert run.power(case, twin, LEVEL) >= 0.99
    enough = [few for few in FEWER if run.power(case, twin, LEVEL, few) > 0.9999]
    monkeypatch.setattr(run, "SIMULATED", min(enough, default=run.SIMULATED))
    assert run.simulated_bound(case, LEVEL, SEED, twin) > case.claim


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


class YesOrNo:
    """Randomised response: a mechanism whose loss is known, for the auditor itself."""

    def __init__(self, epsilon):
        self.yes = math.exp(epsilon) / (1.0 + math.exp(epsilon))

    def simulate(self, values, generator, trials):
        """Return 1 with the chance of the truth, or of its contrary."""
        chance = self.yes if values[0] else 1.0 - self.yes
        return (generator.random(trials) < chance).astype(np.float64)


@pytest.mark.slow
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


# ---- Bounds on chances and losses: exact against binomial laws, and sharp enough to be of use -


LEVELS = [0.05, 1e-3, 3e-9]


@pytest.mark.parametrize("n", [1, 7, 200, 10_000, 1_000_000])
def test_tails_are_binomial(n):
    """The short sum is the binomial tail, wherever the chance is at most k/n."""
    for k in sorted({0, 1, n // 100, n // 3, n - 1, n}):
        for part in (1.0, 0.999, 0.7):
            expected = binom.sf(k - 1, n, part * k / n)
            assert tail(k, n, part * k / n) == pytest.approx(expected, rel=1e-7, abs=1e-300)


@pytest.mark.parametrize("n", [1, 7, 200, 10_000, 1_000_000])
@pytest.mark.parametrize("level", LEVELS)
def test_ends_are_those_of_clopper_and_pearson(n, level):
    """Both ends agree with the quantiles of the beta law."""
    for k in sorted({0, 1, n // 100, n // 3, n - 1, n}):
        low = beta.ppf(level, k, n - k + 1) if k else 0.0
        high = beta.isf(level, k + 1, n - k) if k < n else 1.0
        assert lower_end(k, n, level) == pytest.approx(low, rel=1e-7)
        assert upper_end(k, n, level) == pytest.approx(high, rel=1e-7)


@pytest.mark.parametrize("n", [5, 40, 300])
@pytest.mark.parametrize("level", [0.05, 1e-3])
def test_ends_are_wrong_no_more_often_than_allowed(n, level):
    """For many chances, the exact chance that an end is wrong is at most the level.

    Just above a lower end the chance of error is the level itself: no shorter interval would do.
    """
    lows = np.array([lower_end(k, n, level) for k in range(n + 1)])
    for p in np.linspace(0.001, 0.999, 200):
        law = binom.pmf(np.arange(n + 1), n, p)
        assert law[lows > p].sum() <= level
        assert law[1.0 - lows[::-1] < p].sum() <= level
    tight = math.nextafter(lows[n // 2], 0.0)
    assert binom.sf(n // 2 - 1, n, tight) == pytest.approx(level, rel=1e-6)


def refuted(n, level, claim):
    """Return whether k against j events refute the claim, for all k and j."""
    lows = np.array([lower_end(k, n, level) for k in range(n + 1)])
    return lows[:, None] > math.exp(claim) * (1.0 - lows[::-1])


def test_a_bound_is_the_ratio_of_two_ends():
    """The bound on a loss takes the lower end of the one chance and the upper of the other."""
    over = refuted(30, 0.01, 0.5)
    for k in range(31):
        for j in (0, 3, 11, 30):
            assert over[k, j] == (loss_bound(k, j, 30, 0.01) > 0.5)


@pytest.mark.parametrize("p", [0.3, 0.5, 0.9])
def test_power_is_never_overstated(p):
    """By exact enumeration, detection is at least what is said; what is certain is said to be."""
    n, level, claim = 400, 1e-3, 0.5
    k = np.arange(n + 1)
    caught = refuted(n, level, claim)
    exact, said = [], []
    for q in np.linspace(0.02, 0.6 * p, 12):
        exact.append(binom.pmf(k, n, p) @ caught @ binom.pmf(k, n, q))
        said.append(detection(p, q, n, level, claim))
        assert said[-1] <= exact[-1] + 1e-12
        assert exact[-1] < 0.9999 or said[-1] > 0.98
    assert min(exact) < 0.5
    assert max(exact) > 0.9999


def test_chances_at_the_ends():
    """An event that never, or always, occurs has the ends that follow from n alone."""
    assert lower_end(0, 50, 0.01) == 0.0
    assert upper_end(50, 50, 0.01) == 1.0
    assert upper_end(0, 50, 0.01) == pytest.approx(1 - 0.01 ** (1 / 50))
    assert loss_bound(0, 0, 50, 0.01) == -math.inf
    assert tail(3, 5, 0.0) == 0.0
    assert tail(3, 5, 1.0) == tail(0, 5, 0.3) == 1.0


# ---- The cases of the audit: neighbours, claims that are the plans' own, pairs that are tight -


@each
def test_inputs_are_neighbours(case):
    """One user's mean differs, within the bounds."""
    one, other = case.pair
    assert int((one != other).sum()) == 1
    lower, upper = case.subject.plan.cell.bounds
    assert min(one.min(), other.min()) >= lower
    assert max(one.max(), other.max()) <= upper


@each
def test_claims_are_those_of_the_plans(case):
    """A release claims its ε, a choice its part of it, and no claim is above 2."""
    subject = case.subject
    assert 0 < case.claim <= 2
    if not subject.choice_alone:
        assert case.claim == float(subject.plan.epsilon)
        return
    scores = [
        candidate_scores(subject.choice.measure(subject.plan.cell.sums(means), Outputs())[0])
        for means in case.pair
    ]
    moved = 2 if "wrap_around" in case.name else 1
    assert np.abs(scores[0] - scores[1]).max() == moved
    assert case.claim == pytest.approx(2 * moved / subject.choice.scale)


@each
def test_pairs_are_near_tight(case):
    """By exact laws the events show at least 70 percent of the claim, and never more than it."""
    assert 0.7 * case.claim < exact_loss(case) <= case.claim * (1 + 1e-9)


def test_most_pairs_are_tight():
    """In most cases the events show 95 percent of the claim and more."""
    shares = [exact_loss(case) / case.claim for case in CASES]
    assert np.median(shares) > 0.99
    assert np.mean(np.array(shares) > 0.95) > 0.7


def test_every_mechanism_is_audited():
    """Each mechanism of one cell, both groupings, and both kinds of choice have a case."""
    names = {case.name.split("(")[0] for case in CASES}
    assert names >= {
        type(mechanism).__name__
        for mechanism in (
            hv.mechanisms.Baseline(),
            hv.mechanisms.ArrayAveraging(),
            hv.mechanisms.Levy(),
            hv.mechanisms.FixedQuantile(),
            hv.mechanisms.OptimizedQuantile(),
            hv.mechanisms.OptArrayAveraging(),
            hv.mechanisms.OptimalClipping(),
            hv.mechanisms.AKMV(),
        )
    }
    alone = [case for case in CASES if case.subject.choice_alone]
    for kind in (RankCost, MiddleCost):
        found = [case for case in alone if isinstance(case.subject.choice.costs[0], kind)]
        assert {"wrap_around" in case.name for case in found} == {True, False}
    assert len({case.name for case in CASES}) == len(CASES)


def test_every_twin_is_expected_somewhere():
    """For each mechanism, and for its choices alone, some case is to catch each twin there is."""
    to_catch, there_are = {}, {}
    for case in CASES:
        key = case.name.split("(")[0], case.subject.choice_alone
        to_catch.setdefault(key, set()).update(case.catches)
        there_are.setdefault(key, set()).update(case.subject.weakenings)
    assert to_catch == there_are


def test_a_plan_without_a_choice_has_none_to_audit(monkeypatch):
    """If LEVY came to have one bin here, the suite would say so and not skip its choice."""
    monkeypatch.setattr("hexveil.mechanisms.single_cell.levy.math.sqrt", lambda _: 1.0)
    with pytest.raises(ValueError, match="makes no choice, so there is none to audit"):
        suite()


# ---- Exact laws of outcomes: what simulation draws, worked out branch by branch ----


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


# ---- Weakened releases: what they weaken, and that nothing else changes ----


FACTS = {"counts": [40] * 30, "bounds": (0, 8), "epsilon": 2}
WITH_CHOICES = [
    hv.mechanisms.Levy(),
    hv.mechanisms.FixedQuantile(),
    hv.mechanisms.OptimizedQuantile(),
    hv.mechanisms.AKMV(),
]
MEANS_OF_WEAKENINGS = np.linspace(0, 8, 30)


class Noted:
    """A source that draws nothing and notes the scales of choices and sums."""

    def __init__(self):
        self.choices, self.sums = [], []

    def laplace(self, values, scales):
        """Return the values."""
        self.sums.append(float(scales[0, 0]))
        return values

    def noisy_max(self, scores, sizes, scale):  # noqa: ARG002  the protocol's arguments
        """Return the first candidate."""
        self.choices.append(scale)
        return np.zeros(1, dtype=np.int64)


def scales(plan, weakening=None):
    """Return the scales that a plan's release asks for, and its outcome."""
    noted = Noted()
    source = noted if weakening is None else WeakenedSource(noted, weakening)
    outcome = plan.estimate(MEANS_OF_WEAKENINGS, source)
    return noted, outcome


@pytest.mark.parametrize(
    "mechanism",
    [hv.mechanisms.Baseline(), hv.mechanisms.OptimalClipping(), hv.mechanisms.ArrayAveraging()],
)
def test_one_noise_has_one_weakening(mechanism):
    """A release of one noise has a weakening of smaller noise and of the same estimate."""
    plan = mechanism.plan(**FACTS)
    assert AuditedRelease(plan).weakenings == (SCALES,)
    (sound, before), (weak, after) = scales(plan), scales(plan, SCALES)
    assert weak.sums == pytest.approx([0.7 * scale for scale in sound.sums])
    assert before == after


@pytest.mark.parametrize("mechanism", WITH_CHOICES, ids=str)
@pytest.mark.parametrize("weakening", [SCALES, NOISE, SCORES], ids=lambda one: one.name)
def test_weakenings_of_composed_releases(mechanism, weakening):
    """Noise and choices are multiplied each by its own factor; the plan claims the same ε."""
    plan = mechanism.plan(**FACTS)
    assert weakening in AuditedRelease(plan).weakenings
    (sound, _), (weak, _) = scales(plan), scales(plan, weakening)
    assert sound.choices
    assert weak.choices == pytest.approx([float(weakening.choice) * s for s in sound.choices])
    assert weak.sums == pytest.approx([float(weakening.noise) * s for s in sound.sums])


def test_weakenings_of_choices():
    """A choice alone has weakenings of its scale, of either kind of choice."""
    for mechanism in (hv.mechanisms.FixedQuantile(), hv.mechanisms.Levy()):
        subject = AuditedRelease(mechanism.plan(**FACTS), choice_alone=True)
        assert subject.weakenings == (SCALES, SCORES)


def test_a_plan_without_a_choice():
    """LEVY with one bin has its noise weakened, and no choice to weaken."""
    plan = hv.mechanisms.Levy().plan([2, 1, 1], bounds=(0, 8), epsilon=2)
    subject = AuditedRelease(plan)
    assert subject.weakenings == (SCALES,)
    with pytest.raises(ValueError, match="makes no choice"):
        _ = subject.choice

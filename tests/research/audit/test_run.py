"""The audit: no claim is refuted, every broken twin is, and the page says what was found."""

import os
import re

import numpy as np
import pytest
from scipy.stats import binom

import hexveil as hv
from hexveil_research.audit import run
from hexveil_research.audit.cases import suite
from hexveil_research.audit.run import exact_loss
from mechanisms.stage_laws import candidate_scores
from source_trees import DOCS

CASES = suite()
LEVEL = run.level(CASES)
SEED = 0
TAIL = 1e-10
"""The chance on either side that a count of the vetted noise is called impossible."""
VETTED = run.VETTED if os.environ.get("HEXVEIL_ATTACK") else 4000
"""Releases with the vetted noise."""
FEWER = (50_000, 100_000, 200_000, 400_000)
"""Simulated releases that are enough to catch some of the broken twins."""
PAGE = DOCS / "understand" / "audit.md"


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
    counts = run.vetted_counts(case, VETTED)
    assert run.largest_bound(counts, VETTED, LEVEL) <= case.claim
    assert rarest(counts, VETTED, run.event_chances(case)) > TAIL


@with_twin
def test_broken_twins_are_caught(case, twin, monkeypatch):
    """A broken twin is refuted here, and by exact laws in at least 99 of 100 audits.

    Where fewer releases would all but certainly do, by these laws, there are fewer.
    """
    assert run.power(case, twin, LEVEL) >= 0.99
    enough = [few for few in FEWER if run.power(case, twin, LEVEL, few) > 0.9999]
    monkeypatch.setattr(run, "SIMULATED", min(enough, default=run.SIMULATED))
    assert run.simulated_bound(case, LEVEL, SEED, twin) > case.claim


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
        candidate_scores(subject.choice.measure(subject.plan.cell.sums(means), {})[0])
        for means in case.pair
    ]
    moved = 2 if "wrap_around" in case.name else 1
    assert np.abs(scores[0] - scores[1]).max() == moved
    assert case.claim == pytest.approx(2 * moved / subject.choice.scale)


@each
def test_pairs_are_near_tight(case):
    """By exact laws the events show at least 70 percent of the claim, and never more than it."""
    assert 0.7 * case.claim < exact_loss(case) <= case.claim * (1 + 1e-9)


def test_every_mechanism_is_audited():
    """Each mechanism of one cell, both groupings, and both kinds of choice have a case."""
    names = {case.name.split("(")[0] for case in CASES}
    assert names == set(hv.mechanisms.REGISTRY) - {"Auto"}
    alone = [case for case in CASES if case.subject.choice_alone]
    for kind in ("RankCost", "MiddleCost"):
        found = [one for one in alone if type(one.subject.choice.costs[0]).__name__ == kind]
        assert {"wrap_around" in one.name for one in found} == {True, False}
    assert len({case.name for case in CASES}) == len(CASES)

"""Audited cases: a plan or a choice, a near-tight pair of neighbours, and events fixed by hand.

Neighbours: one user's values all change within the bounds; users and counts are public.
Every number here was chosen from public facts and from exact laws (`output_distributions`), before
anything was drawn: no event depends on the sample it is counted in.

Why the pairs are tight.
One Laplace noise: the user of largest sensitivity has all its values at one bound, or all at the
other. Beyond both noiseless estimates the ratio of densities is e^ε everywhere.
A choice: moving a value down raises every count of values at or below a candidate between its old
and new place. Of two rivals, one short of the target and one at it, the first's cost falls and
the second's rises, while the other candidates are too far off to be chosen. With two candidates
of costs (c, 0) the first is chosen with chance exp(-c/scale)/2, exactly e^-ε of its chance
when the costs are (c - 1, 1) and c > 1.
Choices and noise together: the rivals are placed so that every choice loses its part in one and
the same direction as the noise, and so that the estimate tells which rivals won, at least in the
event: by far-off means (LEVY, FIXEDQUANTILE), or because a wider interval has the longer tail
(AKMV, OPTIMIZEDQUANTILE).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hexveil.accounting.pseudo_users import wrap_around
from hexveil.base.arrays import Floats
from hexveil.base.rational import round_up
from hexveil.mechanisms import (
    AKMV,
    ArrayAveraging,
    Baseline,
    FixedQuantile,
    Levy,
    OptArrayAveraging,
    OptimalClipping,
    OptimizedQuantile,
)
from hexveil.mechanisms.single_cell import CellPlan
from hexveil_research.audit.output_distributions import (
    NOISE,
    SCALES,
    SCORES,
    AuditedRelease,
    Event,
    Subject,
    Weakening,
)
from hexveil_research.papers import itms

Pair = tuple[Floats, Floats]

COUNTS = (9, 7, 7, 5, 4, 4, 3, 2, 2, 2, 1, 1)
BOUNDS = (-3, 5)
HAIR = 1e-4
"""Less than the distance of two points, more than a quantum."""


@dataclass(frozen=True, eq=False)
class Case:
    """One claim, and how it might be refuted.

    Attributes
    ----------
    name : str
    claim : float
        The loss claimed, rounded up.
    subject : AuditedRelease
        The release of a cell, or its first choice alone.
    pair : pair of ndarray of float
        User means of neighbouring inputs.
    events : tuple of Event
    catches : tuple of Weakening
        The weakenings that this pair and these events are sharp enough for.
    """

    name: str
    claim: float
    subject: Subject
    pair: Pair
    events: tuple[Event, ...]
    catches: tuple[Weakening, ...]


def suite() -> tuple[Case, ...]:
    """Return every case: plans of one noise, plans with choices, and choices alone."""
    return (*_one_noise(), *_fixed_quantiles(), *_wrapped(), *_levy(), *_optimized(), *_akmv())


def _one_noise() -> list[Case]:
    cases = []
    for mechanism in (
        Baseline(),
        OptimalClipping(),
        ArrayAveraging("best_fit", "sqrt"),
        ArrayAveraging("wrap_around", "sqrt"),
        OptArrayAveraging("minimax"),
        OptArrayAveraging("surrogate"),
    ):
        plan = mechanism.plan(COUNTS, bounds=BOUNDS, epsilon=1)
        low = np.ones(len(COUNTS))
        high = low.copy()
        # The first user has the most samples, so nobody has more weight.
        low[0], high[0] = BOUNDS
        ends = plan.noiseless_estimates(plan.cell.sums(np.array([low, high]))).tolist()
        events = (Event(low=ends[1]), Event(high=ends[0]), Event(low=ends[1] + plan.noise_scale))
        cases.append(_release_case(mechanism.name, plan, (low, high), events, (SCALES,)))
    return cases


def _fixed_quantiles() -> list[Case]:
    """Return a plan of 150 arrays of one user each, and its choice of the lower end alone.

    The ends are chosen from 5 points 0 to 4. Per end two points are rivals: 0 and 1, 2 and 3.
    """
    mechanism = FixedQuantile("1/3", "2/3", cap=1, candidates=4)
    plan = mechanism.plan([1] * 150, bounds=(0, 4), epsilon=2)
    means = np.repeat([4.0, 0.0, 1.0, 2.0, 3.0], [50, 48, 2, 48, 2])
    pair = _neighbours(means, 0.0)
    # The least estimate before the noise: both ends at their lower rival.
    lowest = float(np.clip(pair[1], 0.0, 2.0).mean())
    events = (Event(high=lowest), Event(high=lowest + 0.01))
    return [
        _release_case(mechanism.name, plan, pair, events, (SCALES, NOISE, SCORES)),
        _choice_case(f"{mechanism.name}: low", plan, pair, Event(high=0.0)),
        _choice_on_a_fine_grid(),
    ]


def _choice_on_a_fine_grid() -> Case:
    """Return a choice among runs of many points: 4 and 28 rivals of 65 points."""
    mechanism = FixedQuantile("1/2", 1, cap=1, candidates=64)
    plan = mechanism.plan([1] * 150, bounds=(0, 64), epsilon=2)
    means = np.repeat([64.0, 0.0, 4.0, 32.0], [1, 71, 4, 74])
    return _choice_case(f"{mechanism.name}: low", plan, _neighbours(means, 0.0), Event(high=3.5))


def _wrapped() -> list[Case]:
    """Return WRAPAROUND, where the user who moves is in two arrays, a third of each.

    Its arrays are at U/3 or at 0. Per end two points are rivals, each cost moves by 2.
    """
    mechanism = FixedQuantile("1/3", "2/3", grouping="wrap_around", cap=3, candidates=12)
    plan = mechanism.plan([2] * 270, bounds=(0, 12), epsilon=2)
    # Users come in threes that fill two arrays; values just below a point count as at it.
    threes = np.repeat([0.0, 0.9, 1.9, 2.9, 3.9], [28, 2, 28, 2, 29])
    means = np.concatenate(([0.0, 12.0, 0.0], np.repeat(threes, 3)))
    pair = _neighbours(means, 0.0, user=1)
    groups = wrap_around([2] * 270, 3)
    lowest = float(np.clip(itms.array_means(groups, pair[1]), 0.0, 2.0).mean())
    every = (SCALES, NOISE, SCORES)
    return [
        _release_case(mechanism.name, plan, pair, (Event(high=lowest),), every),
        _choice_case(f"{mechanism.name}: low", plan, pair, Event(high=0.0)),
        _levy_wrapped(),
    ]


def _levy_wrapped() -> Case:
    """Return a choice of bins; the user who moves takes both arrays from the second to the first.

    With K arrays the third bin and those above cost K, the rivals about K/2.
    """
    mechanism = Levy(gamma=1, grouping="wrap_around", cap=24)
    plan = mechanism.plan([16] * 150, bounds=(0, 12), epsilon=2)
    threes = np.repeat([1.5, 4.5], [24, 25])
    means = np.concatenate(([1.5, 12.0, 1.5], np.repeat(threes, 3)))
    pair = _neighbours(means, 0.0, user=1)
    return _choice_case(f"{mechanism.name}: middle", plan, pair, Event(high=3.0))


def _levy() -> list[Case]:
    """Return three bins and 40 arrays at either bound: outer bins are far-off rivals."""
    mechanism = Levy(gamma=1, cap=19)
    plan = mechanism.plan([19] * 40, bounds=(0, 3), epsilon=2)
    pair = _neighbours(np.repeat([3.0, 0.0], [23, 17]), 0.0)
    events = (Event(high=1.12), Event(high=1.1))
    return [
        _release_case(mechanism.name, plan, pair, events, (SCALES, NOISE, SCORES)),
        _choice_case(f"{mechanism.name}: middle", plan, pair, Event(high=2.0)),
    ]


def _optimized() -> list[Case]:
    """Return two plans: one spends most of ε on the noise, one most of it on the ends.

    In the second both ends are the median, and the event is that both fall on the lower bound: then
    the range is one quantum wide, and the noise is of that size.
    """
    noisy = OptimizedQuantile(split="0.25", cap=1, candidates=4)
    plan = noisy.plan([1] * 4, bounds=(0, 4), epsilon=2)
    up = _neighbours(np.array([0.0, 4.0, 4.0, 4.0]), 4.0)
    choosy = OptimizedQuantile(split="0.9", cap=1, candidates=2)
    choosy_plan = choosy.plan([1] * 10, bounds=(0, 2), epsilon=2)
    down = _neighbours(np.repeat([2.0, 0.0, 1.0], [5, 3, 2]), 0.0)
    at_bound = Event(-3e-5, 3e-5)
    return [
        _release_case(noisy.name, plan, up, (Event(low=4.01),), (SCALES, NOISE)),
        _release_case(choosy.name, choosy_plan, down, (at_bound,), (SCALES, SCORES)),
        _choice_case(f"{choosy.name}: low", choosy_plan, down, Event(high=0.0)),
    ]


def _akmv() -> list[Case]:
    """Return two plans: one spends most of ε on the noise, one most of it on the threshold.

    Points are whole quanta, rounded down; values stand just below them.
    """
    noisy = AKMV(split="0.25", candidates=3)
    plan = noisy.plan([1] * 60, bounds=(0, 3), epsilon=2)
    down = _neighbours(np.repeat([3.0, 1.0 - HAIR, 2.0 - HAIR], [1, 55, 4]), 0.0)
    choosy = AKMV(split="0.85", candidates=12)
    choosy_plan = choosy.plan([1] * 60, bounds=(0, 12), epsilon=2)
    up = _neighbours(np.repeat([0.0, 1.0 - HAIR, 2.0 - HAIR], [1, 55, 4]), 12.0)
    return [
        _release_case(noisy.name, plan, down, (Event(high=0.975),), (SCALES, NOISE)),
        _release_case(choosy.name, choosy_plan, up, (Event(low=1.34),), (SCALES, SCORES)),
        _choice_case(f"{choosy.name}: threshold", choosy_plan, up, Event(low=2.0 - HAIR)),
    ]


def _release_case(
    name: str, plan: CellPlan, pair: Pair, events: tuple[Event, ...], catches: tuple[Weakening, ...]
) -> Case:
    """Return a whole release: it claims the ε of its plan."""
    return Case(name, round_up(plan.epsilon), AuditedRelease(plan), pair, events, catches)


def _choice_case(name: str, plan: CellPlan, pair: Pair, event: Event) -> Case:
    """Return the first choice of a plan alone: it claims its part of ε."""
    subject = AuditedRelease(plan, choice_alone=True)
    choice = subject.choice
    claim = 2.0 * int(choice.user_votes.max()) / choice.scale
    return Case(name, claim, subject, pair, (event,), (SCALES, SCORES))


def _neighbours(means: Floats, to: float, user: int = 0) -> Pair:
    """Return user means, and the same with those of one user changed."""
    changed = means.copy()
    changed[user] = to
    return means, changed

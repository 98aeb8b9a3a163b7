"""Strategies of a two-stage plan (two_stage.py): predicted errors per cell, and the choice.

Everything is a function of public facts and of two widths, of the interval and h: before a release
as a prior says, afterwards as the release found them. The ways, and what is assumed: see
planning/clipping_range/two_stage.py. For the chosen way `part` states noise, bias and bound of what
is published:

direct
    As for one interval (accounting/error_model.py, `WeighedPart`).
users
    Published is Σ_k P_gk m_k + y_g, m_k the noisy mean of class k, y_g the noisy average of
    distances. It speaks of Σ_l p_gl (u + d), u the user's own mean projected to the interval and d
    the projected distance. It is off by at most w/2 Σ_l |p_gl - P_gk v_l| + h Σ_l |w_gl - p_gl|,
    v and w the weights, and by noise: a sum of independent Laplace numbers of scales b, of which
    95% are within min over λ of (ln 40 - Σ ln(1 - λ² b²)) / λ (Chernoff's bound, both sides).
cells
    Published is c_g + y_g. It speaks of the average of user means projected to c_g ± h'.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.error_model import LN20, WORST, SteppedPart
from hexveil.planning.clipping_range.private_range import DRIFT, NORMAL, SPREAD
from hexveil.planning.clipping_range.user_weights import Likeness, most_off, off_by

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.model.occupancy import Occupancy
    from hexveil.planning.clipping_range.private_range import Interval
    from hexveil.planning.clipping_range.two_stage import Found, Steps
    from hexveil.planning.clipping_range.user_clusters import Grouping

    Floats = NDArray[np.float64]

COARSE = Fraction(3, 10)
"""Part of what is left of ε that the first average of each cell takes, in the way `cells`."""
REACHED = NORMAL.inv_cdf(0.9)
INSIDE_REACH = NORMAL.inv_cdf(0.9)
"""h in deviations, if they are normal."""
OWN_DRIFT = 0.05
"""By how much users whose weight rises differ from others in their distances, as a part of 2h."""
NARROW = 0.8
"""h' in deviations of a cell's user means."""
SKEWED = 0.1
"""What is wrong on average where a cell's law is taken for normal, in the same deviations."""
WITHIN_USERS = 0.6
"""Deviation within users as a part of τ, before h is known."""
ALIKE = 0.8
"""Above this part of τ users are not said to differ among themselves."""
EXPECTED = (2.0 * REACHED * SPREAD, INSIDE_REACH * WITHIN_USERS * SPREAD)
"""Width of the interval at 1.28 deviations, and h, before a release; parts of the span."""
LN40 = math.log(40.0)


def by_users(
    occupancy: Occupancy, steps: Steps, width: float, half: float
) -> tuple[Floats, Floats]:
    """Return noise and likely bias of each cell in the way `users`; as parts of the span.

    Parameters
    ----------
    occupancy : Occupancy
    steps : Steps
    width : float
        Of the interval at a reach of 1.28 deviations; users' own means need less (`own_width`).
    half : float
        h.
    """
    grouping = steps.grouping(occupancy)
    rough = own_width(width, half) * np.sqrt(grouping.share**2 @ steps.class_noise**2)
    prior = Likeness(1.0 / (2.0 * INSIDE_REACH), OWN_DRIFT)
    off = 2.0 * half * off_by(occupancy, steps.shares(occupancy), prior)
    left = width / (2.0 * REACHED) / math.sqrt(steps.class_noise.size)
    return np.hypot(rough, 2.0 * half * steps.noise), np.hypot(left, off)


def by_cells(
    occupancy: Occupancy, interval: Interval, noise: Floats, width: float, half: float
) -> tuple[Floats, Floats]:
    """Return noise and likely bias of each cell in the way `cells`, clipping undone.

    A first average that is off by e makes the second one less steep: Φ((e + h')/s) - Φ((e - h')/s).
    """
    spread = cell_spread(width, half)
    narrow, first = NARROW * spread, width * noise / float(COARSE)
    prior = Likeness(spread / (2.0 * narrow), DRIFT)
    off = 2.0 * narrow * off_by(occupancy, interval.shares(occupancy), prior)
    away = np.minimum(first, width / (2.0 * REACHED)) / spread
    cdf = np.vectorize(NORMAL.cdf)
    slope = cdf(away + NARROW) - cdf(away - NARROW)
    second = 2.0 * narrow * noise / float(1 - COARSE) / slope
    return second, np.hypot(SKEWED * spread, off)


def cell_spread(width: float, half: float) -> float:
    """Return s for an interval of this width at 1.28 deviations and for h.

    Examples
    --------
    >>> round(cell_spread(2.56, 1.28), 2), round(cell_spread(2.56, 0.0), 2)
    (0.71, 1.0)
    """
    all_of_it, own = width / (2.0 * REACHED), half / INSIDE_REACH
    return math.sqrt(max(all_of_it**2 - own**2 / 2.0, all_of_it**2 / 5.0))


def chosen(
    occupancy: Occupancy, interval: Interval, noise: Floats, steps: Steps, found: tuple[float, ...]
) -> str:
    """Return `direct`, or the one other way that fits what was found if predicted to be better.

    Parameters
    ----------
    occupancy : Occupancy
    interval : Interval
    noise : ndarray of float, shape (n_cells,)
        Of the way `direct`, for an interval of width 1.
    steps : Steps
    found : three floats
        Width of the interval as found for `direct`, of that for first steps, and h; parts of the
        span.
    """
    direct, width, half = found
    other, (rough, likely) = "cells", by_cells(occupancy, interval, noise, width, half)
    if half / INSIDE_REACH <= ALIKE * width / (2.0 * REACHED):
        other, (rough, likely) = "users", by_users(occupancy, steps, width, half)
    off = np.hypot(direct * interval.likely_off(occupancy), SKEWED * cell_spread(width, half))
    straight = np.hypot(direct * noise, off)
    return other if np.hypot(rough, likely).mean() < straight.mean() else "direct"


def before(interval: Interval) -> tuple[float, float, float]:
    """Return what `chosen` needs as it is assumed before a release."""
    return interval.width, *EXPECTED


def after(interval: Interval, found: Found) -> tuple[float, float, float]:
    """Return what `chosen` needs as a release found it."""
    width = (found.ends[1] - found.ends[0]) / found.steps
    return interval.width, width, found.inside / found.steps


def own_width(width: float, half: float) -> float:
    """Return the width for users' own means: they spread by less than (cell, user) means.

    Examples
    --------
    >>> own_width(5.0, 2.0), own_width(5.0, 4.0)
    (3.0, 2.5)
    """
    return math.sqrt(max(width**2 - (2.0 * half * REACHED / INSIDE_REACH) ** 2, width**2 / 4.0))


def own_ends(ends: tuple[int, int], inside: int) -> tuple[int, int]:
    """Return the interval for users' own means in quanta, around the same middle."""
    width = ends[1] - ends[0]
    own = max(round(own_width(width, inside)), 1)
    low = ends[0] + (width - own) // 2
    return low, low + own


def half_of(way: str, ends: tuple[int, int], inside: int) -> int:
    """Return the half width of a way's second step in quanta: h, or h'; at least 1."""
    if way != "cells":
        return max(inside, 1)
    return max(round(NARROW * cell_spread(ends[1] - ends[0], inside)), 1)


def part(
    occupancy: Occupancy, span: Floats, interval: Interval, noise: Floats, steps: Steps
) -> SteppedPart:
    """Return what noise, weights and clipping do to each cell's mean.

    Parameters
    ----------
    occupancy : Occupancy
    span : ndarray of float, shape (n_cells,)
    interval : Interval
    noise : ndarray of float, shape (n_cells,)
        Of the way `direct`, for an interval of width 1.
    steps : Steps
    """
    found = steps.found
    widths = before(interval) if found is None else after(interval, found)
    way = found.way if found else chosen(occupancy, interval, noise, steps, widths)
    direct, width, half = widths
    if way == "users":
        return _users_part(occupancy, span, steps, (width, half))
    most = most_off(occupancy, interval.shares(occupancy))
    if way == "direct":
        likely = interval.likely_off(occupancy)
        return _stepped(span * direct, noise, most, likely, LN20 * noise)
    narrow = found.half / found.steps if found else NARROW * cell_spread(width, half)
    undone, off = by_cells(occupancy, interval, noise, width, half)
    noise = noise / float(1 - COARSE)
    # Undoing the clipping makes noise larger: what is likely says so, the guarantee does not.
    likely = (off + undone) / (2.0 * narrow) - noise
    return _stepped(span * 2.0 * narrow, noise, most, likely, LN20 * noise)


def _users_part(
    occupancy: Occupancy, span: Floats, steps: Steps, widths: tuple[float, float]
) -> SteppedPart:
    (width, half), grouping = widths, steps.grouping(occupancy)
    found = steps.found
    # What was found is whole quanta, and its noise is for that.
    own = own_width(width, half) if found is None else _width_of(found)
    fine = 2.0 * half / own
    rough = np.hypot(np.sqrt(grouping.share**2 @ steps.class_noise**2), fine * steps.noise)
    _, likely = by_users(occupancy, steps, width, half)
    own_off = most_off(occupancy, steps.shares(occupancy))
    most = mixed_off(occupancy, grouping, steps) + fine * own_off
    loud = tail(grouping.share * steps.class_noise, fine * steps.noise)
    return _stepped(span * own, rough, most, likely / own, loud)


def _width_of(found: Found) -> float:
    assert found.own is not None  # noqa: S101  the way `users` has it
    return (found.own[1] - found.own[0]) / found.steps


def _stepped(
    unit: Floats, noise: Floats, most: Floats, likely: Floats, loud: Floats
) -> SteppedPart:
    missed = np.full(noise.size, WORST["mean"])
    return SteppedPart("mean", unit, noise, np.zeros_like(noise), missed, most, likely, loud)


def mixed_off(occupancy: Occupancy, grouping: Grouping, steps: Steps) -> Floats:
    """Return the most that classes make each cell off by, for an interval of width 1.

    Half of Σ |p - P v| over all users: those of a class who were not in the cell count too.
    """
    own = occupancy.n / occupancy.records_per_cell[occupancy.cell]
    weight = steps.class_shares()[occupancy.user]
    classed = grouping.share[occupancy.cell, steps.of[occupancy.user]] * weight
    here = np.add.reduceat(np.abs(own - classed) - classed, occupancy.start[:-1])
    return np.asarray((here + grouping.share.sum(axis=1)) / 2.0)


def tail(parts: Floats, own: Floats) -> Floats:
    """Return what the size of a sum of Laplace numbers exceeds with probability 5% at most.

    Parameters
    ----------
    parts : ndarray of float, shape (n_cells, n_classes)
        Laplace scales.
    own : ndarray of float, shape (n_cells,)
        One more.

    Examples
    --------
    >>> bool(LN20 <= tail(np.zeros((1, 1)), np.ones(1))[0] < 6)
    True
    """
    most = np.maximum(parts.max(axis=1), own)
    best = np.full(own.size, np.inf)
    for part_of_it in np.linspace(0.05, 0.98, 32):
        rate = part_of_it / most
        lost = np.log1p(-((rate[:, None] * parts) ** 2)).sum(axis=1)
        lost += np.log1p(-((rate * own) ** 2))
        best = np.minimum(best, (LN40 - lost) / rate)
    return best

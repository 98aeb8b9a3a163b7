"""From private sums to one whole number per cell: weighted means of user means in an interval.

Let the interval be [a, b] in quanta above the lower bound of the records, whole numbers, found
privately or all of the bounds. A pair with m records, sum s and the whole weight W contributes

    c = floor(W clip(s, a m, b m) / m),

the user's mean projected to [a, b], times W. The cell's statistic is y = Σ c, its noise discrete
Laplace of scale R, and what is published is lower + quantum (y + noise) / Σ W. Rounding down moves
that by less than one quantum times the number of users over Σ W, which is below 2^-9 of a quantum
for cells of up to 2^17 users (planning/clipping_range/private_range.py).

Neighbours: all values of one user, in all its cells at once, change within the bounds; users
and counts stay. Then only this user's contributions change. W a and W b are whole, and c lies
between them and reaches both: the sensitivity W (b - a) is exact.
Loss: cells have independent noise, and discrete Laplace of scale R at integer distance d costs at
most d / R (mechanisms/noise.py). R is (b - a) (Σ W) r rounded up, r the plan's noise for an
interval of width 1: a cell costs at most W / (r Σ W), whatever the interval. So what a user loses
is known before the interval is; with what the interval costs it adds up to what is booked, since
losses add up whatever earlier outputs chose (ledger/odometer.py). Source: DESIGN's linear release
of clipped user means; ERRATA 3 for the accounting.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.errors import InputError
from hexveil.base.rational import round_up
from hexveil.mechanisms.clipped_mean import ROOM
from hexveil.mechanisms.noise import TAIL
from hexveil.planning.clipping_range.private_range import WEIGHT_RESOLUTION

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.model.occupancy import Occupancy, Pairs
    from hexveil.model.public_metadata import ValueLattice
    from hexveil.planning import Plan
    from hexveil.records import Dataset

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]


def contributions(total: Ints, n: Ints, weight: Ints, ends: tuple[int, int]) -> Ints:
    """Return c of each pair. PRIVATE.

    Examples
    --------
    >>> whole = [np.array([one]) for one in (7, 2, 10)]
    >>> contributions(*whole, (0, 100)), contributions(*whole, (0, 3))
    (array([35]), array([30]))
    """
    inside = np.clip(total, ends[0] * n, ends[1] * n)
    whole, rest = np.divmod(inside, n)
    return np.asarray(weight * whole + weight * rest // n, dtype=np.int64)


def statistic(dataset: Dataset, weight: Ints, ends: tuple[int, int]) -> Ints:
    """Return y of every cell. PRIVATE.

    Privacy
    -------
    It leaves only through the noise door. One user moves entry g by at most W (b - a), which it
    can (module head).
    """
    given = [dataset.sums.total, weight]
    found = dataset.occupancy.map_cells(partial(_statistic, ends=ends), pairs=given)
    return np.asarray(found, dtype=np.int64)


def _statistic(pairs: Pairs, total: Ints, weight: Ints, *, ends: tuple[int, int]) -> Ints:
    """Return y of some cells. PRIVATE."""
    return np.add.reduceat(contributions(total, pairs.n, weight, ends), pairs.start[:-1])


def scales(plan: Plan, width: int) -> Floats:
    """Return R of each cell for an interval of `width` quanta: its noise, rounded up."""
    return scales_of(plan.mean_noise, _totals(plan), width)


def scales_of(noise: Floats, totals: Ints, width: int, part: Fraction = Fraction(1)) -> Floats:
    """Return R of each number: its noise for a width of 1 and all of the loss, rounded up.

    Parameters
    ----------
    noise : ndarray of float, shape (n,)
    totals : ndarray of int64, shape (n,)
        Sums of weights.
    width : int
        How far a weight of 1 can move the number.
    part : Fraction
        Part of the loss that goes here.
    """
    exact = (
        round_up(Fraction(float(r)) * int(total) * width / part)
        for r, total in zip(noise, totals, strict=True)
    )
    return np.array(list(exact), dtype=np.float64)


def losses(occupancy: Occupancy, weight: Ints, reach: int, scale: Floats) -> Floats:
    """Return what each user loses by noise of a scale per cell: a pair moves it by W reach."""
    terms = weight * float(reach) / scale[occupancy.cell]
    lost = np.bincount(occupancy.user, weights=terms, minlength=occupancy.n_users)
    return np.asarray(lost, dtype=np.float64)


def means(noisy: Ints, plan: Plan, scale: ValueLattice) -> Floats:
    """Return the published mean of each cell from its noisy whole number, in value units."""
    total = _totals(plan)
    whole, rest = np.divmod(noisy, total)
    return np.asarray(plan.lower + float(scale.quantum) * (whole + rest / total), dtype=np.float64)


def grid(plan: Plan, scale: ValueLattice) -> tuple[Floats, Floats]:
    """Return where each cell's published means can lie: a start, and a step."""
    return plan.lower.copy(), float(scale.quantum) / _totals(plan)


def check(plan: Plan, scale: ValueLattice) -> None:
    """Refuse, from public facts, weights under which the stated loss would not hold, or too large.

    Raises
    ------
    InputError
        If a weight is below zero, a cell has none or no noise, the plan's bounds are not the
        records', or contributions, statistic and noise could leave 64 bits.
    """
    interval = plan.allocation.clipping_range
    if interval is None:
        return
    noise = plan.mean_noise
    if (interval.weight < 0).any() or (_totals(plan) <= 0).any() or not (noise > 0).all():
        raise InputError("the plan has a cell without weights or without noise; plan again.")
    if (plan.lower != float(scale.lower)).any() or (plan.upper != float(scale.upper)).any():
        raise InputError(
            "a private interval is found within the bounds that the records were read with; leave "
            "bounds out of the plan."
        )
    occupancy = plan.occupancy
    if WEIGHT_RESOLUTION * np.bincount(occupancy.user, weights=occupancy.n).max() >= ROOM:
        raise InputError(
            "so many records of one user do not fit whole numbers of 64 bits with their weight; "
            'ask for clipping_range "bounds".'
        )
    if plan.allocation.two_stage is not None:
        return  # mechanisms/two_stage_mean.py looks at all its numbers
    reach = 2.0 * scale.span_quanta * _totals(plan)
    if not (reach + TAIL * scales(plan, scale.span_quanta) < ROOM).all():
        raise InputError(
            f"noise for epsilon {float(plan.requested_epsilon):.3g} does not fit whole numbers "
            "of 64 bits; ask for a larger epsilon or use a coarser quantum."
        )


def _totals(plan: Plan) -> Ints:
    interval = plan.allocation.clipping_range
    assert interval is not None  # noqa: S101  only plans with weights come here
    return interval.totals(plan.occupancy)

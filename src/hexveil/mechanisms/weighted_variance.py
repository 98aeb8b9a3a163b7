"""From private sums to one whole number per cell, for the variance under a private interval.

Let the interval be [a, b] in quanta above the lower bound of the records, found privately or all of
the bounds; c its middle, r the radius around it (planning/clipping_range/private_range.py,
`centre_and_radius`): whole numbers, functions of a and b and of public facts. A pair with m records
k_j has the second moment about c

    q = Σ (k_j - c)² = ss - 2 c s + m c²,

from its three sums, and with the whole weight W it contributes

    v = W floor(2^20 min(q, m r²) / (m r²)).

The cell's statistic is Y = Σ v, its noise discrete Laplace of scale R. With y the mean's noisy
number (mechanisms/weighted_mean.py), x = y / Σ W - c and B the mean's noise scale over Σ W,
published is

    quantum² (r² (Y + noise) / (2^20 Σ W) - x² + 2 B²),

to the nearest part of 2^-30 of r²: 2 B² is what the mean's noise adds to x² on average. No record
is read again, and everything after both noises is a function of noisy numbers and public facts.
How far that can be from which variance: accounting/error_model.py, `WeightedVarianceErrorModel`.

Neighbours: all values of one user, in all its cells at once, change within the bounds; users
and counts stay. Then only this user's contributions change. v is a whole number between 0 and
2^20 W and reaches both (all samples at c; all as far from it as the bounds are, which is r at
least): the sensitivity 2^20 W is exact, whatever the interval.
Loss: cells and statistics have independent noise, and discrete Laplace of scale R at integer
distance d costs at most d / R (mechanisms/noise.py). R is 2^20 (Σ W) n rounded up, n the plan's
noise for a radius of 1: a cell costs at most W / (n Σ W) here and W / (n' Σ W) for its mean, n' the
mean's noise, which is always drawn; the plan books the sum of both, and what the interval costs, in
one sum (planning/plan.py). Losses add up whatever earlier outputs chose (ledger/odometer.py). What
is used of the sums: that they are those of m real values within the bounds
(records/feasible_sums.py), so that 0 <= q <= m max(c, S - c)², S the width of the bounds in quanta.
The variance of a cell of one record is 0: the plan has no noise for it, charges nothing, and no
value is looked at; the door gets a 0 in its place, and what comes back is not shown. Whole numbers:
m S² is below 2^62 where squares are kept, so that q, its terms two at a time and m r² stay within
64 bits; the division is done bit by bit, without rounding. Source: DESIGN's linear release of
clipped user means, of squares; ERRATA 3 for the accounting.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.error_model import has_single_record
from hexveil.base.errors import InputError
from hexveil.mechanisms import weighted_mean
from hexveil.mechanisms.clipped_mean import ROOM
from hexveil.mechanisms.noise import TAIL
from hexveil.planning.clipping_range.private_range import centre_and_radius

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hexveil.model.occupancy import Occupancy
    from hexveil.planning import Plan
    from hexveil.planning.clipping_range.private_range import PrivateClippingRange
    from hexveil.records import Dataset

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

BITS = 20
"""A second moment is counted in parts of 2^-20 of the squared radius."""
SHOWN = 2**30
"""A published variance is a whole number of parts of the squared radius, this many of them."""


def contributions(sums: tuple[Ints, Ints, Ints], weight: Ints, middle: int, radius: int) -> Ints:
    """Return v of each pair, from its count, its sum and its sum of squares. PRIVATE.

    Examples
    --------
    >>> whole = [np.array([one]) for one in (2, 7, 29, 3)]  # samples 2 and 5
    >>> (contributions(tuple(whole[:3]), whole[3], 4, 10) / 2**20).round(3)
    array([0.075])
    >>> contributions(tuple(whole[:3]), whole[3], 9, 5) // 2**20
    array([3])
    """
    n, total, squares = sums
    about = (squares - 2 * middle * total) + middle**2 * n
    most = n * radius**2
    # One digit of the quotient after the other: 2^20 q itself would not fit.
    share, rest = np.divmod(np.minimum(about, most), most)
    for _ in range(BITS):
        rest = 2 * rest
        digit = rest >= most
        rest -= most * digit
        share = 2 * share + digit
    return np.asarray(weight * share, dtype=np.int64)


def statistic(dataset: Dataset, interval: PrivateClippingRange, ends: tuple[int, int]) -> Ints:
    """Return Y of every cell. PRIVATE.

    Privacy
    -------
    It leaves only through the noise door. One user moves entry g by at most 2^20 W, which it can
    (module head).
    """
    occupancy, sums = dataset.occupancy, dataset.sums
    assert sums.total_sq is not None  # noqa: S101  see check
    middle, _, radius = centre_and_radius(
        ends, dataset.public.lattice.span_quanta, interval.radius or Fraction(1)
    )
    three = occupancy.n, sums.total, sums.total_sq
    each = contributions(three, _weights(occupancy, interval), middle, radius)
    return np.asarray(np.add.reduceat(each, occupancy.start[:-1]), dtype=np.int64)


def _weights(occupancy: Occupancy, interval: PrivateClippingRange) -> Ints:
    """Return W of each pair; 0 in cells of one record, whose variance is known."""
    return np.where(has_single_record(occupancy)[occupancy.cell], 0, interval.weight)


def losses(plan: Plan, interval: PrivateClippingRange) -> Floats:
    """Return what each user loses by the noise of `scales`."""
    occupancy = plan.occupancy
    return weighted_mean.losses(occupancy, _weights(occupancy, interval), 2**BITS, scales(plan))


def scales(plan: Plan) -> Floats:
    """Return R of each cell, its noise rounded up: the same for every interval.

    Noise of any scale is as good for a cell whose number is 0 whatever the values are.
    """
    found = weighted_mean.scales_of(plan.allocation.variance_noise, _totals(plan), 2**BITS)
    return np.where(plan.error_models["variance"].noised, found, 1.0)


def variances(noisy: Mapping[str, Ints], plan: Plan) -> Floats:
    """Return the published variance of each cell from its noisy whole numbers, squared units.

    The plan is one with the interval that was found.
    """
    interval, total = plan.allocation.clipping_range, _totals(plan)
    assert interval is not None  # noqa: S101  see _totals
    assert interval.ends is not None  # noqa: S101  it was found
    assert interval.span_quanta is not None  # noqa: S101  it was found
    middle, _, radius = centre_and_radius(
        interval.ends, interval.span_quanta, interval.radius or Fraction(1)
    )
    second = noisy["variance"] / (total * 2.0**BITS)
    away = (noisy["mean"] - middle * total) / (total * float(radius))
    b = weighted_mean.scales(plan, interval.ends[1] - interval.ends[0]) / (total * float(radius))
    shown = np.where(
        plan.error_models["variance"].noised, np.round((second - away**2 + 2.0 * b**2) * SHOWN), 0.0
    )
    return np.asarray(shown * grid(plan)[1], dtype=np.float64)


def grid(plan: Plan) -> tuple[Floats, Floats]:
    """Return where each cell's published variances can lie: a start, and a step."""
    part = plan.error_models["variance"]
    step = np.where(part.noised, part.unit / SHOWN, 0.0)
    return np.zeros_like(step), step


def check(dataset: Dataset, plan: Plan) -> None:
    """Refuse, from public facts, variances that cannot be computed or noised.

    Raises
    ------
    InputError
        If a cell has no noise, there are no sums of squares, or statistic and noise could leave 64
        bits.
    """
    if plan.allocation.clipping_range is None or "variance" not in plan.error_models:
        return
    noise = plan.allocation.variance_noise
    if not (np.isfinite(noise) & ((noise > 0) ^ has_single_record(plan.occupancy))).all():
        raise InputError("the plan has a variance without noise, or noise for one record's.")
    if not dataset.has_squares:
        raise InputError(
            "a variance needs sums of squares, which these records have not: give sum_sq with sums "
            "made elsewhere, or read the records with a coarser quantum."
        )
    if not (2.0**BITS * _totals(plan) + TAIL * scales(plan) < ROOM).all():
        raise InputError(
            f"noise of variances for epsilon {float(plan.requested_epsilon):.3g} does not fit "
            "whole numbers of 64 bits; ask for a larger epsilon."
        )


def _totals(plan: Plan) -> Ints:
    interval = plan.allocation.clipping_range
    assert interval is not None  # noqa: S101  only plans with weights come here
    return interval.totals(plan.occupancy)

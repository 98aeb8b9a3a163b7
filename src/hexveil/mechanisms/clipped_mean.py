"""From private sums to one whole number per cell, for the mean, and what each user can do to it.

For cell g with bounds [a, b] on the lattice (quanta above the lower bound of the records), let
S = b - a. Let a user with m records have the sum s, and let k be what the plan keeps of them
(`plan.mean_contributions`, at most m):
the user's factor times min(m, t), in whole quanta, so that w = k S
is a whole number. The user's contribution, in half quanta, is

    c = clip(2 s', S m - w, S m + w)  with  s' = clip(s - a m, 0, S m).

With k = min(m, t) that is WC Theorem III.1's projection of the user's mean to U/2 ± T/(2m); a
factor makes the interval narrower still. Both ends are whole: nothing is rounded. A pair of which
nothing is kept has w = 0 and adds S m, as m records at the middle would. The cell's statistic is
y = Σ c, its noise discrete Laplace of scale R, and what is published is
lower_g + quantum (y + noise) / (2 N).

Neighbours: all values of one user, in all its cells at once, change within the bounds; users
and counts stay. Then only this user's contributions change, each within an interval of width 2 w,
which is attained by moving s from one end to the other (w <= S m): the sensitivity is exact.
Loss: cells have independent noise, and discrete Laplace of scale R at integer distance d costs at
most d / R (mechanisms/noise.py). R is 2 S r rounded up, r the plan's `noise_records`; hence a cell
costs at most 2 w / (2 S r) = k / r, which is what the plan books, rounded up again
(planning/plan.py). k is a double: `half_widths` finds w with w / S at most k (1 + 2^-50 + 2^-51),
which the eight ulps that the plan adds to each term cover.
A cell without noise (r = 0) keeps nothing and publishes the middle of its bounds: no value is
read and no noise is drawn.
Whether everything fits 64 bits is decided beforehand from public facts: no value causes an error.
Source: WC Theorem III.1, ERRATA 3 and 10.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.pair_losses import contributed_records as kept_of
from hexveil.accounting.pair_losses import user_losses as pair_losses
from hexveil.base.errors import InputError
from hexveil.base.rational import round_up
from hexveil.mechanisms.noise import TAIL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.model.occupancy import Pairs
    from hexveil.model.public_metadata import ValueLattice
    from hexveil.planning import Plan
    from hexveil.records import Dataset

ROOM = 2**61
"""Statistic and noise of a cell stay below this, half of what the noise door accepts."""
GRAIN = 2**30
"""A user's factor is a whole number of parts of this size."""
_HAIR = 1.0 + 2.0**-50


@dataclass(frozen=True, eq=False)
class Lattice:
    """The public side of the statistic: where each cell's whole numbers stand.

    Attributes
    ----------
    lower, steps : ndarray of int, shape (n_cells,)
        Lower bound and width of each cell, in quanta above the lower bound of the records.
    noise : ndarray of float, shape (n_cells,)
        R: noise scale in half quanta, rounded up; 0 where nothing is kept.
    """

    lower: NDArray[np.int64]
    steps: NDArray[np.int64]
    noise: NDArray[np.float64]


def lattice(plan: Plan, scale: ValueLattice) -> Lattice:
    """Return where the plan's cells stand on the lattice of the records.

    Raises
    ------
    InputError
        If a bound of the plan is off the lattice, a sum or its noise could leave 64 bits, or a
        cell keeps records without noise.
    """
    _check_rows(plan)
    _check_sums(plan, scale)
    pairs, which = np.unique(np.stack([plan.lower, plan.upper], 1), axis=0, return_inverse=True)
    ends = np.array(
        [
            [scale.to_quanta(low, "lower bound"), scale.to_quanta(high, "upper bound")]
            for low, high in pairs.tolist()
        ],
        dtype=np.int64,
    )[which.reshape(-1)]
    steps = ends[:, 1] - ends[:, 0]
    where = Lattice(ends[:, 0], steps, _noise(steps, plan.noise_scale_records))
    _check_noise(plan, where)
    return where


def _noise(steps: NDArray[np.int64], noise_records: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return R of each cell, of few values (planning/optimizers/noise_quantization.py)."""
    asked = list(zip(steps.tolist(), noise_records.tolist(), strict=True))
    scale = {(s, r): round_up(2 * s * Fraction(r)) for s, r in set(asked)}
    return np.array([scale[one] for one in asked], dtype=np.float64)


def live_cells(plan: Plan) -> NDArray[np.int64]:
    """Return the numbers of the cells whose mean is noised; of the others no value is read."""
    return np.flatnonzero(plan.noise_scale_records > 0)


def half_widths(
    kept: NDArray[np.float64], m: NDArray[np.int64], steps: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return w of each pair: kept samples in whole quanta, at most all of them.

    Parameters
    ----------
    kept : ndarray of float, shape (n,)
        Samples kept of each pair, as the plan states them: whole, or whole in quanta up to
        rounding. What is not is rounded down, so that nothing exceeds what is booked.
    m, steps : ndarray of int, shape (n,)
        Records of the pair, and width of its cell's bounds in quanta.
    """
    samples = np.floor(kept)
    quanta = np.floor(kept * steps * _HAIR).astype(np.int64)
    width = np.where(samples == kept, samples.astype(np.int64) * steps, quanta)
    return np.asarray(np.minimum(width, steps * m), dtype=np.int64)


def statistic(dataset: Dataset, plan: Plan, where: Lattice) -> NDArray[np.int64]:
    """Return y of every live cell, in half quanta. PRIVATE.

    Privacy
    -------
    It leaves only through the noise door. One user moves entry g by at most 2 w (module head).
    The sums of cells without noise are not looked at.
    """
    rows = plan.allocation
    cells = where.lower, where.steps, plan.noise_scale_records, *plan.caps_and_quanta("mean")
    dropped = () if rows.suppressed_pairs is None else (rows.suppressed_pairs,)
    return np.asarray(dataset.map_cells(_statistic, cells, (rows.contribution_factor,), dropped))


def _statistic(  # noqa: PLR0913, PLR0917  what `map_cells` hands over
    pairs: Pairs,
    total: NDArray[np.int64],
    _squares: object,
    lower: NDArray[np.int64],
    steps: NDArray[np.int64],
    noise: NDArray[np.float64],
    threshold: NDArray[np.int64],
    quanta: NDArray[np.float64],
    factor: NDArray[np.float64],
    *dropped: NDArray[np.bool_],
) -> NDArray[np.int64]:
    kept = kept_of(pairs, threshold, quanta, factor)
    for off in dropped:
        kept = np.where(off, 0.0, kept)
    rows = np.flatnonzero(noise[pairs.cell] > 0)
    cell, m = pairs.cell[rows], pairs.n[rows]
    span = steps[cell]
    inside = np.clip(total[rows] - lower[cell] * m, 0, span * m)
    width = half_widths(kept[rows], m, span)
    contribution = np.clip(2 * inside, span * m - width, span * m + width)
    first = np.searchsorted(cell, np.flatnonzero(noise > 0))  # pairs are sorted, no cell is empty
    if not first.size:
        return np.zeros(0, dtype=np.int64)
    return np.asarray(np.add.reduceat(contribution, first), dtype=np.int64)


def losses(plan: Plan, where: Lattice) -> NDArray[np.float64]:
    """Return each user's loss by all statistics of a plan without a private interval, rounded up.

    The mean's noise is that which goes to the noise library (`Lattice.noise`); the variance's is
    `variance.STEPS` on a lattice made from the plan's own noise (mechanisms/clipped_variance.py).
    """
    cells, users, dropped = plan.loss_parameters
    given = cells._replace(noise=where.noise / (2.0 * where.steps))
    return np.asarray(plan.occupancy.map_users(pair_losses, given, users, dropped))


def means(noisy: NDArray[np.int64], plan: Plan, scale: ValueLattice) -> NDArray[np.float64]:
    """Return the published mean of each cell from its noisy whole number, in value units."""
    total = 2 * plan.occupancy.records_per_cell
    whole, rest = np.divmod(noisy, total)
    quantum = float(scale.quantum)
    return np.asarray(plan.lower + quantum * (whole + rest / total), dtype=np.float64)


def grid(plan: Plan, scale: ValueLattice) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return where each cell's published means can lie: a start, and a step; of constants 0.

    Public: it follows from bounds, quantum and counts.
    """
    live = plan.noise_scale_records > 0
    middle = plan.lower + plan.span / 2.0
    step = float(scale.quantum) / (2.0 * plan.occupancy.records_per_cell)
    return np.where(live, plan.lower, middle), np.where(live, step, 0.0)


def _check_rows(plan: Plan) -> None:
    """Refuse rows under which the loss that the plan states would not hold."""
    noise, kept = plan.noise_scale_records, plan.contribution_cap
    if not (np.isfinite(noise) & np.where(kept > 0, noise > 0, noise >= 0)).all():
        raise InputError("the plan has a cell that keeps records without noise; plan again.")
    if (kept < 0).any() or (plan.allocation.variance_cap < 0).any():
        raise InputError("the plan has a cell that keeps fewer than no records; plan again.")
    parts = plan.allocation.contribution_factor * GRAIN
    if not ((parts >= 0) & (parts <= GRAIN) & (parts == np.floor(parts))).all():
        raise InputError(
            "the plan has a factor that is not a multiple of 2^-30 from 0 to 1; plan again."
        )


def _check_sums(plan: Plan, scale: ValueLattice) -> None:
    most = int(plan.occupancy.records_per_cell.max())
    if 4 * scale.span_quanta * most >= ROOM:
        raise InputError(
            f"a cell of {most} records on a lattice of {scale.span_quanta} steps does not fit "
            "whole numbers of 64 bits; use a coarser quantum."
        )


def _check_noise(plan: Plan, where: Lattice) -> None:
    records = plan.occupancy.records_per_cell
    if not (2.0 * where.steps * records + TAIL * where.noise < ROOM).all():
        raise InputError(
            f"noise for epsilon {float(plan.requested_epsilon):.3g} does not fit whole numbers "
            "of 64 bits; ask for a larger epsilon or use a coarser quantum."
        )

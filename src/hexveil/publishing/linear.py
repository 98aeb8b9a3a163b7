"""From private sums to one whole number per cell, and what each user can do to it.

For cell g with bounds [a, b] on the lattice (quanta above the lower bound of the records), let
S = b - a, and let a user with m records have the sum s. Its contribution, in half quanta, is

    c = clip(2 s', S (m - t)+, S (m + min(m, t)))  with  s' = clip(s - a m, 0, S m)

where t is the plan's `kept`. That is WC Theorem III.1's projection of the user's mean to
U/2 ± T/(2m), counted in half quanta so that both ends are whole: nothing is rounded. The cell's
statistic is y = Σ c, its noise discrete Laplace of scale R, and what is published is
lower_g + quantum (y + noise) / (2 N).

Neighbours: all values of one user, in all its cells at once, change within the bounds; users
and counts stay. Then only this user's contributions change, each by at most

    S (m + min(m, t)) - S (m - t)+ = 2 S min(m, t),

a whole number, attained by moving s from one end to the other: the sensitivity is exact.
Loss: cells have independent noise, and discrete Laplace of scale R at integer distance d costs at
most d / R (noise/secure.py). R is 2 S r rounded up, r the plan's `noise_records`; hence a cell
costs at most 2 S min(m, t) / (2 S r) = min(m, t) / r, which is what the plan books, rounded up
again (planning/plan.py). A cell with t = 0 publishes the middle of its bounds: c = S m for every
sum, so no value is read and no noise is drawn.
Source: WC Theorem III.1, ERRATA 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hexveil.errors import InputError
from hexveil.exact import float_up

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.facts import ValueScale
    from hexveil.planning import Plan
    from hexveil.records import Dataset

ROOM = 2**61
"""Statistics of a cell stay below this, so that noise has room in 64 bits."""


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


def lattice(plan: Plan, scale: ValueScale) -> Lattice:
    """Return where the plan's cells stand on the lattice of the records.

    Raises
    ------
    InputError
        If a bound of the plan is off the lattice, or a sum could leave 64 bits.
    """
    pairs, which = np.unique(np.stack([plan.lower, plan.upper], 1), axis=0, return_inverse=True)
    ends = np.array(
        [
            [scale.to_steps(low, "lower bound"), scale.to_steps(high, "upper bound")]
            for low, high in pairs.tolist()
        ],
        dtype=np.int64,
    )[which.reshape(-1)]
    steps = ends[:, 1] - ends[:, 0]
    _check_room(plan, scale)
    noise = [
        float_up(2 * int(s) * Fraction(float(r)))
        for s, r in zip(steps, plan.noise_records, strict=True)
    ]
    return Lattice(ends[:, 0], steps, np.array(noise, dtype=np.float64))


def statistic(dataset: Dataset, plan: Plan, where: Lattice) -> NDArray[np.int64]:
    """Return y of every cell, in half quanta. PRIVATE: it leaves only through the noise door."""
    occupancy = plan.occupancy
    cell, m = occupancy.cell, occupancy.n
    steps, kept = where.steps[cell], plan.kept[cell]
    inside = np.clip(dataset.sums.total - where.lower[cell] * m, 0, steps * m)
    low = steps * np.maximum(m - kept, 0)
    contribution = np.clip(2 * inside, low, steps * (m + np.minimum(m, kept)))
    return np.asarray(np.add.reduceat(contribution, occupancy.start[:-1]), dtype=np.int64)


def means(noisy: NDArray[np.int64], plan: Plan, scale: ValueScale) -> NDArray[np.float64]:
    """Return the published mean of each cell from its noisy whole number, in value units."""
    total = 2 * plan.occupancy.records_per_cell
    whole, rest = np.divmod(noisy, total)
    quantum = float(scale.quantum)
    return np.asarray(plan.lower + quantum * (whole + rest / total), dtype=np.float64)


def _check_room(plan: Plan, scale: ValueScale) -> None:
    most = int(plan.occupancy.records_per_cell.max())
    if 4 * scale.steps * most >= ROOM:
        raise InputError(
            f"a cell of {most} records on a lattice of {scale.steps} steps does not fit whole "
            "numbers of 64 bits; use a coarser quantum."
        )

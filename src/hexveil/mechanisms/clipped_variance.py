"""From private sums to one whole number per cell, for the variance.

Let a cell have N samples and bounds of width U; distances are taken from the middle of the bounds.
Of a user with m samples the plan keeps q = f min(m, t) (`plan.kept_variance`): each of its samples
gets the weight q/m, and the weight m - q is put at the middle. The variance of all this is

    V = A/N - (B/N)²,   A = Σ (q/m) Σ_j (x_j - middle)²,   B = Σ (q/m) Σ_j (x_j - middle).

f is a multiple of 2^-30 and samples are whole in half quanta around the middle, so V is a ratio of
whole numbers, computed without rounding. With b the Laplace scale, the statistic is
Y = floor(2^30 V / b), its noise discrete Laplace of scale 2^30, and what is published is
(Y + noise) b / 2^30, plus a constant that centres the error (`centring`): with a share d <= 1/2 at
the middle, the true variance less V lies in U² d (1 - d) [-1/4, 3/4] (ERRATA 10); with d > 1/2 in
U² [-d (1 - d) / 4, (1 - d (1 - d)) / 4]. A cell without noise publishes U²/8, one of a single
record 0, which it is; no value is read there.

Neighbours: all values of one user, in all its cells at once, change within the bounds.
Sensitivity of V, for U = 1. Let p = q/N be the user's kept share, v and μ variance and mean of its
samples, so v <= μ (1 - μ), and r the mean of the rest, which does not change. Then V is a constant
plus h = p v + p (1 - p) (μ - r)², and h >= 0 is 0 at μ = r, v = 0. So V moves by at most the
largest h. h is convex in r, hence largest at r = 0 (or 1, its mirror image), where it is at most
p μ - p² μ²: p (1 - p) at μ = 1 for p <= 1/2, else 1/4 at μ = 1 / (2 p) (ERRATA 10). Where nothing
of a cell is put at the middle V is the plain variance, whose sensitivity is COMP Proposition III.1
with the user's own count (ERRATA 3). Only v <= μ (1 - μ) and, for the latter, that the sums are
those of m real values were used: both hold for all sums that a data set accepts
(records/feasible_sums.py).
Loss: floors of numbers a distance x apart differ by less than x + 1. So a user who moves V by at
most D costs less than (2^30 D / b + 1) / 2^30 = D / b + 2^-30, and the plan books both terms (its
LATTICE). A user of whom nothing is kept moves nothing. Where both statistics of a cell are
published their losses are added, or bounded together as for unrounded statistics
(accounting/privacy_loss.py), plus 2^-30. Whether everything fits 64 bits is decided beforehand from
public facts: no value causes an error.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.accounting.error_model import MAX_CONSTANT_ERROR
from hexveil.base.errors import InputError
from hexveil.mechanisms.clipped_mean import GRAIN, ROOM
from hexveil.mechanisms.noise import TAIL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.mechanisms.clipped_mean import Lattice
    from hexveil.model.occupancy import Pairs
    from hexveil.model.public_metadata import ValueLattice
    from hexveil.planning import Plan
    from hexveil.records import Dataset

STEPS = 2**30
"""Lattice steps in one Laplace scale: the integer noise scale of every cell."""


def live_cells(plan: Plan) -> NDArray[np.int64]:
    """Return the numbers of the cells whose variance is noised; of the others no value is read."""
    return np.flatnonzero(plan.allocation.variance_noise > 0)


def check(dataset: Dataset, plan: Plan, where: Lattice) -> None:
    """Refuse, from public facts, variances that cannot be computed or noised.

    Raises
    ------
    InputError
        If a noised cell has bounds narrower than the records', there are no sums of squares, or
        statistic and noise could leave 64 bits.
    """
    if "variance" not in plan.error_models or plan.allocation.clipping_range is not None:
        return  # under a private interval: mechanisms/weighted_variance.py
    noise = plan.allocation.variance_noise
    if not (np.isfinite(noise) & (noise >= 0)).all():
        raise InputError("the plan has a variance whose noise is no number; plan again.")
    live = live_cells(plan)
    if not live.size:
        return
    _check_bounds(where, live, dataset.public.lattice)
    if not dataset.has_squares:
        raise InputError(
            "a variance needs sums of squares, which these records have not: give sum_sq with sums "
            "made elsewhere, or read the records with a coarser quantum."
        )
    if not (Fraction(1) / (4 * Fraction(float(noise[live].min()))) + int(TAIL)) * STEPS < ROOM:
        raise InputError(
            f"variances at epsilon {float(plan.requested_epsilon):.3g} are finer than whole "
            "numbers of 64 bits can say; ask for a smaller epsilon."
        )


def statistic(dataset: Dataset, plan: Plan, where: Lattice) -> NDArray[np.int64]:
    """Return Y of every live cell. PRIVATE.

    Privacy
    -------
    It leaves only through the noise door. One user moves entry g by less than
    2^30 (its sensitivity) / b + 1, by nothing if nothing of it is kept (module head). The sums of
    cells without noise are not looked at.
    """
    rows, occupancy = plan.allocation, plan.occupancy
    cells = where.steps, occupancy.records_per_cell, rows.variance_noise, rows.variance_cap
    dropped = () if rows.suppressed_pairs is None else (rows.suppressed_pairs,)
    return np.asarray(dataset.map_cells(_statistic, cells, (rows.contribution_factor,), dropped))


def _statistic(  # noqa: PLR0913, PLR0917  what `map_cells` hands over
    pairs: Pairs,
    total: NDArray[np.int64],
    squares: NDArray[np.int64],
    steps: NDArray[np.int64],
    records: NDArray[np.int64],
    noise: NDArray[np.float64],
    threshold: NDArray[np.int64],
    factor: NDArray[np.float64],
    *dropped: NDArray[np.bool_],
) -> NDArray[np.int64]:
    rows = np.flatnonzero(noise[pairs.cell] > 0)
    cell, n = pairs.cell[rows], pairs.n[rows]
    # Half quanta around the middle: 2 k - S. Their squares add up to S² m at most, which fits.
    span = steps[cell]
    first = 2 * total[rows] - span * n
    second = 4 * (squares[rows] - span * total[rows]) + span**2 * n
    parts = (factor * GRAIN).astype(np.int64)[pairs.user[rows]]
    for off in dropped:
        parts = np.where(off[rows], 0, parts)
    weight, divisor = _weights(np.minimum(n, threshold[cell]), n, parts)
    cells = _cell_sums(cell, divisor, weight * second, weight * first)
    live = np.flatnonzero(noise > 0).tolist()
    return np.array(
        [
            _steps(sums, int(records[g]), int(steps[g]), Fraction(float(noise[g])))
            for g, sums in zip(live, cells, strict=True)
        ],
        dtype=np.int64,
    )


def variances(noisy: NDArray[np.int64], plan: Plan) -> NDArray[np.float64]:
    """Return the published variance of each cell from its noisy whole number, squared units."""
    part = plan.error_models["variance"]
    shown = part.noise * (noisy / STEPS) + centring(part.clipped_share)
    return np.asarray(
        part.unit * np.where(part.noised, shown, part.constant_error), dtype=np.float64
    )


def grid(plan: Plan) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return where each cell's published variances can lie: a start, and a step; of constants 0.

    Public: it follows from bounds, noise and what the plan keeps.
    """
    part = plan.error_models["variance"]
    start = np.where(part.noised, centring(part.clipped_share), part.constant_error)
    return part.unit * start, part.unit * part.noise / STEPS


def centring(away: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what is added to a variance with a share at the middle, for bounds of width 1.

    d (1 - d) / 4 for d <= 1/2, else 1/8 - d (1 - d) / 4: the middle of the possible errors.
    """
    quarter = away * (1.0 - away) / 4.0
    return np.asarray(np.where(away <= 0.5, quarter, MAX_CONSTANT_ERROR["variance"] - quarter))


def _check_bounds(where: Lattice, live: NDArray[np.int64], scale: ValueLattice) -> None:
    """Refuse narrower bounds: of squares of values clamped to them no sum is kept."""
    if (where.lower[live] > 0).any() or (where.steps[live] < scale.span_quanta).any():
        raise InputError(
            "a variance needs the bounds that the records were read with; leave bounds out of the "
            "plan, or read the records with the narrower bounds."
        )


def _weights(
    kept: NDArray[np.int64], m: NDArray[np.int64], parts: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return 2^30 q/m of each pair as numerator (Python integers) and divisor, in lowest terms.

    q is `kept` of m samples times the factor, which comes in parts of 2^-30.
    """
    common = np.gcd(kept, m)
    kept, m = kept // common, m // common
    common = np.gcd(parts, m)
    return (parts // common).astype(object) * kept, m // common


def _cell_sums(
    cell: NDArray[np.int64], divisor: NDArray[np.int64], *terms: NDArray[Any]
) -> list[tuple[int, ...]]:
    """Return for each cell a common divisor and, over it, the exact sum of each kind of term.

    Terms of equal divisor are added first; most pairs have the divisor 1.
    """
    order = np.lexsort((divisor, cell))
    cell, divisor = cell[order], divisor[order]
    new = np.diff(cell, prepend=-1) != 0
    groups = np.flatnonzero(new | (np.diff(divisor, prepend=0) != 0))
    sums = [np.add.reduceat(t[order], groups).tolist() for t in terms]
    divisors = divisor[groups].tolist()
    edges = [*np.flatnonzero(new[groups]).tolist(), len(divisors)]
    found = []
    for start, stop in pairwise(edges):
        common = math.lcm(*divisors[start:stop])
        shares = [common // d for d in divisors[start:stop]]
        over = (sum(map(int.__mul__, s[start:stop], shares)) for s in sums)
        found.append((common, *over))
    return found


def _steps(sums: tuple[int, ...], records: int, steps: int, noise: Fraction) -> int:
    """Return Y = floor(2^30 V / b), with V in half quanta squared and b = noise (2 S)²."""
    divisor, second, first = sums
    whole = divisor * GRAIN * records  # A/N = second / whole, B/N = first / whole
    above = (second * whole - first**2) * STEPS * noise.denominator
    return above // (whole**2 * noise.numerator * 4 * steps**2)

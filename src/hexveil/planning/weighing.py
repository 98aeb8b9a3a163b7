"""Users' weights in each cell, and the noise of each cell, for means of projected user means.

A cell's number is Σ_l w_gl clip(user mean) with weights that sum to one, plus Laplace noise. For an
interval of width 1 a user moves it by w_gl, and loses Σ_g w_gl / b_g over all its cells, b the
noise scales (theory/loss.py; publishing/weighted.py for the whole numbers). Weights that differ
from the shares p_gl = m/N of the records make noise smaller and the number another one: it is off
by Σ (w - p)(user mean), at most half of Σ |w - p| for an interval of width 1. What it is off by
in fact depends on values, so a stated prior says it: user means within a cell are independent with
standard deviation `spread`, and users whose weight rises differ from those whose weight falls by
`drift`; both as parts of the interval's width. Then a cell is off by at most

    √(2/π) spread √(Σ (w - p)²) + drift Σ |w - p| / 2

on average. Weights are w ∝ f_l p_gl, f_l a factor of the user: with a_g rates of noise, f_l is 1
where Σ_g a_g p_gl is at most 1, and else what brings it there. Noise and what a cell is off by,
averaged over cells, are a smooth function of log a, and minimised by L-BFGS.

A prior that does not fit costs accuracy, never privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.occupancy import Occupancy

    Floats = NDArray[np.float64]

ITERATIONS = 200
REACH = 30.0
"""How far the logarithms of the rates may go from where they began."""
FLAT, STILL = 1e-3, 1e-6
"""The search ends where a cell's slope is below `FLAT` of its part of the objective at the start,
or where a step betters the objective by less than `STILL` of it."""
BEGIN, BEGIN_TOO, SMALL = (0.9,), (0.5, 1.0), 2_000
"""Quantiles of what users would lose at equal rates, where the search begins; of few pairs, where
the objective is rough, at the others too."""
STRIDE = 0.3
"""What the first step changes the logarithm of some rate by, at least: it would be the slope, which
is next to nothing on maps of many cells or of little noise."""
ROUNDED = 1e-3
"""Below this part of its share a weight's distance from it is rounded off: a slope is needed."""
NORMAL = math.sqrt(2.0 / math.pi)
"""Expected distance from its mean of a normal number, in standard deviations."""


@dataclass(frozen=True)
class Likeness:
    """What is assumed of user means, as parts of the width of the interval they are projected to.

    Attributes
    ----------
    spread : float
        Standard deviation of user means within a cell.
    drift : float
        By how much users whose weight rises differ from those whose weight falls.
    """

    spread: float
    drift: float


@dataclass(frozen=True, eq=False)
class Weighing:
    """Weights and noise for an interval of width 1.

    Attributes
    ----------
    weight : ndarray of float, shape (n_pairs,)
        Sum to one in each cell.
    noise : ndarray of float, shape (n_cells,)
        Laplace scale at which no user loses more than was allowed, up to rounding.
    """

    weight: Floats
    noise: Floats


class _Problem:
    """The objective: average noise, and what the weights make a cell off by, with its slope."""

    def __init__(self, occupancy: Occupancy, loss: float, prior: Likeness) -> None:
        self.occupancy, self.loss, self.prior = occupancy, loss, prior
        self.first = occupancy.start[:-1]
        self.share = occupancy.n / self.spread_out(occupancy.records_per_cell)
        self.mark = ROUNDED * self.share

    def spread_out(self, per_cell: NDArray[np.int64] | Floats) -> Floats:
        return np.asarray(per_cell[self.occupancy.cell], dtype=np.float64)

    def by_cell(self, terms: Floats) -> Floats:
        return np.asarray(np.add.reduceat(terms, self.first))

    def by_user(self, terms: Floats) -> Floats:
        occupancy = self.occupancy
        return np.asarray(
            np.bincount(occupancy.user, weights=terms, minlength=occupancy.n_users),
            dtype=np.float64,
        )

    def weighing(self, rates: Floats) -> Weighing:
        """Return the weights of these rates, and the noise."""
        kept = self._factors(rates)[0][self.occupancy.user] * self.share
        total = self.by_cell(kept)
        return Weighing(kept / self.spread_out(total), 1.0 / (self.loss * rates * total))

    def _factors(self, rates: Floats) -> tuple[Floats, Floats]:
        """Return each user's factor, and how fast it falls with what the user would lose."""
        lost = np.maximum(self.by_user(self.spread_out(rates) * self.share), 1e-300)
        return np.minimum(1.0, 1.0 / lost), np.where(lost > 1.0, -1.0 / lost**2, 0.0)

    def value(self, logs: Floats) -> tuple[float, Floats]:
        """Return the objective and its slope in the logarithms of the rates."""
        rates = np.exp(logs)
        factor, fall = self._factors(rates)
        kept = factor[self.occupancy.user] * self.share
        total = self.by_cell(kept)
        weight = kept / self.spread_out(total)
        noise = 1.0 / (self.loss * rates * total)
        off, slope = self._off(weight)
        # Slopes: of what a cell is off by through its weights, which sum to one; of the noise.
        slope = (slope - self.spread_out(self.by_cell(slope * weight))) / self.spread_out(total)
        slope -= self.spread_out(noise / total)
        through = fall * self.by_user(slope * self.share)
        by_rate = self.by_cell(through[self.occupancy.user] * self.share) - noise / rates
        return float((noise + off).mean()), by_rate * rates / rates.size

    def _off(self, weight: Floats) -> tuple[Floats, Floats]:
        """Return what each cell is off by, and its slope in the weights."""
        away, prior = weight - self.share, self.prior
        length = np.sqrt(self.by_cell(away**2) + self.by_cell(self.mark**2))
        apart = np.sqrt(away**2 + self.mark**2)
        off = NORMAL * prior.spread * length + prior.drift / 2.0 * self.by_cell(apart)
        slope = NORMAL * prior.spread * away / self.spread_out(length)
        return off, slope + prior.drift / 2.0 * away / apart


def weigh(
    occupancy: Occupancy, loss: float, prior: Likeness, iterations: int = ITERATIONS
) -> Weighing:
    """Return weights and noise that make the average predicted error small.

    Parameters
    ----------
    occupancy : Occupancy
    loss : float
        The most that a user may lose, in epsilon.
    prior : Likeness
    iterations : int
        Fewer of them are good enough for a prediction.

    Examples
    --------
    >>> from hexveil.occupancy import Occupancy
    >>> crowd = Occupancy.from_dense([[1, 1]] * 50)
    >>> weigh(crowd, 1.0, Likeness(0.3, 0.1)).noise  # span G / (epsilon L), in both cells
    array([0.04, 0.04])
    """
    problem = _Problem(occupancy, loss, prior)
    lost = problem.by_user(problem.share)
    begins = BEGIN if occupancy.n_pairs > SMALL else (*BEGIN, *BEGIN_TOO)
    found = (_search(problem, float(np.quantile(lost, one)), iterations) for one in begins)
    return problem.weighing(np.exp(min(found, key=lambda logs: problem.value(logs)[0])))


def _search(problem: _Problem, typical: float, iterations: int) -> Floats:
    """Return logarithms of rates that L-BFGS finds from where users of this loss lose it all."""
    import scipy.optimize  # noqa: PLC0415  slow to import

    begin = np.full(problem.occupancy.n_cells, -math.log(typical))
    first, slope = problem.value(begin)
    scale = max(STRIDE / max(float(np.abs(slope).max()), 1e-300), 1.0)

    def scaled(logs: Floats) -> tuple[float, Floats]:
        value, slope = problem.value(logs)
        return value * scale, slope * scale

    done = scipy.optimize.minimize(
        scaled,
        begin,
        jac=True,
        method="L-BFGS-B",
        bounds=np.stack((begin - REACH, begin + REACH), axis=1),
        options={
            "maxiter": iterations,
            "gtol": FLAT * first * scale / begin.size,
            "ftol": STILL * min(first * scale, 1.0),  # the search takes it of 1 or more
        },
    )
    return np.asarray(done.x)


def off_by(occupancy: Occupancy, weight: Floats, prior: Likeness) -> Floats:
    """Return what weights make each cell off by, by the prior; for an interval of width 1."""
    problem = _Problem(occupancy, 1.0, prior)
    away = weight - problem.share
    return np.asarray(
        NORMAL * prior.spread * np.sqrt(problem.by_cell(away**2))
        + prior.drift / 2.0 * problem.by_cell(np.abs(away))
    )


def most_off(occupancy: Occupancy, weight: Floats) -> Floats:
    """Return the most that weights can make each cell off by, for an interval of width 1."""
    problem = _Problem(occupancy, 1.0, Likeness(0.0, 0.0))
    return np.asarray(problem.by_cell(np.abs(weight - problem.share)) / 2.0)

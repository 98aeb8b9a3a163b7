"""Priors of cell means: normal with wide tails, in which cells of few users vary more.

Given the parameters of the map, the mean of a cell has the law

    0.83 N(m0, v) + 0.15 N(m0, 9 v) + 0.02 U(bounds),    v = τ² / relative users^(2 κ) + s² Σp²

cut off at the bounds. m0 is the centre of the map, τ the deviation between cells of a typical
number of users, s the deviation of user means within a cell. Where other cells predict a centre for
the cell (group_centres.py), m0 is moved by its distance from the map's, and v has its variance too.
The parameters are not known: (m0, log τ, κ) have a weak prior around what the released quantiles
suggest, and nodes of a regular grid are weighted by it and by the marginal likelihood of all cells.
The grid is laid several times,
each time around the posterior on the one before: figures are smooth in the noisy numbers.

Posterior of the mean of each cell: quantiles, intervals and expected errors.

Published numbers are rounded to a fixed step: they are the same on every processor.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from hexveil.base.arrays import Floats
from hexveil.base.normal_law import ndtr
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.smoothing.user_mean_law import CellDesign, UserMeanSpread, invert_rows, take_rows

SHARES, WIDE_MULTIPLE = (0.83, 0.15, 0.02), 3.0
"""Shares of the normal law, of the one `WIDE_MULTIPLE` times as wide, and of the uniform law."""
FIRST_EXPONENTS, EXPONENTS = (0.4,), (0.0, 0.4, 0.8)
"""Values of κ on the first grid and on later ones."""
CENTRE_SD, LOG_DEVIATION_SD = 1.5, 0.9
"""Prior standard deviations of m0, in pooled deviations, and of log τ."""
FIRST_CENTRES, FIRST_DEVIATIONS = np.linspace(-2.4, 2.4, 13), np.linspace(-2.4, 1.2, 9)
"""First nodes around the prior means: of m0 in pooled deviations, and of log τ."""
NODES = np.linspace(-1.65, 1.65, 4)
"""Later nodes, in posterior standard deviations around the posterior mean."""
ROUNDS = 3
"""How often the grid of nodes is laid."""
LEAST_STEP_SHARE = 0.35
"""Smallest deviation that nodes are laid with, in steps of the grid before."""
FIRST_CELLS, MOST_CELLS = 256, 1_024
"""Cells that the first and the later grids are weighted by: more would say no more."""


@dataclass(frozen=True, eq=False)
class MapParameters(ReadOnlyArrays):
    """Nodes (m0, τ, κ) with weights, which add up to one.

    Attributes
    ----------
    centre, deviation, exponent, weight : ndarray of float, shape (n_nodes,)
    log_evidence : float
        Largest log posterior density of a node, up to a constant of the map.
    """

    centre: Floats
    deviation: Floats
    exponent: Floats
    weight: Floats
    log_evidence: float = 0.0


@dataclass(frozen=True, eq=False)
class CellPrior(ReadOnlyArrays):
    """The prior of some cells, given the parameters of the map.

    Attributes
    ----------
    log_users : ndarray of float, shape (n_cells,)
        Logarithm of each cell's number of users over the typical one.
    own_variance : ndarray of float, shape (n_cells,)
        s²Σp².
    bounds : pair of float
    offset, offset_variance : ndarray of float, shape (n_cells,), or 0
        Distance from the centre of the map that other cells predict, and its variance.
    """

    log_users: Floats
    own_variance: Floats
    bounds: tuple[float, float]
    offset: Floats | float = 0.0
    offset_variance: Floats | float = 0.0

    @classmethod
    def of(
        cls, design: CellDesign, spread: UserMeanSpread, bounds: tuple[float, float]
    ) -> "CellPrior":
        """Return the prior of cells of this design."""
        below, above = spread.within_cells(bounds)
        log_users = np.log(np.maximum(design.users, 1).astype(np.float64))
        return cls(
            log_users - np.sum(log_users) / max(log_users.size, 1),
            ((below + above) / 2.0) ** 2 * design.share_squares,
            bounds,
        )

    def masses(self, edges: Floats, centre: float, deviation: float, exponent: float) -> Floats:
        """Return the probability of each bin of the means, shape (n_cells, n_bins).

        Parameters
        ----------
        edges : ndarray of float, shape (n_cells, n_bins + 1)
            From one bound to the other, value units.
        centre, deviation, exponent : float
            m0, τ and κ.
        """
        variance = deviation**2 * np.exp(-2.0 * exponent * self.log_users) + self.own_variance
        variance = variance + self.offset_variance
        middle = np.clip(np.full(variance.shape, centre) + self.offset, *self.bounds)
        z = (edges - middle[:, None]) / np.sqrt(variance)[:, None]
        normal, wide, uniform = SHARES
        span = self.bounds[1] - self.bounds[0]
        return np.asarray(
            normal * _truncated_masses(z)
            + wide * _truncated_masses(z / WIDE_MULTIPLE)
            + uniform * np.diff(edges, axis=1) / span
        )


def _truncated_masses(z: Floats) -> Floats:
    """Return the normal probability between edges, given that it lies between the outer ones."""
    below = ndtr(z)
    # m0 lies within the bounds, so that the outer edges have a good part of the law between them.
    return np.asarray(np.diff(below, axis=1) / np.maximum(below[:, -1:] - below[:, :1], 1e-9))


Bins = tuple["CellPrior", "Floats", "Floats"]
"""Prior of a block of cells, edges of its bins of the mean, and likelihood of each bin."""


def fit_parameters(
    blocks: Sequence[Bins], spread: UserMeanSpread, bounds: tuple[float, float]
) -> MapParameters:
    """Return nodes of the map's parameters, weighted by prior and marginal likelihood.

    Parameters
    ----------
    blocks : sequence of (CellPrior, edges, likelihood)
        Of each block of cells, the edges of shape (n_cells, n_bins + 1) and the likelihood, up to a
        factor of the cell, of shape (n_cells, n_bins).
    spread : UserMeanSpread
    bounds : pair of float
    """
    # The weak prior of (m0, log τ) follows from the released quantiles; its centre is the mean of a
    # two-piece normal law whose mode is the released one.
    unit, within = spread.pooled(bounds[1] - bounds[0]), sum(spread.within_cells(bounds)) / 2.0
    skewed = (spread.above - spread.below) / math.sqrt(2.0 * math.pi)
    centre = min(max(spread.centre + skewed, bounds[0]), bounds[1])
    between = math.log(math.sqrt(max(unit**2 - within**2, (0.3 * unit) ** 2)))
    centres, log_deviations = centre + unit * FIRST_CENTRES, between + FIRST_DEVIATIONS
    for k in range(ROUNDS):
        inside = np.minimum(np.maximum(centres, bounds[0]), bounds[1])
        grid = product(inside, log_deviations, EXPONENTS if k else FIRST_EXPONENTS)
        m, t, g = map(np.array, zip(*grid, strict=True))
        a, b = (m - centre) / (CENTRE_SD * unit), (t - between) / LOG_DEVIATION_SD
        cells = _some_cells(blocks, FIRST_CELLS if k == 0 else MOST_CELLS)
        weight, log_evidence = _weights(cells, -0.5 * (a * a + b * b), m, t, g)
        centres = _around(m, weight, float(centres[1] - centres[0]))
        log_deviations = _around(t, weight, float(log_deviations[1] - log_deviations[0]))
    return MapParameters(m, np.exp(t), g, weight, log_evidence)


def _some_cells(blocks: Sequence[Bins], most: int) -> list[Bins]:
    """Return at most so many of the cells, evenly spaced."""
    step = max(1, -(-sum(likelihood.shape[0] for _, _, likelihood in blocks) // most))
    rows = slice(None, None, step)
    return [(take_rows(prior, rows), edges[rows], seen[rows]) for prior, edges, seen in blocks]


def _weights(
    cells: list[Bins], log_prior: Floats, m: Floats, t: Floats, g: Floats
) -> tuple[Floats, float]:
    """Return the posterior weight of each node, and the largest log density."""
    log_weight = log_prior.copy()
    for prior, edges, likelihood in cells:
        for k, node in enumerate(zip(m, np.exp(t), g, strict=True)):
            evidence = np.sum(likelihood * prior.masses(edges, *map(float, node)), axis=1)
            log_weight[k] += np.sum(np.log(evidence + 1e-300))
    largest = float(np.max(log_weight))
    weight = np.exp(log_weight - largest)
    return np.asarray(weight / np.sum(weight)), largest


def _around(node: Floats, weight: Floats, step: float) -> Floats:
    """Return the next nodes: around the posterior mean, and no closer than the step allows."""
    mean = np.sum(weight * node)
    variance = np.sum(weight * (node - mean) ** 2)
    return np.asarray(mean + NODES * np.sqrt(variance + (LEAST_STEP_SHARE * step) ** 2))


ROUNDING = 2.0**-36
"""Step of published numbers, as a part of the span."""
END_LEVEL, END_RATIOS = 0.01, (0.2, 0.45)
"""How near to a bound the quantile of this level must be for an interval to reach it."""


@dataclass(frozen=True, eq=False)
class CellPosterior(ReadOnlyArrays):
    """Posterior of the mean of each cell, on a grid.

    Attributes
    ----------
    edges : ndarray of float, shape (n_cells, n_bins + 1)
        Edges of bins, from one bound to the other, value units.
    probability : ndarray of float, shape (n_cells, n_bins)
    bounds : pair of float
    """

    edges: Floats
    probability: Floats
    bounds: tuple[float, float]

    @property
    def grid(self) -> Floats:
        """Middles of the bins, shape (n_cells, n_bins)."""
        return np.asarray((self.edges[:, 1:] + self.edges[:, :-1]) / 2.0)

    def quantile(self, level: float | Floats) -> Floats:
        """Return a quantile of each cell, shape (n_cells,), value units.

        Parameters
        ----------
        level : float or ndarray of float, shape (n_cells,)
            Between 0 and 1.
        """
        levels = np.broadcast_to(np.asarray(level, dtype=np.float64), self.edges.shape[:1])
        return self._rounded(invert_rows(self.edges, self.probability, levels[:, None])[:, 0])

    def median(self) -> Floats:
        """Return the posterior median of each cell, shape (n_cells,)."""
        return self.quantile(0.5)

    def interval(self, level: float) -> tuple[Floats, Floats]:
        """Return an interval of each cell that has the true mean at this probability.

        Both tails have the same probability, unless the posterior is dense at a bound of the
        values: then the interval reaches that bound, since the true mean may be the bound itself.

        Parameters
        ----------
        level : float
            Between 0 and 1.
        """
        tail = (1.0 - level) / 2.0
        bottom, top = self.bounds
        middle = self.median()
        below = _tail_factor(middle - bottom, self.quantile(END_LEVEL) - bottom)
        above = _tail_factor(top - middle, top - self.quantile(1.0 - END_LEVEL))
        return self.quantile(tail * below), self.quantile(1.0 - tail * above)

    def mean_abs_error(self) -> Floats:
        """Return the expected distance of the mean from the median, shape (n_cells,)."""
        distance = np.abs(self.grid - self.median()[:, None])
        unit = ROUNDING * (self.bounds[1] - self.bounds[0])
        expected = np.sum(self.probability * distance, axis=1)
        return np.asarray(np.rint(expected / unit) * unit)

    def _rounded(self, values: Floats) -> Floats:
        low, high = self.bounds
        unit = ROUNDING * (high - low)
        return np.minimum(low + np.rint((values - low) / unit) * unit, high)


def _tail_factor(median: Floats, end_quantile: Floats) -> Floats:
    """Return the factor of a tail's probability: 0 where the posterior is dense at the bound.

    A posterior that is flat or falling from the bound on has at least END_LEVEL of its mass within
    2 END_LEVEL of the way to the median.
    """
    low, high = END_RATIOS
    ratio = 2.0 * END_LEVEL * median / np.maximum(end_quantile, 1e-300)
    return np.asarray(np.clip((high - ratio) / (high - low), 0.0, 1.0))

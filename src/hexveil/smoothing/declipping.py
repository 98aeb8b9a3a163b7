"""Declipping: cell averages before clipping, estimated from clipped noisy ones by a stated model.

Model: user means of cell g are normal around θ_g with one standard deviation s for all cells; θ
itself is normal over cells. An observation clips user means to middle ± half width and adds Laplace
noise of known scale to their average:

    middle + half width · E clip((θ + s Z - middle) / half width, -1, 1) + noise.

All observations together give θ a posterior, computed on a grid; the estimate is its mean. The
variation between cells comes from the first observation; s is a guess, or the value near the guess
(within a quarter, by its prior) of largest evidence.
Post-processing of noisy numbers and public facts, without randomness: it costs no privacy. Where
user means are skewed within cells, the model is wrong and estimates are biased.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

GRID_POINTS = 161
"""Values of θ on the grid of a cell."""
GRID_HALF_WIDTH_SD = 5.0
"""Half width of the grid, in prior standard deviations of θ."""
GRID_ROUNDS = 2
"""Grids per cell, each laid around the posterior on the one before."""
SD_MULTIPLES = np.exp(np.linspace(-0.75, 0.75, 21))
"""Candidates of s, as multiples of the guess."""
LOG_SD_PRIOR = 0.25
"""Prior standard deviation of the logarithm of that multiple."""
BLOCK_CELLS = 2048
"""Cells whose grids are held in memory at once."""


@dataclass(frozen=True, eq=False)
class NoisyObservation:
    """A noisy average of each cell's clipped user means.

    Attributes
    ----------
    noisy, middle, scale : ndarray of float, shape (n_cells,)
        Noisy average, middle of the clipping range, Laplace scale of the noise.
    half_width : float
        Half the width of the clipping range.
    """

    noisy: Floats
    middle: Floats
    scale: Floats
    half_width: float


@dataclass(frozen=True, eq=False)
class DeclippedEstimate:
    """Cell averages with the clipping undone.

    Attributes
    ----------
    estimate, sd : ndarray of float, shape (n_cells,)
        Mean and standard deviation of θ given all observations.
    within_cell_sd : float
        Standard deviation s of user means within a cell.
    """

    estimate: Floats
    sd: Floats
    within_cell_sd: float


def estimate_declipped(
    observations: Sequence[NoisyObservation], within_cell_sd: float, *, fit_sd: bool = False
) -> DeclippedEstimate:
    """Return the posterior of each cell's average before clipping.

    Parameters
    ----------
    observations : sequence of NoisyObservation
        The first, widest one gives the variation between cells.
    within_cell_sd : float
        Standard deviation s, or a guess of it where `fit_sd`.
    fit_sd : bool
        Whether to fit s by maximal evidence.

    Examples
    --------
    >>> flat = np.zeros(2)
    >>> seen = NoisyObservation(np.array([-0.5, 0.5]), flat, flat + 0.01, 1.0)
    >>> estimate_declipped([seen], 1.0).estimate.round(1)  # the half width is 1
    array([-0.8,  0.8])
    """
    # One s for all cells: with two observations per cell the evidence determines it well.
    if fit_sd:
        within_cell_sd = (
            max(
                SD_MULTIPLES,
                key=lambda multiple: _evidence(observations, within_cell_sd, float(multiple)),
            )
            * within_cell_sd
        )
    posteriors = [
        _posterior(block, within_cell_sd, prior) for block, prior in _blocks(observations)
    ]
    estimate, sd = (np.concatenate(column) for column in zip(*posteriors, strict=True))
    return DeclippedEstimate(estimate, sd, float(within_cell_sd))


def expected_observation(theta: Floats, half_width: float, within_cell_sd: float) -> Floats:
    """Return the average of N(θ, s²) clipped to ± the half width."""
    from scipy.special import ndtr  # noqa: PLC0415  importing hexveil must stay light

    low, high = (-half_width - theta) / within_cell_sd, (half_width - theta) / within_cell_sd
    probability_inside = ndtr(high) - ndtr(low)
    edges = within_cell_sd * (_density(low) - _density(high))
    return np.asarray(
        -half_width * ndtr(low) + half_width * ndtr(-high) + theta * probability_inside + edges
    )


def _density(z: Floats) -> Floats:
    return np.asarray(np.exp(-(z**2) / 2.0) / math.sqrt(2.0 * math.pi))


def _evidence(observations: Sequence[NoisyObservation], guess: float, multiple: float) -> float:
    """Return the log evidence of all observations, up to a constant."""
    log_evidence = -0.5 * (math.log(multiple) / LOG_SD_PRIOR) ** 2
    for block, prior in _blocks(observations):
        theta = (
            prior[0]
            + prior[1]
            * np.linspace(-GRID_HALF_WIDTH_SD, GRID_HALF_WIDTH_SD, 2 * GRID_POINTS)[None, :]
        )
        grid = np.broadcast_to(theta, (block[0].noisy.size, theta.size))
        log_density = _log_posterior(block, grid, guess * multiple, prior)
        # Subtracted before exp, or densities of hundreds of scales underflow.
        largest = log_density.max(axis=1)
        log_evidence += float(
            (largest + np.log(np.exp(log_density - largest[:, None]).sum(axis=1))).sum()
        )
    return log_evidence


def _posterior(
    observations: Sequence[NoisyObservation], within_cell_sd: float, prior: tuple[float, float]
) -> tuple[Floats, Floats]:
    """Return posterior mean and standard deviation of θ in each cell, on a grid laid twice."""
    n_cells = observations[0].noisy.size
    mean, sd = np.full(n_cells, prior[0]), np.full(n_cells, prior[1])
    for _ in range(GRID_ROUNDS):
        grid = mean[:, None] + sd[:, None] * np.linspace(
            -GRID_HALF_WIDTH_SD, GRID_HALF_WIDTH_SD, GRID_POINTS
        )
        log_density = _log_posterior(observations, grid, within_cell_sd, prior)
        weight = np.exp(log_density - log_density.max(axis=1, keepdims=True))
        weight /= weight.sum(axis=1, keepdims=True)
        mean = (weight * grid).sum(axis=1)
        # A grid of steps adds the variance of a uniform number within a step.
        step = grid[:, 1] - grid[:, 0]
        sd = np.sqrt((weight * (grid - mean[:, None]) ** 2).sum(axis=1) + step**2 / 12.0)
    return mean, sd


def _log_posterior(
    observations: Sequence[NoisyObservation],
    grid: Floats,
    within_cell_sd: float,
    prior: tuple[float, float],
) -> Floats:
    """Return the log posterior density of each value of θ, up to a constant of the cell."""
    log_density = -0.5 * ((grid - prior[0]) / prior[1]) ** 2
    for observation in observations:
        middle = observation.middle[:, None]
        deviation = (
            observation.noisy[:, None]
            - middle
            - expected_observation(grid - middle, observation.half_width, within_cell_sd)
        )
        log_density -= np.abs(deviation) / observation.scale[:, None]
    return np.asarray(log_density)


def _blocks(
    observations: Sequence[NoisyObservation],
) -> list[tuple[list[NoisyObservation], tuple[float, float]]]:
    """Return blocks of cells, each with the prior mean and deviation of θ over all cells."""
    widest = observations[0]
    # Variance between cells is that of the numbers without the noise, floored by the range.
    noise = 2.0 * float((widest.scale**2).mean())
    signal_variance = float(widest.noisy.var()) - noise
    prior = (
        float(widest.noisy.mean()),
        1.2 * math.sqrt(max(signal_variance, (widest.half_width / 4.0) ** 2)),
    )
    n_cells = widest.noisy.size
    return [
        (
            [
                NoisyObservation(
                    observation.noisy[a : a + BLOCK_CELLS],
                    observation.middle[a : a + BLOCK_CELLS],
                    observation.scale[a : a + BLOCK_CELLS],
                    observation.half_width,
                )
                for observation in observations
            ],
            prior,
        )
        for a in range(0, n_cells, BLOCK_CELLS)
    ]

"""Undoing what clipping did to noisy averages, by a stated model; several looks at each cell.

Model: user means of cell g are normal around θ_g with one deviation s for all cells; θ itself is
normal over cells. A look projects user means to middle ± half and adds Laplace noise of known
scale to their average, so that it shows

    middle + half E clip((θ + s Z - middle) / half, -1, 1) + noise.

With all looks together θ has a posterior, found on a grid; the estimate is its mean. How cells
differ comes from the first look; s is a guess, or the value near the guess (within a quarter, by
its prior) at which all that was seen is likeliest.
Post-processing of noisy numbers and public facts, without randomness: it costs no privacy. Where
user means are skewed within cells, estimates are off by what the model misses.
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

POINTS = 161
"""Values of θ tried in each cell."""
REACH = 5.0
"""How far they go, in deviations of what is thought of θ before."""
ROUNDS = 2
"""The grid is laid again around what was found."""
TRIED = np.exp(np.linspace(-0.75, 0.75, 21))
"""s as a multiple of the guess."""
UNSURE = 0.25
"""Deviation of its logarithm."""
BLOCK = 2048
"""Cells at a time."""


@dataclass(frozen=True, eq=False)
class Look:
    """One noisy average of each cell's user means, projected.

    Attributes
    ----------
    noisy, middle, scale : ndarray of float, shape (n_cells,)
        What was seen, the middle of the range it was projected to, its noise's Laplace scale.
    half : float
        Half the width of the range.
    """

    noisy: Floats
    middle: Floats
    scale: Floats
    half: float


@dataclass(frozen=True, eq=False)
class Undone:
    """Averages with the clipping undone.

    Attributes
    ----------
    estimate, deviation : ndarray of float, shape (n_cells,)
        Mean and standard deviation of θ given all looks.
    spread : float
        s.
    """

    estimate: Floats
    deviation: Floats
    spread: float


def undo(looks: Sequence[Look], spread: float, *, free: bool = False) -> Undone:
    """Return what looks say of each cell once clipping is undone.

    Parameters
    ----------
    looks : sequence of Look
        The first, widest one says how cells differ.
    spread : float
        s, or where `free` a guess of it.
    free : bool
        Whether s is to be found.

    Examples
    --------
    >>> flat = np.zeros(2)
    >>> seen = Look(np.array([-0.5, 0.5]), flat, flat + 0.01, 1.0)
    >>> undo([seen], 1.0).estimate.round(1)  # a half of ±1 is seen where the mean is 0.8
    array([-0.8,  0.8])
    """
    if free:
        spread = max(TRIED, key=lambda times: _evidence(looks, spread, float(times))) * spread
    found = [_posterior(part, spread, prior) for part, prior in _blocks(looks)]
    estimate, deviation = (np.concatenate(one) for one in zip(*found, strict=True))
    return Undone(estimate, deviation, float(spread))


def seen(theta: Floats, half: float, spread: float) -> Floats:
    """Return the average of N(θ, spread²) projected to ± half."""
    from scipy.special import ndtr  # noqa: PLC0415  importing hexveil must stay light

    low, high = (-half - theta) / spread, (half - theta) / spread
    inside = ndtr(high) - ndtr(low)
    edges = spread * (_density(low) - _density(high))
    return np.asarray(-half * ndtr(low) + half * ndtr(-high) + theta * inside + edges)


def _density(z: Floats) -> Floats:
    return np.asarray(np.exp(-(z**2) / 2.0) / math.sqrt(2.0 * math.pi))


def _evidence(looks: Sequence[Look], guess: float, times: float) -> float:
    """Return the logarithm of how likely all that was seen is, but for a constant."""
    found = -0.5 * (math.log(times) / UNSURE) ** 2
    for part, prior in _blocks(looks):
        theta = prior[0] + prior[1] * np.linspace(-REACH, REACH, 2 * POINTS)[None, :]
        grid = np.broadcast_to(theta, (part[0].noisy.size, theta.size))
        logs = _logs(part, grid, guess * times, prior)
        top = logs.max(axis=1)
        found += float((top + np.log(np.exp(logs - top[:, None]).sum(axis=1))).sum())
    return found


def _posterior(
    looks: Sequence[Look], spread: float, prior: tuple[float, float]
) -> tuple[Floats, Floats]:
    """Return mean and deviation of θ in each cell, on a grid laid twice."""
    size = looks[0].noisy.size
    mean, deviation = np.full(size, prior[0]), np.full(size, prior[1])
    for _ in range(ROUNDS):
        grid = mean[:, None] + deviation[:, None] * np.linspace(-REACH, REACH, POINTS)
        logs = _logs(looks, grid, spread, prior)
        likely = np.exp(logs - logs.max(axis=1, keepdims=True))
        likely /= likely.sum(axis=1, keepdims=True)
        mean = (likely * grid).sum(axis=1)
        step = grid[:, 1] - grid[:, 0]
        deviation = np.sqrt((likely * (grid - mean[:, None]) ** 2).sum(axis=1) + step**2 / 12.0)
    return mean, deviation


def _logs(looks: Sequence[Look], grid: Floats, spread: float, prior: tuple[float, float]) -> Floats:
    """Return how likely each value of θ is, as a logarithm, but for a constant of the cell."""
    logs = -0.5 * ((grid - prior[0]) / prior[1]) ** 2
    for look in looks:
        middle = look.middle[:, None]
        away = look.noisy[:, None] - middle - seen(grid - middle, look.half, spread)
        logs -= np.abs(away) / look.scale[:, None]
    return np.asarray(logs)


def _blocks(looks: Sequence[Look]) -> list[tuple[list[Look], tuple[float, float]]]:
    """Return the looks some cells at a time, with middle and deviation of θ over all cells."""
    first = looks[0]
    noise = 2.0 * float((first.scale**2).mean())
    own = float(first.noisy.var()) - noise
    prior = float(first.noisy.mean()), 1.2 * math.sqrt(max(own, (first.half / 4.0) ** 2))
    size = first.noisy.size
    return [
        (
            [
                Look(
                    one.noisy[a : a + BLOCK],
                    one.middle[a : a + BLOCK],
                    one.scale[a : a + BLOCK],
                    one.half,
                )
                for one in looks
            ],
            prior,
        )
        for a in range(0, size, BLOCK)
    ]

"""Costs of the papers' private choices, for values written as decimals: the code's own costs."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hexveil.base.arrays import Ints
from hexveil.mechanisms.private_quantile import EvenBins, EvenPoints, MiddleCost, RankCost

QUANTA = 1000
"""Quanta of a unit of value in which the bins of a middle are told apart."""


def middle_costs(values: ArrayLike, upper: int, bins: int) -> Ints:
    """Return the cost of each of `bins` equal bins of [0, upper]: values below, or above if more.

    Examples
    --------
    >>> middle_costs([6.9, 7.0, 7.2], 8, 4).tolist()
    [3, 3, 3, 0]
    """
    quanta = np.rint(np.asarray(values, dtype=np.float64) * QUANTA).astype(np.int64)
    places = EvenBins(upper * QUANTA, bins).places(quanta)
    cumulative = np.cumsum(np.bincount(places, minlength=bins + 1))
    return np.asarray(MiddleCost().costs(cumulative[None])[0])


def rank_costs(values: ArrayLike, steps: int, target: int) -> Ints:
    """Return the cost of each point j/steps of [0, 1]: values at or below it, less the target.

    Values are multiples of 1/steps.

    Examples
    --------
    >>> rank_costs([0.0, 0.5], 2, 1).tolist()
    [0, 1, 1]
    """
    quanta = np.rint(np.asarray(values, dtype=np.float64) * steps).astype(np.int64)
    places = EvenPoints(steps, steps).places(quanta)
    cumulative = np.cumsum(np.bincount(places, minlength=steps + 2))
    return np.asarray(RankCost(target).costs(cumulative[None])[0])

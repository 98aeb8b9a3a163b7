"""Components that measure a distribution: indicators, ranks, or bins of every cell.

Booking of plans that are made of parts: one exact loss of each unit over all of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from hexveil.mechanisms.distribution.shape_statistics import GRAIN
from hexveil.model.public_metadata import ValueLattice

if TYPE_CHECKING:
    from hexveil.mechanisms.distribution.pooled_shape import PooledShape
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.model.statistic_terms import Share
    from hexveil.planning.distribution.cell_prices import PricedCells
    from hexveil.planning.plan import Plan


SCORE_LATTICE = ValueLattice(Fraction(0), Fraction(1), Fraction(1, GRAIN))
RANK_TO_SHARE = 1.5
"""Change of the share below the median, for one of the mean rank: of a flat shape, tilted."""


@dataclass(frozen=True, eq=False)
class IndicatorPlan:
    """Share beyond one threshold, as the mean of an indicator.

    Attributes
    ----------
    plan : Plan
        Of scores from 0 to 1.
    share : Share
    """

    plan: Plan
    share: Share


@dataclass(frozen=True, eq=False)
class RankPlan:
    """Distribution by the mean rank of each cell; under a δ, ε is that of the part at it.

    Attributes
    ----------
    plan : Plan
        Of scores from 0 to 1.
    shape_epsilon : Fraction
    """

    plan: Plan
    shape_epsilon: Fraction


@dataclass(frozen=True, eq=False)
class BinPlan:
    """Distribution by bins of each cell; under a δ, each ε is that of the part at it.

    Attributes
    ----------
    priced : PricedCells
    shape_epsilon, bin_epsilon : Fraction
    """

    priced: PricedCells
    shape_epsilon: Fraction
    bin_epsilon: Fraction


DistributionComponent: TypeAlias = IndicatorPlan | RankPlan | BinPlan


def score_metadata(facts: PublicMetadata) -> PublicMetadata:
    """Return the public metadata of scores from 0 to 1 in place of values."""
    return replace(
        facts, lattice=SCORE_LATTICE, value="score", value_unit="", recount=None, bins=None
    )


def predicted_level_error(component: DistributionComponent, pooled: PooledShape | None) -> float:
    """Return the predicted error of the cumulative share at a quantile, on average over cells.

    Beside the cell's own error that of the pooled shape, by which quantiles are read off: of its
    bins half lie below the middle.
    """
    share_error = predicted_share_error(component)
    return share_error if pooled is None else math.hypot(share_error, pooled.level_error)


def predicted_share_error(component: DistributionComponent) -> float:
    """Return the predicted error of a share of records, on average over cells."""
    match component:
        case IndicatorPlan(plan):
            return float(np.mean(plan.error))
        case RankPlan(plan):
            return RANK_TO_SHARE * float(np.mean(plan.error))
        case BinPlan(priced):
            return priced.error

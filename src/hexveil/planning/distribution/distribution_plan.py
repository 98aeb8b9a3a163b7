"""Plan of statistics of distributions, beside means and variances: one loss over all of them.

Means and variances keep their own plan. Of the distribution one of three components is planned:
indicators, for the share beyond a single threshold; pooled ranks, a mean of scores under the
released shape; or bins of every cell. The pooled shape takes 15 percent of what a distribution
costs.

Neighbours: one unit's values all change within the bounds. Loss of a unit: the sum of its losses in
all components, which `release` recomputes from the scales that go to the noise library.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from hexveil.mechanisms.distribution.binned_map import BinnedMap
from hexveil.mechanisms.distribution.combined_stages import CombinedStages, Component
from hexveil.mechanisms.distribution.fine_bin_scores import (
    GRAIN,
    IndicatorScores,
    PooledRankScores,
)
from hexveil.mechanisms.distribution.pooled_shape import PooledShape
from hexveil.model.public_metadata import ValueLattice
from hexveil.model.statistic_terms import Share
from hexveil.planning.release_allocation import allocation_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hexveil.model.occupancy import LocalOccupancy
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.model.statistic_terms import Term
    from hexveil.planning.distribution.cell_prices import PricedCells
    from hexveil.planning.plan import Plan

    Floats = NDArray[np.float64]

Estimator = Literal["auto", "ranks", "bins"]
MOMENTS, SHAPE, SCORES = "moments", "shape", "scores"
SHAPE_SHARE = Fraction(3, 20)
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
    """Distribution by the mean pooled rank of each cell.

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
    """Distribution by bins of each cell.

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


@dataclass(frozen=True, eq=False)
class DistributionPlan:
    """Plan of a release with quantiles, shares or histograms. Public; nothing is spent.

    Attributes
    ----------
    facts : PublicMetadata
    moments : tuple of str
        "mean", "variance" and "sd" among the statistics.
    terms : tuple of Quantile, Share and Histogram
    requested_epsilon : Fraction
    moment_plan : Plan or None
    component : IndicatorPlan, RankPlan or BinPlan
    weights : mapping of str to Fraction
        Importance of "moments" and "distribution" in the split of ε.
    edition : str or None
    requested_estimator : "auto", "ranks" or "bins"
    """

    facts: PublicMetadata
    moments: tuple[str, ...]
    terms: tuple[Term, ...]
    requested_epsilon: Fraction
    moment_plan: Plan | None
    component: DistributionComponent
    weights: Mapping[str, Fraction] = field(default_factory=dict)
    edition: str | None = None
    requested_estimator: Estimator = "auto"

    def __repr__(self) -> str:
        return (
            f"DistributionPlan({', '.join(self.statistics)}, n_cells={self.occupancy.n_cells}, "
            f"epsilon={float(self.epsilon):.6g}, estimator={self.estimator!r})"
        )

    @property
    def occupancy(self) -> LocalOccupancy:
        """Number of records per cell and user."""
        return self.facts.occupancy.local()

    @property
    def statistics(self) -> tuple[str, ...]:
        """Texts of all statistics."""
        return (*self.moments, *(term.text for term in self.terms))

    @property
    def estimator(self) -> str:
        """Form of the distribution's component."""
        match self.component:
            case IndicatorPlan():
                return "indicator"
            case RankPlan():
                return "ranks"
            case BinPlan():
                return "bins"

    @property
    def threshold_edges(self) -> NDArray[np.int64]:
        """Edges of all thresholds, in quanta, rising."""
        edges = [t.edge(self.facts.lattice) for t in self.terms if isinstance(t, Share)]
        return np.unique(np.array(edges, dtype=np.int64))

    def losses(self) -> Floats:
        """Return the loss of each unit over all statistics, rounded up."""
        return self.allocation().losses()

    @property
    def epsilon(self) -> Fraction:
        """Privacy loss of the most exposed unit: the cost of the release."""
        return Fraction(float(self.losses().max(initial=0.0)))

    @property
    def expected_error(self) -> dict[str, float]:
        """Predicted errors on average over cells: of moments, and of the share below a value."""
        errors: dict[str, float] = {}
        if self.moment_plan is not None:
            models = self.moment_plan.error_models
            errors = {name: float(np.mean(model.error)) for name, model in models.items()}
        return errors | {"share": predicted_share_error(self.component)}

    def allocation(self) -> CombinedStages:
        """Return the stages of all components."""
        components = [*self._moments(), *self._distribution()]
        booked = np.zeros(self.occupancy.n_users)
        for component in components:
            # Rounded up after each sum: what is booked is never below the exact sum.
            booked = np.nextafter(booked + component.plan.losses(), np.inf)
        return CombinedStages(tuple(components), booked)

    def _moments(self) -> list[Component]:
        if self.moment_plan is None:
            return []
        return [Component(MOMENTS, allocation_of(self.moment_plan, self.facts.lattice))]

    def _distribution(self) -> list[Component]:
        assert self.facts.bins is not None  # noqa: S101  see plan_distribution
        edges, occupancy = self.facts.bins.edges, self.occupancy
        match self.component:
            case IndicatorPlan(plan, share):
                above = self.facts.bins.above(share.edge(self.facts.lattice))
                scores = IndicatorScores(above if share.is_above else ~above)
                return [Component(SCORES, allocation_of(plan, SCORE_LATTICE), scores)]
            case RankPlan(plan, shape_epsilon):
                shape = Component(SHAPE, PooledShape(occupancy, edges, shape_epsilon))
                ranks = allocation_of(plan, SCORE_LATTICE)
                return [shape, Component(SCORES, ranks, PooledRankScores(shape))]
            case BinPlan(priced, shape_epsilon, bin_epsilon):
                binned = BinnedMap(
                    PooledShape(occupancy, edges, shape_epsilon),
                    priced.prices,
                    priced.floor,
                    self.threshold_edges,
                    bin_epsilon,
                )
                return [Component(SHAPE, binned)]


def predicted_share_error(component: DistributionComponent) -> float:
    """Return the predicted error of a share of records, on average over cells."""
    match component:
        case IndicatorPlan(plan):
            return float(np.mean(plan.error))
        case RankPlan(plan):
            return RANK_TO_SHARE * float(np.mean(plan.error))
        case BinPlan(priced):
            return priced.error

"""Plan of quantiles, shares and histograms, perhaps with means and variances beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.accounting.gaussian_composition import to_delta
from hexveil.accounting.promise import Promise, check_units, promised
from hexveil.base.errors import InputError
from hexveil.base.rational import Number, to_positive_fraction
from hexveil.mechanisms.distribution.binned_stage import SUBSTITUTED, check_room
from hexveil.model.public_metadata import PublicMetadata
from hexveil.model.statistic_terms import (
    Estimator,
    Share,
    Term,
    fine_bins,
    on_lattice,
    parse_statistics,
)
from hexveil.planning.distribution.distribution_components import (
    BinPlan,
    DistributionMeasure,
    IndicatorPlan,
    RankPlan,
    choose_prices,
    score_metadata,
)
from hexveil.planning.distribution.distribution_plan import SHAPE_SHARE, DistributionComponent
from hexveil.planning.feasibility.utility_test import default_baseline_error
from hexveil.planning.methods import plan_moments
from hexveil.planning.plan_arguments import PlanArguments
from hexveil.planning.request import kind_weights

if TYPE_CHECKING:
    from hexveil.model.occupancy import Occupancy
    from hexveil.model.public_metadata import ValueLattice
    from hexveil.planning.moment_component import MomentComponent

KINDS = ("moments", "distribution")


def plan_distribution(
    facts: Occupancy | PublicMetadata, options: PlanArguments
) -> DistributionComponent:
    """Return a plan of quantiles, shares or histograms; see `hexveil.plan`.

    Only public facts enter: occupancy, bounds, thresholds and ε. Nothing is spent.

    Parameters
    ----------
    facts : PublicMetadata
        Of records read with the same statistics (`hexveil.read`), so that they are counted by bin.
    options : PlanArguments
        With at least one quantile, share or histogram.

    Raises
    ------
    InputError
        On a bad argument, or records that were read without bins for these statistics.
    """
    if not isinstance(facts, PublicMetadata):
        raise InputError(
            "quantiles, shares and histograms are planned for records as read, not for a bare "
            "occupancy."
        )
    moments, terms = parse_statistics(options.statistics or ())
    weights = kind_weights(options.weights, KINDS)
    if options.weights and not moments:
        raise InputError("weights divide ε between moments and a distribution; ask for both.")
    miss: Any = options.baseline_error
    assert options.epsilon is not None  # noqa: S101  targets were searched for
    request = _Request(
        facts,
        moments,
        on_lattice(terms, facts.lattice),
        to_positive_fraction(options.epsilon, "epsilon"),
        weights,
        options.estimator or "auto",
        to_delta(options.delta),
        None if miss is None else _miss(facts.lattice, miss),
    )
    request.check_bins()
    check_units(request.delta, facts.occupancy.n_users)
    return request.plan(options.edition)


def _miss(lattice: ValueLattice, baseline_error: Number) -> float:
    """Return the declared error of one median for all cells; refuse one beyond the bounds."""
    lower, upper = (np.array([float(bound)]) for bound in (lattice.lower, lattice.upper))
    return default_baseline_error(lower, upper, baseline_error)


@dataclass(frozen=True, eq=False)
class _Request:
    """Checked arguments."""

    facts: PublicMetadata
    moments: tuple[str, ...]
    terms: tuple[Term, ...]
    epsilon: Fraction
    weights: Mapping[str, Fraction]
    estimator: Estimator
    delta: Fraction
    baseline_error: float | None

    def check_bins(self) -> None:
        """Refuse records that were not counted by the bins of these statistics."""
        needed = fine_bins(self.facts.lattice, self.terms)
        if self.facts.bins is None or np.setdiff1d(needed.edges, self.facts.bins.edges).size:
            texts = ", ".join(repr(term.text) for term in self.terms)
            raise InputError(
                f"the records were not counted by the bins of these statistics; name {texts} in "
                "statistics when you read them, too."
            )
        check_room(self.facts.occupancy.records_per_user)

    def plan(self, edition: str | None) -> DistributionComponent:
        """Return the plan with the loss split by prediction."""
        share = self._distribution_share() if self.moments else Fraction(1)
        whole = promised(self.epsilon, self.delta)
        moment_plan = self._moment_plan(whole.part(1 - share)) if self.moments else None
        component = self._component(whole.part(share))
        return DistributionComponent(
            self.facts,
            self.moments,
            self.terms,
            self.epsilon,
            moment_plan,
            component,
            self.weights,
            edition,
            self.estimator,
            self.delta,
            self.baseline_error,
        )

    def _distribution_share(self) -> Fraction:
        """Return the distribution's part, of least weighted sum of predicted errors."""
        half = promised(self.epsilon, self.delta).part(Fraction(1, 2))
        moment_error = float(np.mean(self._moment_plan(half).objective_errors()))
        if self.moments == ("mean",):
            moment_error /= float(self.facts.lattice.span)
        share_error = self._component(half).share_error
        weights = [self.weights[kind] for kind in KINDS]
        return half.divide(weights, [moment_error, share_error])[1]

    def _moment_plan(self, promise: Promise) -> MomentComponent:
        asked = PlanArguments(
            epsilon=promise.planned, delta=self.delta or None, statistics=self.moments
        )
        return plan_moments(self.facts, replace(asked, baseline_error=self.baseline_error))

    def _component(self, promise: Promise) -> DistributionMeasure:
        only = self.terms[0]
        if self.estimator == "auto" and len(self.terms) == 1 and isinstance(only, Share):
            return IndicatorPlan(self._score_plan(promise), only)
        components: list[DistributionMeasure] = []
        if self.estimator != "bins":
            components.append(self._ranks(promise))
        if self.estimator != "ranks":
            components.append(self._bins(promise))
        return min(components, key=lambda one: one.share_error)

    def _ranks(self, promise: Promise) -> RankPlan:
        score_plan = self._score_plan(promise.part(1 - SHAPE_SHARE))
        return RankPlan(score_plan, promise.part(SHAPE_SHARE).planned)

    def _bins(self, promise: Promise) -> BinPlan:
        shape, bins = (promise.part(one).planned for one in (SHAPE_SHARE, 1 - SHAPE_SHARE))
        priced = choose_prices(self.facts.occupancy, promised(bins, self.delta).noise(SUBSTITUTED))
        return BinPlan(priced, shape, bins)

    def _score_plan(self, promise: Promise) -> MomentComponent:
        asked = PlanArguments(epsilon=promise.planned, delta=self.delta or None)
        return plan_moments(score_metadata(self.facts), asked)

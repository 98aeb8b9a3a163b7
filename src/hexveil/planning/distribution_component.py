"""Quantiles, shares and histograms as a component of a plan, beside means and variances.

Means and variances keep their own plan, the distribution has one of three measures (see
`distribution_measures`); one loss is divided between both by their predicted errors.

Neighbours: one unit's values all change within the bounds. Loss of a unit: the sum of its losses in
all components, which `release` recomputes from the scales that go to the noise library. With a δ it
is a square of μ, and every component has its own ε at the same δ.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from hexveil.accounting.error_model import PRIOR_SHARE
from hexveil.accounting.gaussian_composition import to_delta
from hexveil.accounting.promise import Promise, check_units, of_amount, promised
from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text, to_positive_fraction
from hexveil.mechanisms.distribution import CombinedStages, Component
from hexveil.mechanisms.distribution.binned_stage import check_room
from hexveil.mechanisms.distribution.shape_statistics import AskedPoints
from hexveil.model.occupancy import Occupancy
from hexveil.model.public_metadata import PublicMetadata
from hexveil.model.statistic_terms import (
    Estimator,
    Share,
    Term,
    fine_bins,
    on_lattice,
    parse_statistics,
)
from hexveil.planning.component import PlanComponent, delta_text, edition_text, weights_text
from hexveil.planning.distribution_measures import (
    MOMENTS,
    AskedDistribution,
    DistributionMeasure,
    plan_measure,
    score_metadata,
)
from hexveil.planning.feasibility.utility_test import (
    StatisticError,
    default_baseline_error,
    refusal_of,
    shape_errors,
)
from hexveil.planning.methods import plan_moments
from hexveil.planning.moment_component import MomentComponent
from hexveil.planning.plan_arguments import PlanArguments, kind_weights

KINDS = ("moments", "distribution")
"""Kinds of statistics that have a weight in the division of ε."""
USELESS_ERROR = 0.115
"""Predicted error of a share of records from which a map is refused: as much as cells differ."""


@dataclass(frozen=True, eq=False)
class DistributionComponent(PlanComponent):
    """Quantiles, shares or histograms of one value column, perhaps with means beside them.

    Attributes
    ----------
    facts : PublicMetadata
    moments : tuple of str
        "mean", "variance" and "sd" among the statistics.
    terms : tuple of Quantile, Share and Histogram
    requested_epsilon : Fraction
    moment_plan : Plan or None
    component : ScorePlan or BinPlan
    weights : mapping of str to Fraction
        Importance of "moments" and "distribution" in the split of ε.
    edition : str or None
    requested_estimator : "auto", "ranks" or "bins"
    delta : Fraction
        0 of a pure promise; that of every part.
    baseline_error : float or None
        Declared error of one median for all cells, in value units.
    target_errors : mapping of str to str
        Stated targets for which the requested ε was found, by statistic; empty where ε was given.
    """

    facts: PublicMetadata
    moments: tuple[str, ...]
    terms: tuple[Term, ...]
    requested_epsilon: Fraction
    moment_plan: MomentComponent | None
    component: DistributionMeasure
    weights: Mapping[str, Fraction] = field(default_factory=dict)
    edition: str | None = None
    requested_estimator: Estimator = "auto"
    delta: Fraction = Fraction(0)
    baseline_error: float | None = None
    target_errors: Mapping[str, str] = field(default_factory=dict)
    kind: ClassVar[str] = "distributions"
    reads_bins: ClassVar[bool] = True
    saved_as: ClassVar[str] = "DistributionPlan"
    smoothing_trouble: ClassVar[str] = (
        "smoothed goes with means and variances alone: quantiles and shares are estimated from "
        "all cells together anyway; request raw alone."
    )

    def check(self) -> None:
        """Refuse fields that no plan of these records has: a stranger may have written them."""
        if parse_statistics(self.statistics) != (self.moments, self.terms) or not self.terms:
            raise InputError("it has no quantile, share or histogram, or not in order.")
        if self.facts.bins is None:
            raise InputError("the records have no bins; read them with the plan's statistics.")
        for term in self.terms:
            if isinstance(term, Share):
                term.edge(self.facts.lattice)
        check_units(self.delta, self.occupancy.n_users)
        plans = [plan for plan in (self.moment_plan, self.score_plan) if plan is not None]
        if any(plan.delta != self.delta for plan in plans):
            raise InputError("all parts of a plan have one delta.")
        asked = () if self.moment_plan is None else self.moment_plan.statistics
        scored = ("mean",) if self.score_plan is None else self.score_plan.statistics
        if asked != self.moments or scored != ("mean",):
            raise InputError("its means and variances are not those that were asked for.")
        component, half_span = self.component, float(self.facts.lattice.span) / 2
        if self.baseline_error is not None and not 0 < self.baseline_error <= half_span:
            raise InputError("its baseline error is not above 0, or above half the bounds.")
        component.check_against(self.terms, self.occupancy)
        if min([*self.weights.values(), self.requested_epsilon, *component.epsilons]) <= 0:
            raise InputError("a weight or a part of its epsilon is not above 0.")
        if self.epsilon > self.requested_epsilon:
            raise InputError("its loss is above the epsilon that it was asked for.")

    def fixed(self) -> dict[tuple[str, ...], Any]:
        """Return by path all fields that are no decisions."""
        decided = ("requested_epsilon", "moment_plan", "component")
        names = (member.name for member in fields(self) if member.name not in decided)
        fixed: dict[tuple[str, ...], Any] = {(name,): getattr(self, name) for name in names}
        scored = ("component", "plan", "facts")
        return fixed | {("occupancy",): self.occupancy, scored: score_metadata(self.facts)}

    @property
    def summary(self) -> str:
        """The plan in a line."""
        return (
            f"{', '.join(self.statistics)}, n_cells={self.occupancy.n_cells}, "
            f"epsilon={float(self.epsilon):.6g}, estimator={self.estimator!r}"
        )

    def goal(self) -> dict[str, str]:
        """Return the request as text by field: with targets these, and not the ε that was found."""
        limit = {"epsilon": decimal_text(self.requested_epsilon)}
        if self.target_errors:
            limit = {"targets": json.dumps(self.target_errors, sort_keys=True)}
        # Of mean ranks these decide the shape as well.
        history = () if self.score_plan is None else self.score_plan.request.history
        return {
            "statistics": json.dumps(self.statistics),
            **limit,
            "weights": weights_text(self.weights),
            "estimator": self.requested_estimator,
            **delta_text(self.delta),
            "edition": edition_text(self.edition),
            "bins": "none" if self.facts.bins is None else self.facts.bins.identity(),
            "occupancy": self.occupancy.fingerprint,
            **({"history": json.dumps(history)} if history else {}),
        }

    def check_release(self, *, has_squares: bool) -> None:
        """Refuse means, variances or mean scores that cannot be computed or noised."""
        for member in (self.moment_plan, self.score_plan):
            if member is not None:
                member.check_release(has_squares=has_squares)
        if not self.epsilon:
            raise InputError(
                "nothing was spent: at this epsilon every cell would publish the same constant; "
                "ask for larger cells or more epsilon."
            )

    def refuse_undrawable(self) -> None:
        """Refuse means and variances that do not fit 64 bits."""
        if self.moment_plan is not None:
            self.moment_plan.refuse_undrawable()

    @property
    def relative_error(self) -> float:
        """Predicted error of a share, and that of means and variances as a part of the span."""
        moments = 0.0 if self.moment_plan is None else self.moment_plan.relative_error
        return moments + self.expected_error["share"]

    @property
    def occupancy(self) -> Occupancy:
        """Number of records per cell and user."""
        return self.facts.occupancy

    @property
    def statistics(self) -> tuple[str, ...]:
        """Texts of all statistics."""
        return (*self.moments, *(term.text for term in self.terms))

    @property
    def estimator(self) -> str:
        """Form of the distribution's component."""
        return self.component.estimator

    @property
    def score_plan(self) -> MomentComponent | None:
        """Plan of mean scores; None where bins are measured."""
        return self.component.score_plan

    @property
    def _request(self) -> AskedDistribution:
        """Facts and points that the component's stages follow from."""
        facts = self.facts
        assert facts.bins is not None  # noqa: S101  see plan_distribution
        edges = [t.edge(facts.lattice) for t in self.terms if isinstance(t, Share)]
        thresholds = np.unique(np.array(edges, dtype=np.int64))
        points = AskedPoints.of(self.terms, facts.lattice, facts.bins.edges)
        return AskedDistribution(facts, facts.bins.edges, points, thresholds, self.delta)

    @property
    def refusal(self) -> str | None:
        """The sentence that refuses a map with nothing to say; None for a useful one."""
        return refusal_of(self.statistic_errors)

    @property
    def statistic_errors(self) -> tuple[StatisticError, ...]:
        """Predicted error of each statistic, and that of one number for all cells."""
        judged = () if self.moment_plan is None else self.moment_plan.statistic_errors
        usual = float(self.facts.lattice.span) / PRIOR_SHARE
        median = usual if self.baseline_error is None else self.baseline_error
        shares = self.component.share_error
        # Errors of medians in value units do not depend on what one number misses.
        levels = self.component.level_error(self._request) * (usual / median)
        return (*judged, *shape_errors(self.terms, shares, levels, USELESS_ERROR, median))

    @property
    def names(self) -> tuple[str, ...]:
        """One readable name per cell."""
        return self.facts.cells.names()

    @property
    def table(self) -> pa.Table:
        """Table with a row per cell: public counts, and the plan of means and variances."""
        if self.moment_plan is not None:
            return self.moment_plan.table
        return pa.table(
            {
                "cell": pa.array(self.names, type=pa.string()),
                "users": self.occupancy.users_per_cell,
                "records": self.occupancy.records_per_cell,
            }
        )

    def to_json(self) -> dict[str, Any]:
        """Return the plan's figures as JSON data; all of it is public."""
        losses = self.user_losses
        return {
            "cells": self.occupancy.n_cells,
            "users": self.occupancy.n_users,
            "records": self.occupancy.n_records,
            "epsilon_requested": float(self.requested_epsilon),
            "epsilon": float(self.epsilon),
            "delta": float(self.delta),
            "median_loss": float(np.median(losses)),
            "statistics": list(self.statistics),
            "estimator": self.estimator,
            "weights": {name: float(weight) for name, weight in sorted(self.weights.items())},
            "components": self.component_epsilons(),
            "expected_error": self.expected_error,
            "statistic_errors": [error.to_json() for error in self.statistic_errors],
            "refusal": self.refusal,
        }

    @property
    def expected_error(self) -> dict[str, float]:
        """Predicted errors on average over cells: of moments, and of the share below a value."""
        errors = {} if self.moment_plan is None else self.moment_plan.average_errors
        return errors | {"share": self.component.share_error}

    average_errors = expected_error

    def component_epsilons(self) -> dict[str, float]:
        """Return the largest loss of a unit in each component, at `delta`."""
        booked = {
            component.name: Fraction(float(component.plan.losses().max(initial=0.0)))
            for component in self.stages().components
        }
        return {name: float(of_amount(one, self.delta).epsilon) for name, one in booked.items()}

    def stages(self) -> CombinedStages:
        """Return the stages of all components."""
        return self._stages

    @cached_property
    def _stages(self) -> CombinedStages:
        components = self.component.stages(self._request)
        if self.moment_plan is not None:
            components = [Component(MOMENTS, self.moment_plan.stages()), *components]
        return CombinedStages.of(components, self.occupancy.n_users)


def plan_distribution(
    facts: Occupancy | PublicMetadata, options: PlanArguments
) -> DistributionComponent:
    """Return a plan of quantiles, shares or histograms; see `hexveil.plan`.

    Only public facts enter: occupancy, bounds, thresholds and ε. Nothing is spent.

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
    moments, named = parse_statistics(options.statistics or ())
    weights = kind_weights(options.weights, KINDS)
    if options.weights and not moments:
        raise InputError("weights divide ε between moments and a distribution; ask for both.")
    terms, lattice, miss = on_lattice(named, facts.lattice), facts.lattice, None
    declared: Any = options.baseline_error
    if declared is not None:
        miss = default_baseline_error(float(lattice.lower), float(lattice.upper), declared)
    assert options.epsilon is not None  # noqa: S101  targets were searched for
    epsilon = to_positive_fraction(options.epsilon, "epsilon")
    delta, estimator = to_delta(options.delta), options.estimator or "auto"
    forecast = options.history
    _check_bins(facts, terms)
    check_units(delta, facts.occupancy.n_users)

    def moments_at(promise: Promise) -> MomentComponent:
        asked = PlanArguments(
            epsilon=promise.planned, delta=delta or None, statistics=moments, baseline_error=miss
        )
        return plan_moments(facts, asked)

    whole, share, moment_plan = promised(epsilon, delta), Fraction(1), None
    if moments:
        # The distribution's part is that of the least weighted sum of predicted errors.
        half = whole.part(Fraction(1, 2))
        error = float(np.mean(moments_at(half).objective_errors()))
        if moments == ("mean",):
            error /= float(lattice.span)
        errors = [error, plan_measure(facts, terms, estimator, half, forecast).share_error]
        share = half.divide([weights[kind] for kind in KINDS], errors)[1]
        moment_plan = moments_at(whole.part(1 - share))
    measure = plan_measure(facts, terms, estimator, whole.part(share), forecast)
    return DistributionComponent(
        facts, moments, terms, epsilon, moment_plan, measure, weights, options.edition,
        estimator, delta, miss,
    )  # fmt: skip


def _check_bins(facts: PublicMetadata, terms: tuple[Term, ...]) -> None:
    """Refuse records that were not counted by the bins of these statistics."""
    needed = fine_bins(facts.lattice, terms)
    if facts.bins is None or np.setdiff1d(needed.edges, facts.bins.edges).size:
        texts = ", ".join(repr(term.text) for term in terms)
        raise InputError(
            f"the records were not counted by the bins of these statistics; name {texts} in "
            "statistics when you read them, too."
        )
    check_room(facts.occupancy.records_per_user)

"""Plan of statistics of distributions, beside means and variances: one loss over all of them.

Means and variances keep their own plan. Of the distribution one of three components is planned:
indicators, for the share beyond a single threshold; ranks, a mean of scores under the released
shape; or bins of every cell. The pooled shape takes 15 percent of what a distribution costs.

Neighbours: one unit's values all change within the bounds. Loss of a unit: the sum of its losses in
all components, which `release` recomputes from the scales that go to the noise library. With a δ it
is a square of μ, and every component has its own ε at the same δ.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from hexveil.accounting.error_model import PRIOR_SHARE
from hexveil.accounting.promise import check_units, of_amount
from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text
from hexveil.mechanisms.distribution import CombinedStages, Component
from hexveil.model.statistic_terms import Estimator, Quantile, Share, Term, parse_statistics
from hexveil.planning.component import (
    PlainComponent,
    delta_text,
    edition_text,
    public_json,
    weights_text,
)
from hexveil.planning.distribution.distribution_components import (
    MOMENTS,
    SCORE_LATTICE,
    AskedDistribution,
    DistributionMeasure,
    score_metadata,
)
from hexveil.planning.feasibility.utility_test import StatisticError, shape_errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hexveil.model.occupancy import Occupancy
    from hexveil.model.public_metadata import PublicMetadata, ValueLattice
    from hexveil.planning.moment_component import MomentComponent


SHAPE_SHARE = Fraction(3, 20)
USELESS_ERROR = 0.115
"""Predicted error of a share of records from which a map is refused: as much as cells differ."""


@dataclass(frozen=True, eq=False)
class DistributionComponent(PlainComponent):
    """Quantiles, shares or histograms of one value column, perhaps with means beside them.

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
    delta : Fraction
        0 of a pure promise; that of every part.
    baseline_error : float or None
        Declared error of one median for all cells, in value units.
    target_errors : mapping of str to str
        Stated targets for which the requested ε was found, by statistic; empty where ε was given.

    Raises
    ------
    InputError
        If a part has another δ.
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
    has_epsilon: ClassVar[bool] = True
    smoothing_trouble: ClassVar[str] = (
        "smoothed goes with means and variances alone: quantiles and shares are estimated from "
        "all cells together anyway; request raw alone."
    )

    def __post_init__(self) -> None:
        plans = [plan for plan in (self.moment_plan, self.score_plan) if plan is not None]
        if any(plan.delta != self.delta for plan in plans):
            raise InputError("all parts of a plan have one delta.")

    def check(self) -> None:
        """Refuse fields that no plan of these records has: a stranger may have written them.

        Raises
        ------
        InputError
            Naming what does not fit.
        """
        if parse_statistics(self.statistics) != (self.moments, self.terms) or not self.terms:
            raise InputError("it has no quantile, share or histogram, or not in order.")
        if self.facts.bins is None:
            raise InputError("the records have no bins; read them with the plan's statistics.")
        for term in self.terms:
            if isinstance(term, Share):
                term.edge(self.facts.lattice)
        check_units(self.delta, self.occupancy.n_users)
        self._check_part(self.moment_plan, self.moments, self.facts.lattice)
        if self.score_plan is not None:
            self._check_part(self.score_plan, ("mean",), SCORE_LATTICE)
        self._check_component()
        if self.epsilon > self.requested_epsilon:
            raise InputError("its loss is above the epsilon that it was asked for.")

    def _check_component(self) -> None:
        """Refuse parts of ε, prices, a share and an error of one median that no plan has."""
        component, half_span = self.component, float(self.facts.lattice.span) / 2
        if self.baseline_error is not None and not 0 < self.baseline_error <= half_span:
            raise InputError("its baseline error is not above 0, or above half the bounds.")
        component.check_against(self.terms, self.occupancy)
        if min([*self.weights.values(), self.requested_epsilon, *component.epsilons]) <= 0:
            raise InputError("a weight or a part of its epsilon is not above 0.")

    def _check_part(
        self, part: MomentComponent | None, statistics: tuple[str, ...], lattice: ValueLattice
    ) -> None:
        """Refuse a plan of a part for other statistics, bounds or records."""
        if (() if part is None else part.statistics) != statistics:
            raise InputError("its means and variances are not those that were asked for.")
        if part is not None and (part.facts is None or part.facts.lattice != lattice):
            raise InputError("its means or scores have other bounds.")
        if part is not None and part.occupancy.fingerprint != self.occupancy.fingerprint:
            raise InputError("its means or scores were made for other records.")

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
        return {
            "statistics": json.dumps(self.statistics),
            **limit,
            "weights": weights_text(self.weights),
            "estimator": self.requested_estimator,
            **delta_text(self.delta),
            "edition": edition_text(self.edition),
            "bins": "none" if self.facts.bins is None else self.facts.bins.identity(),
            "occupancy": self.occupancy.fingerprint,
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
    def judged_error(self) -> tuple[str, float]:
        """Average error of a share."""
        return "share", self.component.share_error

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
        levels = [float(term.level) for term in self.terms if isinstance(term, Quantile)]
        thresholds = np.unique(np.array(edges, dtype=np.int64))
        return AskedDistribution(facts, facts.bins.edges, np.array(levels), thresholds, self.delta)

    @property
    def refusal(self) -> str | None:
        """The sentence that refuses a map with nothing to say; None for a useful one."""
        for error in self.statistic_errors:
            if not error.beats_constant:
                return (
                    f"{error.plural} are predicted to be off by {error.error:.3g} on average, "
                    f"and one number for all cells by {error.baseline_error:.3g}; ask for larger "
                    "cells or more epsilon."
                )
        return None

    @property
    def statistic_errors(self) -> tuple[StatisticError, ...]:
        """Predicted error of each statistic, and that of one number for all cells."""
        judged: list[StatisticError] = []
        if self.moment_plan is not None:
            name = self.moment_plan.primary_statistic.name
            support = self.moment_plan.support
            judged.append(StatisticError(name, support.mean_error, support.baseline_error))
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

    def column_json(self) -> dict[str, Any]:
        """Return the figures of one value column among several."""
        return public_json(self)

    def component_epsilons(self) -> dict[str, float]:
        """Return the largest loss of a unit in each component, at `delta`."""
        return {
            component.name: self.part_loss(float(component.plan.losses().max(initial=0.0)))
            for component in self.stages().components
        }

    def part_loss(self, booked: float) -> float:
        """Return the booked loss of a part alone, rounded up."""
        return float(of_amount(Fraction(booked), self.delta).epsilon)

    def stages(self) -> CombinedStages:
        """Return the stages of all components."""
        return self._stages

    @cached_property
    def _stages(self) -> CombinedStages:
        components = self.component.stages(self._request)
        if self.moment_plan is not None:
            components = [Component(MOMENTS, self.moment_plan.stages()), *components]
        return CombinedStages.of(components, self.occupancy.n_users)

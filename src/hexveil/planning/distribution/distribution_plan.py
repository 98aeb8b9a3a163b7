"""Plan of statistics of distributions, beside means and variances: one loss over all of them.

Means and variances keep their own plan. Of the distribution one of three components is planned:
indicators, for the share beyond a single threshold; ranks, a mean of scores under the released
shape; or bins of every cell. The pooled shape takes 15 percent of what a distribution costs.

Neighbours: one unit's values all change within the bounds. Loss of a unit: the sum of its losses in
all components, which `release` recomputes from the scales that go to the noise library. With a δ it
is a square of μ, and every component has its own ε at the same δ.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hexveil.accounting.error_model import PRIOR_SHARE
from hexveil.accounting.promise import check_units, of_amount
from hexveil.base.errors import InputError
from hexveil.base.optional_packages import require_package
from hexveil.mechanisms.distribution.combined_stages import CombinedStages, Component
from hexveil.model.statistic_terms import Estimator, Quantile, Share, Term, parse_statistics
from hexveil.planning.distribution.distribution_components import (
    MOMENTS,
    SCORE_LATTICE,
    AskedDistribution,
    BinPlan,
    DistributionComponent,
    IndicatorPlan,
)
from hexveil.planning.feasibility.utility_test import StatisticError, shape_errors
from hexveil.planning.plan_data import PartsBooking
from hexveil.planning.plan_moments import HasPublicMetadata, public_side
from hexveil.planning.release_allocation import allocation_of
from hexveil.planning.serialization.codec import plan_folder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hexveil.model.occupancy import Occupancy
    from hexveil.model.public_metadata import PublicMetadata, ValueLattice
    from hexveil.planning.plan import Plan


SHAPE_SHARE = Fraction(3, 20)
USELESS_ERROR = 0.115
"""Predicted error of a share of records from which a map is refused: as much as cells differ."""


@dataclass(frozen=True, eq=False)
class DistributionPlan(PartsBooking):
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
    delta : Fraction
        0 of a pure promise; that of every part.
    baseline_error : float or None
        Declared error of one median for all cells, in value units.

    Raises
    ------
    InputError
        If a part has another δ.
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
    delta: Fraction = Fraction(0)
    baseline_error: float | None = None

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
        if isinstance(component, IndicatorPlan) and self.terms != (component.share,):
            raise InputError("an indicator measures the single share that was asked for.")
        if (
            isinstance(component, BinPlan)
            and component.priced.prices.size != self.occupancy.n_cells
        ):
            raise InputError("its prices are not one whole number from 1 to 2^20 per cell.")
        if min([*self.weights.values(), self.requested_epsilon, *component.epsilons]) <= 0:
            raise InputError("a weight or a part of its epsilon is not above 0.")

    def _check_part(
        self, part: Plan | None, statistics: tuple[str, ...], lattice: ValueLattice
    ) -> None:
        """Refuse a plan of a part for other statistics, bounds or records."""
        if (() if part is None else part.statistics) != statistics:
            raise InputError("its means and variances are not those that were asked for.")
        if part is not None and (part.facts is None or part.facts.lattice != lattice):
            raise InputError("its means or scores have other bounds.")
        if part is not None and part.occupancy.fingerprint != self.occupancy.fingerprint:
            raise InputError("its means or scores were made for other records.")

    def __repr__(self) -> str:
        return (
            f"DistributionPlan({', '.join(self.statistics)}, n_cells={self.occupancy.n_cells}, "
            f"epsilon={float(self.epsilon):.6g}, estimator={self.estimator!r})"
        )

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
    def score_plan(self) -> Plan | None:
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

    def to_pandas(self) -> Any:  # noqa: ANN401  pandas may not be installed
        """Return the row of each cell as a pandas data frame; InputError without pandas."""
        require_package("pandas")
        return self.table.to_pandas()

    def save(self, folder: str | Path) -> Path:
        """Write the plan into a new folder, to be reviewed and then released; return its path.

        Parameters
        ----------
        folder : str or Path
            New, in a folder that exists. It holds plan.json and, in folders of their own, the plans
            of means, variances and mean scores: public facts, users by number. They show where each
            numbered user reported: give them to reviewers, not to everybody.

        Raises
        ------
        InputError
            If the folder exists or cannot be made.
        StorageError
            If writing fails midway; nothing half-written stays.
        """
        saved: Path = plan_folder().save(self, folder)
        return saved

    @staticmethod
    def load(folder: str | Path, source: PublicMetadata | HasPublicMetadata) -> DistributionPlan:
        """Return the plan that `save` wrote into a folder; releasing it is releasing that plan.

        Parameters
        ----------
        folder : str or Path
        source : Dataset or PublicMetadata
            The records that were planned, read with the same statistics.

        Raises
        ------
        InputError
            If a file is missing, was edited, or holds what no plan has; if the records are others.
        StorageError
            If a file cannot be read.
        """
        _, facts = public_side(source)
        if facts is None:
            raise InputError("a plan of distributions is loaded with the records as read.")
        loaded: DistributionPlan = plan_folder().load(folder, DistributionPlan, facts)
        return loaded

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

    def component_epsilons(self) -> dict[str, float]:
        """Return the largest loss of a unit in each component, at `delta`."""
        return {
            component.name: self.part_loss(float(component.plan.losses().max(initial=0.0)))
            for component in self.allocation().components
        }

    def part_loss(self, booked: float) -> float:
        """Return the booked loss of a part alone, rounded up."""
        return float(of_amount(Fraction(booked), self.delta).epsilon)

    @property
    def expected_error(self) -> dict[str, float]:
        """Predicted errors on average over cells: of moments, and of the share below a value."""
        errors: dict[str, float] = {}
        if self.moment_plan is not None:
            models = self.moment_plan.error_models
            errors = {name: float(np.mean(model.error)) for name, model in models.items()}
        return errors | {"share": self.component.share_error}

    def allocation(self) -> CombinedStages:
        """Return the stages of all components."""
        components = self.component.stages(self._request)
        if self.moment_plan is not None:
            moments = allocation_of(self.moment_plan, self.facts.lattice)
            components = [Component(MOMENTS, moments), *components]
        return CombinedStages.of(components, self.occupancy.n_users)

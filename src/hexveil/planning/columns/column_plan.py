"""Plan of several value columns: a plan of its own for each, and one loss over all of them.

Neighbours: one unit's values all change within the bounds, in all columns at once; under private
presence all records of one unit are added or removed, with their values in all columns. Loss of a
unit: the sum of its losses in the columns in which it has records (`combined_stages`), which
`release` recomputes from the scales that go to the noise library. Under private presence any unit
may have records in every column, so it is the sum over all of them. Under a δ the booked losses are
squares of μ, which add up over columns, and ε is that of the largest sum.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from hexveil.accounting.promise import Promise, summed
from hexveil.base.errors import InputError
from hexveil.mechanisms.distribution.combined_stages import CombinedStages, Component
from hexveil.model.column_facts import ColumnFacts, DeclaredColumns
from hexveil.planning.distribution.distribution_plan import DistributionPlan
from hexveil.planning.plan import Plan
from hexveil.planning.plan_data import PartsBooking
from hexveil.planning.presence.presence_plan import PresencePlan
from hexveil.planning.release_allocation import allocation_of
from hexveil.planning.serialization.codec import plan_folder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction
    from pathlib import Path

    from hexveil.mechanisms.contract import StagedPlan
    from hexveil.model.declared_grid import DeclaredFacts
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.planning.plan_moments import HasFacts


SingleColumnPlan: TypeAlias = Plan | DistributionPlan
"""Plan of one value column where occupancy is public."""


def stages_of_column(
    plan: SingleColumnPlan | PresencePlan, facts: PublicMetadata | DeclaredFacts
) -> StagedPlan:
    """Return the stages of the plan of one value column."""
    if isinstance(plan, PresencePlan):
        return plan.request.allocation()
    if isinstance(plan, DistributionPlan):
        return plan.allocation()
    return allocation_of(plan, facts.lattice)


def targets_of(plan: SingleColumnPlan | PresencePlan) -> list[dict[str, Any]]:
    """Return the target errors of the plan of one value column; empty where ε was divided."""
    return plan.request.target_ranges if isinstance(plan, Plan) else []


@dataclass(frozen=True, eq=False)
class PlansByColumn(PartsBooking):
    """Plan of a release of several value columns, in either privacy model.

    Attributes
    ----------
    facts : ColumnFacts or DeclaredColumns
    plans : mapping of str to Plan, DistributionPlan or PresencePlan
        By column, in the order of the facts.
    requested_epsilon : Fraction or None
        Largest loss of a unit over all columns; None where target errors of each column decide.
    weights : mapping of str to Fraction
        Importance of each column in the split of ε; empty where target errors decide.
    edition : str or None
    """

    facts: ColumnFacts | DeclaredColumns
    plans: Mapping[str, SingleColumnPlan | PresencePlan]
    requested_epsilon: Fraction | None
    weights: Mapping[str, Fraction] = field(default_factory=dict)
    edition: str | None = None

    @property
    def delta(self) -> Fraction:
        """δ of the promise, the same for all columns; 0 for a pure one."""
        return next(iter(self.plans.values())).delta

    @property
    def epsilon_limit(self) -> Fraction:
        """Largest loss of a unit that was asked for; with target errors the cost of these."""
        return self.epsilon if self.requested_epsilon is None else self.requested_epsilon

    def __repr__(self) -> str:
        columns = ", ".join(self.plans)
        return f"{type(self).__name__}({columns}, epsilon={float(self.epsilon):.6g})"

    @property
    def statistics(self) -> tuple[str, ...]:
        """Statistics of each column."""
        return next(iter(self.plans.values())).statistics

    @property
    def refusal(self) -> str | None:
        """The sentence that refuses a map with nothing to say; None where each column's has."""
        for column, plan in self.plans.items():
            if isinstance(plan, Plan):
                useless = not plan.support.beats_constant
                reason = (
                    "the map would say no more than one constant for all cells; ask for larger "
                    "cells or more epsilon, or leave the column out."
                ) * useless
            else:
                reason = plan.refusal or ""
            if reason:
                return f"{column}: {reason}"
        return None

    def allocation(self) -> CombinedStages:
        """Return the stages of all columns."""
        return self.with_stages(
            {
                column: stages_of_column(plan, self.facts.columns[column])
                for column, plan in self.plans.items()
            }
        )

    def with_stages(self, stages: Mapping[str, StagedPlan]) -> CombinedStages:
        """Return stages of each column as those of one release."""
        components = [
            Component(column, column_stages, units=self.facts.units[column])
            for column, column_stages in stages.items()
        ]
        return CombinedStages.of(components, self.facts.n_units)

    def column_epsilons(self) -> dict[str, float]:
        """Return the largest loss of a unit in each column."""
        return {column: float(plan.epsilon) for column, plan in self.plans.items()}


@dataclass(frozen=True, eq=False, repr=False)
class ColumnPlans(PlansByColumn):
    """Plan of several value columns where occupancy is public. Nothing is spent.

    Attributes
    ----------
    facts : ColumnFacts
    plans : mapping of str to Plan or DistributionPlan
        By column, in the order of the facts.

    The others are those of `PlansByColumn`.
    """

    facts: ColumnFacts
    plans: Mapping[str, SingleColumnPlan]

    def save(self, folder: str | Path) -> Path:
        """Write the plan into a new folder, to be reviewed and then released; return its path.

        Parameters
        ----------
        folder : str or Path
            New, in a folder that exists. It holds plan.json, and the plan of each column in a
            folder of its own: public facts, users by number. They show where each numbered user
            reported: give them to reviewers, not to everybody.

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
    def load(folder: str | Path, source: ColumnFacts | HasFacts[ColumnFacts]) -> ColumnPlans:
        """Return the plan that `save` wrote into a folder; releasing it is releasing that plan.

        Parameters
        ----------
        folder : str or Path
        source : ColumnDatasets or ColumnFacts
            The records that were planned, read with the same value columns and statistics.

        Raises
        ------
        InputError
            If a file is missing, was edited, or holds what no plan has; if the records are others.
        StorageError
            If a file cannot be read.
        """
        facts = getattr(source, "public", source)
        if not isinstance(facts, ColumnFacts):
            raise InputError("a plan of several value columns is loaded with their records.")
        loaded: ColumnPlans = plan_folder().load(folder, ColumnPlans, facts)
        return loaded

    @classmethod
    def from_saved(cls, **fields: Any) -> ColumnPlans:  # noqa: ANN401  as of the class
        """Return the plan of fields that a stranger may have written; see `check`."""
        columns, plans = fields["facts"].columns, fields["plans"]
        if set(plans) != set(columns):
            raise InputError("it was made for other value columns than were read.")
        return cls(**fields | {"plans": {column: plans[column] for column in columns}})

    def check(self) -> None:
        """Refuse fields that no plan of these records has: a stranger may have written them.

        Raises
        ------
        InputError
            Naming what does not fit.
        """
        plans, requested = self.plans, self.requested_epsilon
        for column, facts in self.facts.columns.items():
            if plans[column].occupancy.fingerprint != facts.occupancy.fingerprint:
                raise InputError(f"its plan of {column} was made for other records.")
        if len({plan.statistics for plan in plans.values()}) > 1:
            raise InputError("its columns have different statistics.")
        if len({plan.delta for plan in plans.values()}) > 1:
            raise InputError("its columns promise different deltas.")
        # A column asks for errors, or for its part of the whole: all alike.
        if any(bool(targets_of(plan)) != (requested is None) for plan in plans.values()):
            raise InputError("its columns ask for errors and the whole for epsilon, or conversely.")
        weighed = set() if requested is None else set(plans)
        if set(self.weights) != weighed or any(w <= 0 for w in self.weights.values()):
            raise InputError("its weights are not one number above 0 for each column.")
        if self.epsilon > self.epsilon_limit:
            raise InputError("its loss is above the epsilon that it was asked for.")

    def to_json(self) -> dict[str, Any]:
        """Return the plan's figures as JSON data; all of it is public."""
        return {
            "units": self.facts.n_units,
            "epsilon_requested": float(self.epsilon_limit),
            "epsilon": float(self.epsilon),
            "median_loss": float(np.median(self.user_losses)),
            "statistics": list(self.statistics),
            "weights": {name: float(weight) for name, weight in self.weights.items()},
            "refusal": self.refusal,
            "columns": {
                column: {
                    "cells": facts.occupancy.n_cells,
                    "users": facts.occupancy.n_users,
                    "records": facts.occupancy.n_records,
                    "epsilon": float(self.plans[column].epsilon),
                    "expected_error": self.plans[column].expected_error,
                    "targets": targets_of(self.plans[column]),
                }
                for column, facts in self.facts.columns.items()
            },
        }


@dataclass(frozen=True, eq=False, repr=False)
class DeclaredColumnPlans(PlansByColumn):
    """Plan of several value columns under private presence, made before a record is read.

    Attributes
    ----------
    facts : DeclaredColumns
    plans : mapping of str to PresencePlan
        By column, in the order of the facts.

    The others are those of `PlansByColumn`.
    """

    facts: DeclaredColumns
    plans: Mapping[str, PresencePlan]

    @property
    def epsilon(self) -> Fraction:
        """Loss of any unit, present or not, over all columns: the exact sum, or that at `delta`."""
        return self.promise.epsilon

    @property
    def promise(self) -> Promise:
        """Loss of any unit over all columns: the exact sum."""
        return summed((plan.epsilon for plan in self.plans.values()), self.delta)

    def to_json(self) -> dict[str, Any]:
        """Return the plan's figures as JSON data; all of it was declared."""
        return {
            "protect": "presence",
            "statistics": list(self.statistics),
            "epsilon": float(self.epsilon),
            "weights": {name: float(weight) for name, weight in self.weights.items()},
            "refusal": self.refusal,
            "columns": {
                # What a δ gains is told of single columns alone.
                column: plan.to_json() | {"with_delta": None}
                for column, plan in self.plans.items()
            },
        }

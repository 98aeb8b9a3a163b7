"""Plan of several value columns: a plan of its own for each, and one loss over all of them.

Neighbours: one unit's values all change within the bounds, in all columns at once. Loss of a unit:
the sum of its losses in the columns in which it has records (`combined_stages`), which `release`
recomputes from the scales that go to the noise library. Under a δ the booked losses are squares of
μ, which add up over columns, and ε is that of the largest sum.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from hexveil.accounting.gaussian_composition import epsilons_of_squares
from hexveil.base.read_only import read_only
from hexveil.mechanisms.distribution.combined_stages import ColumnComponent, CombinedStages
from hexveil.planning.distribution.distribution_plan import DistributionPlan
from hexveil.planning.distribution.pure_booking import PureBooking
from hexveil.planning.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hexveil.model.column_facts import ColumnFacts
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.planning.release_allocation import ReleaseAllocation

    Floats = NDArray[np.float64]

SingleColumnPlan: TypeAlias = Plan | DistributionPlan
"""Plan of one value column."""


def stages_of_column(
    plan: SingleColumnPlan, facts: PublicMetadata
) -> ReleaseAllocation | CombinedStages:
    """Return the stages of the plan of one value column."""
    if isinstance(plan, DistributionPlan):
        return plan.allocation()
    # Loaded with the stages of a release, not with every plan: it loads the noise library.
    from hexveil.planning.release_allocation import allocation_of  # noqa: PLC0415

    return allocation_of(plan, facts.lattice)


@dataclass(frozen=True, eq=False)
class ColumnPlans(PureBooking):
    """Plan of a release of several value columns. Public; nothing is spent.

    Attributes
    ----------
    facts : ColumnFacts
    plans : mapping of str to Plan or DistributionPlan
        By column, in the order of the facts.
    requested_epsilon : Fraction
        Largest loss of a unit over all columns.
    weights : mapping of str to Fraction
        Importance of each column in the split of ε.
    edition : str or None
    """

    facts: ColumnFacts
    plans: Mapping[str, SingleColumnPlan]
    requested_epsilon: Fraction
    weights: Mapping[str, Fraction] = field(default_factory=dict)
    edition: str | None = None

    @property
    def delta(self) -> Fraction:
        """δ of the promise, the same for all columns; 0 for a pure one."""
        return next(iter(self.plans.values())).delta

    @cached_property
    def booked_losses(self) -> Floats:
        """What the ledger books for each unit over all columns: its loss, or its square of μ."""
        booked: Floats = read_only(self.allocation().losses())
        return booked

    @cached_property
    def user_losses(self) -> Floats:
        """Loss of each unit over all columns in epsilon, rounded up; shape (n_units,)."""
        if not self.delta:
            return self.booked_losses
        losses: Floats = read_only(epsilons_of_squares(self.booked_losses, self.delta))
        return losses

    @property
    def booked_limit(self) -> Fraction:
        """Most that the ledger books for a unit: its loss, or under a δ its square of μ."""
        return Fraction(float(self.booked_losses.max(initial=0.0)))

    def __repr__(self) -> str:
        return f"ColumnPlans({', '.join(self.plans)}, epsilon={float(self.epsilon):.6g})"

    @property
    def statistics(self) -> tuple[str, ...]:
        """Statistics of each column."""
        return next(iter(self.plans.values())).statistics

    @property
    def refusal(self) -> str | None:
        """The sentence that refuses a map with nothing to say; None where each column's has."""
        for column, plan in self.plans.items():
            if isinstance(plan, DistributionPlan):
                reason = plan.refusal
            else:
                useless = not plan.support.beats_constant
                reason = (
                    "the map would say no more than one constant for all cells; ask for larger "
                    "cells or more epsilon, or leave the column out."
                ) * useless
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

    def with_stages(
        self, stages: Mapping[str, ReleaseAllocation | CombinedStages]
    ) -> CombinedStages:
        """Return stages of each column as those of one release."""
        components = [
            ColumnComponent(column, own, units=self.facts.units[column])
            for column, own in stages.items()
        ]
        return CombinedStages.of(components, self.facts.n_units)

    def column_epsilons(self) -> dict[str, float]:
        """Return the largest loss of a unit in each column."""
        return {column: float(plan.epsilon) for column, plan in self.plans.items()}

    def to_json(self) -> dict[str, Any]:
        """Return the plan's figures as JSON data; all of it is public."""
        return {
            "units": self.facts.n_units,
            "epsilon_requested": float(self.requested_epsilon),
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
                }
                for column, facts in self.facts.columns.items()
            },
        }

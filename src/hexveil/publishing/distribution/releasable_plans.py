"""Kinds of plans under public presence, and their parts in a release: stages and sums."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from hexveil.mechanisms.distribution.combined_stages import ColumnSums
from hexveil.planning.columns.column_plan import ColumnPlans
from hexveil.planning.distribution.distribution_plan import DistributionPlan
from hexveil.planning.plan import Plan
from hexveil.planning.release_allocation import allocation_of
from hexveil.publishing.private_sums import binned_sums, private_sums
from hexveil.records.columns.column_datasets import ColumnDatasets

if TYPE_CHECKING:
    from hexveil.mechanisms.contract import PrivateSums
    from hexveil.mechanisms.distribution.combined_stages import CombinedStages
    from hexveil.planning.clipping_range.clipping import ReleaseAllocation
    from hexveil.records.dataset import Dataset

    ReleasableStages: TypeAlias = ReleaseAllocation | CombinedStages

ReleasablePlan: TypeAlias = Plan | DistributionPlan | ColumnPlans
"""Means and variances alone, or quantiles, shares and histograms, perhaps beside them; or a plan of
these for each of several value columns."""
ReleasableDataset: TypeAlias = "Dataset | ColumnDatasets"


def stages_of(plan: ReleasablePlan) -> ReleasableStages:
    """Return the stages of a plan of records as read."""
    if not isinstance(plan, Plan):
        return plan.allocation()
    assert plan.facts is not None  # noqa: S101  see check_arguments
    return allocation_of(plan, plan.facts.lattice)


def sums_of(dataset: ReleasableDataset, plan: ReleasablePlan) -> PrivateSums:
    """Return the sums that the stages of a plan measure. PRIVATE."""
    if isinstance(dataset, ColumnDatasets):
        assert isinstance(plan, ColumnPlans)  # noqa: S101  see check_arguments
        return ColumnSums(
            {column: sums_of(dataset.datasets[column], own) for column, own in plan.plans.items()}
        )
    return binned_sums(dataset) if isinstance(plan, DistributionPlan) else private_sums(dataset)

"""Kinds of plans under public presence, and their parts in a release: stages, sums and bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias, overload

from hexveil.mechanisms.distribution.combined_stages import ColumnSums
from hexveil.planning.columns.column_codec import pack_columns, unpack_columns
from hexveil.planning.columns.column_plan import ColumnPlans
from hexveil.planning.distribution import distribution_codec
from hexveil.planning.distribution.distribution_plan import DistributionPlan
from hexveil.planning.plan import Plan
from hexveil.planning.release_allocation import ReleaseAllocation, allocation_of
from hexveil.planning.serialization import plan_codec
from hexveil.publishing.private_sums import binned_sums, private_sums
from hexveil.records.columns.column_datasets import ColumnDatasets

if TYPE_CHECKING:
    from hexveil.mechanisms.contract import PrivateSums
    from hexveil.mechanisms.distribution.combined_stages import CombinedStages
    from hexveil.planning.columns.column_plan import SingleColumnPlan
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


def encode_decisions(plan: ReleasablePlan) -> bytes:
    """Return a plan's decisions as the bytes that a ledger keeps."""
    if isinstance(plan, ColumnPlans):
        chunks = {column: encode_decisions(own) for column, own in plan.plans.items()}
        return pack_columns(plan, chunks)
    if isinstance(plan, DistributionPlan):
        return distribution_codec.encode_distribution(plan)
    return plan_codec.encode(plan)


@overload
def decode_decisions(encoded: bytes, plan: SingleColumnPlan) -> SingleColumnPlan: ...


@overload
def decode_decisions(encoded: bytes, plan: ReleasablePlan) -> ReleasablePlan: ...


def decode_decisions(encoded: bytes, plan: ReleasablePlan) -> ReleasablePlan:
    """Return the plan of these bytes, for a plan of the same goal.

    Raises
    ------
    InputError, StorageError
        If a later version of hexveil encoded it, or it is damaged.
    """
    if isinstance(plan, ColumnPlans):
        plans = {
            column: decode_decisions(chunk, like)
            for column, (chunk, like) in unpack_columns(encoded, plan).items()
        }
        return replace(plan, plans=plans)
    if isinstance(plan, DistributionPlan):
        return distribution_codec.decode_distribution_plan(encoded, plan)
    return plan_codec.decode(encoded, plan)


def encoding_version(encoded: bytes, plan: ReleasablePlan) -> str:
    """Return the version of hexveil that encoded a plan of this goal."""
    if isinstance(plan, ColumnPlans):
        chunk, like = next(iter(unpack_columns(encoded, plan).values()))
        return encoding_version(chunk, like)
    if isinstance(plan, DistributionPlan):
        return distribution_codec.version_of(encoded)
    return plan_codec.made_by(encoded)

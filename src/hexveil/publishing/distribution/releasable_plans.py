"""Kinds of plans under public presence, and their parts in a release: stages and bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from hexveil.planning.distribution import distribution_codec
from hexveil.planning.distribution.distribution_plan import DistributionPlan
from hexveil.planning.plan import Plan
from hexveil.planning.release_allocation import ReleaseAllocation, allocation_of
from hexveil.planning.serialization import plan_codec

if TYPE_CHECKING:
    from hexveil.mechanisms.distribution.combined_stages import CombinedStages
    from hexveil.records.dataset import Dataset

    ReleasableStages: TypeAlias = ReleaseAllocation | CombinedStages

ReleasablePlan: TypeAlias = Plan | DistributionPlan
"""Means and variances alone, or quantiles, shares and histograms, perhaps beside them."""


def stages_of(dataset: Dataset, plan: ReleasablePlan) -> ReleasableStages:
    """Return the stages of a plan."""
    if isinstance(plan, DistributionPlan):
        return plan.allocation()
    return allocation_of(plan, dataset.public.lattice)


def encode_decisions(plan: ReleasablePlan) -> bytes:
    """Return a plan's decisions as the bytes that a ledger keeps."""
    if isinstance(plan, DistributionPlan):
        return distribution_codec.encode_distribution(plan)
    return plan_codec.encode(plan)


def decode_decisions(encoded: bytes, plan: ReleasablePlan) -> ReleasablePlan:
    """Return the plan of these bytes, for a plan of the same goal.

    Raises
    ------
    InputError, StorageError
        If a later version of hexveil encoded it, or it is damaged.
    """
    if isinstance(plan, DistributionPlan):
        return distribution_codec.decode_distribution_plan(encoded, plan)
    return plan_codec.decode(encoded, plan)


def encoding_version(encoded: bytes, plan: ReleasablePlan) -> str:
    """Return the version of hexveil that encoded a plan of this goal."""
    if isinstance(plan, DistributionPlan):
        return distribution_codec.version_of(encoded)
    return plan_codec.made_by(encoded)

"""Sums of a data set as the stages of a release measure them. PRIVATE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexveil.base.errors import HexveilError
from hexveil.mechanisms.distribution.binned_stage import BinnedBlockSums, BinnedSums
from hexveil.mechanisms.distribution.combined_stages import ColumnSums
from hexveil.mechanisms.presence.any_unit import PresenceSums
from hexveil.mechanisms.stage_data import PrivateSums
from hexveil.records.column_datasets import ColumnDatasets, PrivateColumns, PrivateDataset
from hexveil.records.dataset import Dataset, DistributedSums

if TYPE_CHECKING:
    from hexveil.planning.component import PlanComponent
    from hexveil.planning.plan import Plan
    from hexveil.publishing.privacy_models import AnyDataset

_NOT_BINNED = "these records were not counted by bin."


def sums_of(dataset: AnyDataset, plan: Plan) -> PrivateSums:
    """Return the sums that the stages of a plan measure, of each value column. PRIVATE."""
    if isinstance(dataset, (ColumnDatasets, PrivateColumns)):
        components = plan.components.items()
        return ColumnSums(
            {
                name: _of_component(dataset.datasets[name], component)
                for name, component in components
            }
        )
    return _of_component(dataset, plan.single)


def _of_component(dataset: Dataset | PrivateDataset, component: PlanComponent) -> PrivateSums:
    """Return the sums of one value column that the stages of a part measure. PRIVATE."""
    if isinstance(dataset, PrivateDataset):
        return PresenceSums(dataset.pairs)
    return private_sums(dataset, binned=component.reads_bins)


def private_sums(dataset: Dataset, *, binned: bool = False) -> PrivateSums:
    """Return the sums of a data set, perhaps with its counts by bin, a batch of one. PRIVATE.

    Raises
    ------
    HexveilError
        If its records were not counted by bin.
    """
    sums = dataset.sums
    # The one place where a release asks where its sums are.
    if isinstance(sums, DistributedSums):
        if binned and not sums.binned:
            raise HexveilError(_NOT_BINNED)
        # Measured in their blocks, never fetched.
        return BinnedBlockSums(sums)
    if not binned:
        return PrivateSums(sums.total, sums.total_sq)
    if sums.bins is None:
        raise HexveilError(_NOT_BINNED)
    return BinnedSums(sums.total, sums.total_sq, sums.bins)

"""Means and variances from the stored outputs of a release: its table and accuracy. Public."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hexveil.planning.moment_tables import with_outputs
from hexveil.publishing.estimates.accuracy import accuracy_statement, with_memory
from hexveil.publishing.estimates.posterior_estimates import (
    adopt_intervals,
    best_estimates,
    estimate_view,
)
from hexveil.publishing.estimates.smoothed_estimates import groupings_of, smooth_release
from hexveil.publishing.estimates.table import build_table
from hexveil.publishing.memory.history import RememberedMeans, remember_means

if TYPE_CHECKING:
    from hexveil.mechanisms.stage_data import Outputs
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.planning.moment_component import MomentComponent
    from hexveil.publishing.memory.history import History
    from hexveil.smoothing import Smoothed


@dataclass(frozen=True, eq=False)
class DecodedMoments:
    """Published means and variances.

    Attributes
    ----------
    plan : MomentComponent
        With what private stages released in place of what planning predicted.
    table : pyarrow.Table
        A row per cell.
    smoothed : dict of str to Smoothed
    accuracy : list of dict
        The manifest's statement, an entry for each statistic.
    memory : RememberedMeans or None
        What earlier releases say, and later ones will read.
    """

    plan: MomentComponent
    table: pa.Table
    smoothed: dict[str, Smoothed]
    accuracy: list[dict[str, Any]]
    memory: RememberedMeans | None = None


def decode_moments(
    plan: MomentComponent,
    allocation: Any,  # noqa: ANN401  a kind of allocation each
    outputs: Outputs,
    facts: PublicMetadata,
    *,
    smoothing: bool = False,
    history: History | None = None,
) -> DecodedMoments:
    """Return the numbers of stored outputs; post-processing, without sums.

    Parameters
    ----------
    plan : MomentComponent
    allocation : ReleaseAllocation
    outputs : Outputs
        Of all of its stages.
    facts : PublicMetadata
    smoothing : bool
        Whether to add smoothed estimates.
    history : History, optional
        Earlier releases, which means with a posterior remember unless smoothed ones are added.
    """
    # Ranges and strategy that private stages released replace those that planning predicted.
    released = with_outputs(plan, allocation, outputs)
    values = {one.statistic: one.estimate[0] for one in allocation.decode(outputs)}
    clipping = released.allocation.clipping
    view = allocation.view(outputs)
    posterior = None if view is None else estimate_view(view, groupings_of(facts.cells))
    # Ranges of single cells borrow from the whole map already.
    is_improved = posterior is not None and facts.occupancy.n_cells > 1 and not clipping.borrows
    smoothed = {}
    if smoothing or is_improved:
        noisy = values if smoothing else {"mean": values["mean"]}
        smoothed = smooth_release(released, facts, noisy)
    if posterior is not None and is_improved:
        posterior = best_estimates(posterior, smoothed["mean"])
    memory = None
    if posterior is not None and history is not None and not smoothing:
        memory = remember_means(view, facts, posterior, history)
        posterior = posterior if memory is None else memory.posterior
    if not smoothing:
        smoothed = {}
    cut_off = clipping.cut_off(released, allocation.numbers(outputs))
    if posterior is not None:
        cut_off["mean"] = posterior.cut_off
        if smoothed:
            smoothed["mean"] = adopt_intervals(
                smoothed["mean"], posterior, borrowed=clipping.borrows
            )
    today = None if memory is None else memory.today
    table = build_table(released, facts, values, smoothed, cut_off, posterior, today)
    # Counted in the table, so that manifest and table cannot differ.
    accuracy = accuracy_statement(released, table, posterior)
    if today:
        accuracy = [with_memory(statement) for statement in accuracy]
    return DecodedMoments(released, table, smoothed, accuracy, memory)

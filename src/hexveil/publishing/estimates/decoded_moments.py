"""Means and variances from the stored outputs of a release: its table and accuracy. Public."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hexveil.planning.moment_part import with_outputs
from hexveil.publishing.estimates.accuracy import accuracy_statement
from hexveil.publishing.estimates.posterior_estimates import (
    adopt_intervals,
    best_estimates,
    estimate_view,
)
from hexveil.publishing.estimates.smoothed_estimates import groupings_of, smooth_release
from hexveil.publishing.estimates.table import build_table

if TYPE_CHECKING:
    import pyarrow as pa

    from hexveil.mechanisms.stage_data import Outputs
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.planning.moment_part import MomentPart
    from hexveil.publishing.estimates.posterior_estimates import PosteriorEstimates
    from hexveil.smoothing import Smoothed


@dataclass(frozen=True, eq=False)
class DecodedMoments:
    """Published means and variances.

    Attributes
    ----------
    plan : MomentPart
        With what private stages released in place of what planning predicted.
    table : pyarrow.Table
        A row per cell.
    smoothed : dict of str to Smoothed
    accuracy : list of dict
        The manifest's statement, an entry for each statistic.
    """

    plan: MomentPart
    table: pa.Table
    smoothed: dict[str, Smoothed]
    accuracy: list[dict[str, Any]]


def decode_moments(
    plan: MomentPart,
    allocation: Any,  # noqa: ANN401  a kind of allocation each
    outputs: Outputs,
    facts: PublicMetadata,
    *,
    smoothing: bool = False,
) -> DecodedMoments:
    """Return the numbers of stored outputs; post-processing, without sums.

    Parameters
    ----------
    plan : MomentPart
    allocation : ReleaseAllocation
    outputs : Outputs
        Of all of its stages.
    facts : PublicMetadata
    smoothing : bool
        Whether to add smoothed estimates.
    """
    # Ranges and strategy that private stages released replace those that planning predicted.
    released = with_outputs(plan, allocation, outputs)
    values = {one.statistic: one.estimate[0] for one in allocation.decode(outputs)}
    clipping = released.allocation.clipping
    posterior = moment_posterior(allocation, outputs, facts)
    # Ranges of single cells borrow from the whole map already.
    is_improved = posterior is not None and facts.occupancy.n_cells > 1 and not clipping.borrows
    smoothed = {}
    if smoothing or is_improved:
        noisy = values if smoothing else {"mean": values["mean"]}
        smoothed = smooth_release(released, facts, noisy)
    if posterior is not None and is_improved:
        posterior = best_estimates(posterior, smoothed["mean"])
    if not smoothing:
        smoothed = {}
    cut_off = clipping.cut_off(released, allocation.numbers(outputs))
    if posterior is not None:
        cut_off["mean"] = posterior.cut_off
        if smoothed:
            smoothed["mean"] = adopt_intervals(
                smoothed["mean"], posterior, borrowed=clipping.borrows
            )
    table = build_table(released, facts, values, smoothed, cut_off, posterior)
    # Counted in the table, so that manifest and table cannot differ.
    accuracy = accuracy_statement(released, table, posterior)
    return DecodedMoments(released, table, smoothed, accuracy)


def moment_posterior(
    allocation: Any,  # noqa: ANN401  as in `decode_moments`
    outputs: Outputs,
    facts: PublicMetadata,
) -> PosteriorEstimates | None:
    """Return the estimates of means before clipping; None where there are none."""
    view = allocation.view(outputs)
    return None if view is None else estimate_view(view, groupings_of(facts.cells))

"""Smoothed estimates of a release: cells borrow strength from each other's noisy numbers.

Post-processing of noisy numbers and public facts (smoothing/): it costs nothing, and the same
numbers always give the same estimates.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil import smoothing
from hexveil.accounting import privacy_loss as contributions
from hexveil.accounting.error_model import WeightedMeanErrorModel
from hexveil.report.manifest_view import RANGE
from hexveil.report.templates import render_sentence
from hexveil.smoothing.shrinkage import OWN_DEVIATION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hexveil.base.arrays import Floats
    from hexveil.model.cells import CellTable
    from hexveil.model.occupancy import Occupancy
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.planning.moment_component import MomentComponent
    from hexveil.smoothing import RandomEffect, Smoothed


def smooth_release(
    plan: MomentComponent, facts: PublicMetadata, noisy: Mapping[str, Floats]
) -> dict[str, Smoothed]:
    """Return the smoothed estimates of each statistic that noise was added to.

    Raises
    ------
    InputError
        If there is one cell only.
    """
    size = effective_users(plan.occupancy)
    groupings = (*groupings_of(facts.cells), *smoothing.group_user_counts(size))
    return {
        name: _smooth_statistic(plan, name, numbers, groupings, size)
        for name, numbers in noisy.items()
    }


def effective_users(occupancy: Occupancy) -> Floats:
    """Return the effective users of each cell: 1 / Σ p², p the share of a user in its records.

    Examples
    --------
    >>> from hexveil.model.occupancy import LocalOccupancy
    >>> effective_users(LocalOccupancy.from_dense([[1, 8], [1, 1], [1, 1]])).round(2)
    array([3.  , 1.52])
    """
    return occupancy.map_cells(
        partial(contributions.effective_users, total=occupancy.records_per_cell)
    )


def groupings_of(cells: CellTable) -> tuple[RandomEffect, ...]:
    """Return the groupings of cells: by place and time, or by labels."""
    if cells.hexagon is not None:
        return smoothing.group_hexagons(cells.hexagon, cells.slot)
    return smoothing.group_labels(cells.labels)


def smoothing_statement(
    plan: MomentComponent, smoothed: Mapping[str, Smoothed], *, posterior: bool = False
) -> list[dict[str, Any]]:
    """Return the manifest's statement on smoothing: the model, and the quality of the map.

    Parameters
    ----------
    plan : MomentComponent
    smoothed : mapping of str to Smoothed
        By statistic.
    posterior : bool
        Whether the mean has the intervals of its posterior.
    """
    return [
        {
            "statistic": name,
            "model": render_sentence(
                "smoothing.txt",
                "model",
                smoothed=bool(estimate.deviations),
                effects=[effect for effect in estimate.deviations if effect != OWN_DEVIATION],
                left_out=estimate.left_out,
                widened=estimate.widened,
                posterior=posterior and name == "mean",
                cell_ranges=plan.allocation.clipping.borrows,
                gaussian=bool(plan.delta),
            ),
            "deviations": dict(estimate.deviations),
            "signal_share": estimate.signal_share,
            "distinguishable": estimate.distinguishable,
            "epsilon_half_distinguishable": _epsilon_for_half(plan, estimate),
        }
        for name, estimate in smoothed.items()
    ]


def _epsilon_for_half(plan: MomentComponent, estimate: Smoothed) -> float | None:
    """Return the predicted ε at which half of the cells are distinguishable from the mean."""
    factor = estimate.half_distinguishable_factor
    return None if factor is None else float(plan.requested_epsilon) * factor


def _smooth_statistic(
    plan: MomentComponent,
    name: str,
    noisy: Floats,
    groupings: tuple[RandomEffect, ...],
    size: Floats,
) -> Smoothed:
    error, mean = plan.error_models[name], name == "mean"
    typical_bias, clipping_range = None, None
    if isinstance(error, WeightedMeanErrorModel):
        typical_bias, clipping_range = plan.allocation.clipping.smoothing_bias(plan, error)
    estimate = smoothing.smooth(
        noisy,
        error.scale,
        groupings,
        effective_users=size,
        worst_bias=error.bias,
        typical_bias=typical_bias,
        clipping_range=clipping_range,
        lower=plan.lower if mean else 0.0,
        upper=plan.upper if mean else plan.span**2 * RANGE["variance"],
        gaussian=bool(plan.delta),
    )
    # A number that is known without noise borrows from none.
    exact = error.informative & ~error.noised
    return replace(
        estimate,
        estimate=np.where(exact, noisy, estimate.estimate),
        low=np.where(exact, noisy, estimate.low),
        high=np.where(exact, noisy, estimate.high),
    )

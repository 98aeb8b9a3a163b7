"""Means and variances from the stored outputs of a release: its table and accuracy. Public.

Smoothed estimates of a release: cells borrow strength from each other's noisy numbers.

Post-processing of noisy numbers and public facts (smoothing/): it costs nothing, and the same
numbers always give the same estimates.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from hexveil.accounting import privacy_loss as contributions
from hexveil.accounting.error_model import WeightedMeanErrorModel
from hexveil.base.arrays import Floats
from hexveil.mechanisms.stage_data import Outputs
from hexveil.model.cells import CellTable
from hexveil.model.public_metadata import PublicMetadata
from hexveil.planning.allocation import with_outputs
from hexveil.planning.moment_component import MomentComponent
from hexveil.publishing.estimates.accuracy import accuracy_statement
from hexveil.publishing.estimates.posterior_estimates import (
    adopt_intervals,
    best_estimates,
    estimate_view,
)
from hexveil.publishing.estimates.table import build_table, limits_of
from hexveil.publishing.memory.history import History, RememberedMeans, remember_means
from hexveil.report.templates import render_sentence
from hexveil.smoothing import cell_groupings, shrinkage
from hexveil.smoothing.cell_groupings import RandomEffect
from hexveil.smoothing.shrinkage import Smoothed

Estimates = Literal["none", "posterior", "smoothed"]
SD_PER_MEAN_ABS = math.sqrt(math.pi / 2.0)
"""Standard deviation of a centred normal variable, as a multiple of its mean absolute value."""


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
    estimates: Estimates = "posterior",
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
    estimates : {"none", "posterior", "smoothed"}
        Which estimates to add to the noisy numbers; "smoothed" has those of the posterior, too.
        They take most of the time: a rehearsal before the booking needs the refusals alone.
    history : History, optional
        Earlier releases, which means with a posterior remember unless smoothed ones are added.
    """
    # Ranges and strategy that private stages released replace those that planning predicted.
    released = with_outputs(plan, allocation, outputs)
    values = {one.statistic: one.estimate[0] for one in allocation.decode(outputs)}
    clipping = released.allocation.clipping
    view, smoothing, posterior = allocation.view(outputs), estimates == "smoothed", None
    if view is not None:
        groups = groupings_of(facts.cells)
        posterior = None if estimates == "none" else estimate_view(view, groups)
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
    accuracy = accuracy_statement(released, table, posterior, remembers=bool(today))
    return DecodedMoments(released, table, smoothed, accuracy, memory)


def smooth_release(
    plan: MomentComponent, facts: PublicMetadata, noisy: Mapping[str, Floats]
) -> dict[str, Smoothed]:
    """Return the smoothed estimates of each statistic that noise was added to.

    Raises
    ------
    InputError
        If there is one cell only.
    """
    occupancy = plan.occupancy
    # Effective users of each cell: 1 / Σ p², p the share of a user in its records.
    size = occupancy.map_cells(
        partial(contributions.effective_users, total=occupancy.records_per_cell)
    )
    groupings = (*groupings_of(facts.cells), *cell_groupings.group_user_counts(size))
    smoothed = {}
    for name, numbers in noisy.items():
        error, typical_bias = plan.error_models[name], None
        if isinstance(error, WeightedMeanErrorModel):
            typical_bias = SD_PER_MEAN_ABS * error.unit * error.expected_bias
        lower, upper = limits_of(name, plan.lower, plan.upper)
        estimate = shrinkage.smooth(
            numbers, error.scale, groupings, effective_users=size, worst_bias=error.bias,
            typical_bias=typical_bias, lower=lower, upper=upper, gaussian=bool(plan.delta),
        )  # fmt: skip
        # A number that is known without noise borrows from none.
        exact = error.informative & ~error.noised
        keys = ("estimate", "low", "high")
        own: dict[str, Any] = {
            key: np.where(exact, numbers, getattr(estimate, key)) for key in keys
        }
        smoothed[name] = replace(estimate, **own)
    return smoothed


def groupings_of(cells: CellTable) -> tuple[RandomEffect, ...]:
    """Return the groupings of cells: by place and time, or by labels."""
    if cells.hexagon is not None:
        return cell_groupings.group_hexagons(cells.hexagon, cells.slot)
    return cell_groupings.group_labels(cells.labels)


def smoothing_statement(
    plan: MomentComponent, smoothed: Mapping[str, Smoothed], *, posterior: bool = False
) -> list[dict[str, Any]]:
    """Return the manifest's statement on smoothing: the model of each statistic.

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
                smoothed=estimate.effects is not None,
                effects=estimate.effects,
                left_out=estimate.left_out,
                widened=estimate.widened,
                posterior=posterior and name == "mean",
                cell_ranges=plan.allocation.clipping.borrows,
                gaussian=bool(plan.delta),
            ),
        }
        for name, estimate in smoothed.items()
    ]

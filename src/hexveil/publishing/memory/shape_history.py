"""Distributions under private presence that remember earlier days: noisy bins add up.

The first day of a series pays for the pooled shape; later days place their bins by it. The bins of
a cell over earlier days, each counting half as much a week later, give a forecast of its tilts
(`tilt_estimation`), which take after those of its place and slot. A day's own bins tilt further:
how far forecasts are off shows in their spread over all cells, so that intervals widen after a
change. Everything here is made of published numbers.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from hexveil.accounting.promise import PARTS
from hexveil.base.arrays import Bools, Floats, Ints
from hexveil.mechanisms.distribution.tilt_estimation import TiltFit, fit_cells
from hexveil.mechanisms.stage_data import Outputs
from hexveil.planning.allocation import PublishedShape
from hexveil.planning.presence.presence_plan import PresenceComponent
from hexveil.publishing.memory.history import History, alike, memory_key
from hexveil.publishing.memory.score_history import EMPTY, score_facts
from hexveil.publishing.memory.stored_day import EarlierRelease, Rows, row_of

HALF_LIFE = 7.0
"""Days after which numbers count half as much."""
LEAST_MASS = 0.1
"""Least share of a bin over all days, in its share by the first day's shape."""


def forecast_shapes(
    shape: PublishedShape, earlier: Sequence[EarlierRelease], cells: Sequence[Sequence[int]],
    groups: Sequence[Ints], n_cells: int,
) -> tuple[Floats, TiltFit]:  # fmt: skip
    """Return the pooled shares by earlier days, and the tilts of cells.

    Parameters
    ----------
    shape : PublishedShape
        Of the first day.
    earlier : sequence of EarlierRelease
        By date. Days with other bins than the newest, as the first one, are left out.
    cells : sequence of sequence of int
        Number of each cell of each release; `n_cells` of one that the grid lacks.
    groups : sequence of ndarray of int64, shape (n_cells,)
    n_cells : int
    """
    newest = earlier[-1].bins
    assert newest is not None  # noqa: S101  of a series of bins
    place, today = newest.place, earlier[-1].published.day
    total, sums = np.zeros((n_cells + 1, int(place.max()) + 1)), np.zeros((3, n_cells + 1))
    for release, rows in zip(earlier, cells, strict=True):
        bins = release.bins
        if bins is None or not np.array_equal(bins.place, place):
            continue
        weight = 0.5 ** ((today - release.published.day) / HALF_LIFE)
        total[rows] += weight * bins.noisy
        sums[:, rows] += np.array([weight, weight**2, (weight * bins.noise) ** 2])[:, None]
    known = np.flatnonzero(sums[0, :-1])
    count, squares, noise = sums[:, known]
    masses, measured = np.bincount(place, shape.shares), np.maximum(total.sum(axis=0), 0.0)
    measured = np.maximum(measured / max(measured.sum(), 1.0), LEAST_MASS * masses)
    shares = shape.shares * (measured / masses)[place]
    shares = shares / shares.sum()
    fit = fit_cells(
        shares, total[known] / count[:, None], place, np.sqrt(noise) / count,
        [group[known] for group in groups], n_days=count**2 / squares,
    )  # fmt: skip
    # A cell that was never open is like the others, as far as is known.
    deviation = fit.alpha - fit.alpha.mean(axis=0)
    between = deviation.T @ deviation / known.size + fit.covariance.mean(axis=0)
    alpha = np.tile(fit.alpha.mean(axis=0), (n_cells, 1))
    covariance = np.tile(between, (n_cells, 1, 1))
    alpha[known], covariance[known] = fit.alpha, fit.covariance
    return shares, TiltFit(alpha, covariance)


def remember_shapes(
    component: PresenceComponent,
    outputs: Outputs,
    is_open: Bools,
    history: History,
    units: Floats,
) -> tuple[Rows, dict[str, Any]]:
    """Return the file of a day for later ones, and the manifest's section.

    `units` are those of open cells.
    """
    request = component.request.of_map
    allocation, forecast = request.shape_allocation(), request.forecast or EMPTY
    shares, measured = allocation.pooled_shape(outputs)
    shape, place = forecast.shape, allocation.cell_place(outputs)
    if shape is None:
        of_series = allocation.shape.series_shares(outputs)
        shape = PublishedShape(np.array(allocation.fine_edges), of_series, measured)
    key = memory_key(score_facts(component.facts, request.terms, shape))
    earlier = [release for release in alike(key, history) if release.sha256 in forecast.releases]
    memory = {
        "key": key,
        "day": history.day.isoformat(),
        "shape": {name: one.tolist() for name, one in vars(shape).items()},
        "shares": shares.tolist(),
        "bins": place.tolist(),
        "noise": allocation.law.number_deviation / PARTS,
        "releases": [release.identity() for release in earlier],
    }
    rows = np.zeros(is_open.size, dtype=row_of(memory))
    if forecast.tilts is not None:
        rows["alpha"], rows["covariance"] = forecast.tilts.alpha, forecast.tilts.covariance
    rows["bins"][is_open] = allocation.noisy_bins(outputs)[is_open]
    rows["share_squares"][is_open] = 1.0 / units
    return rows, memory

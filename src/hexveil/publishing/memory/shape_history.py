"""Distributions under private presence that remember earlier days: noisy bins add up.

The first day of a series pays for the pooled shape; later days place their bins by it. The bins of
a cell over earlier days, each counting half as much a week later, give its distribution, as a
tilted form of the pooled one (`tilt_estimation`), shared by place and slot. A day's own bins tilt
that distribution further. How far forecasts are off shows in the spread of these tilts, so that
intervals widen after a change. Everything here is made of published numbers.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hexveil.accounting.promise import PARTS
from hexveil.base.arrays import Floats, Ints
from hexveil.mechanisms.distribution.tilt_estimation import fit_cells, legendre_terms, tilt
from hexveil.mechanisms.presence.presence_decoding import ReleasedMap
from hexveil.mechanisms.presence.remembered_map import RememberedShapes
from hexveil.mechanisms.stage_data import Outputs
from hexveil.planning.allocation import PublishedShape
from hexveil.planning.presence.presence_plan import PresenceComponent
from hexveil.publishing.memory.history import History, alike, memory_key
from hexveil.publishing.memory.score_history import score_facts
from hexveil.publishing.memory.stored_day import EarlierRelease, Rows, row_of

HALF_LIFE = 7.0
"""Days after which numbers count half as much."""
LEAST_SEEN = 0.1
"""Least share of a bin over all days, in its share by the first day's shape."""
MOST_BYTES = 900_000
"""Of the file: larger maps are not remembered."""


def forecast_bases(
    shape: PublishedShape, earlier: Sequence[EarlierRelease], cells: Sequence[Sequence[int]],
    groups: Sequence[Ints], n_cells: int,
) -> Floats:  # fmt: skip
    """Return the distribution of each cell by earlier days, shape (n_cells, n_fine_bins).

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
    for release, own in zip(earlier, cells, strict=True):
        bins = release.bins
        if bins is None or not np.array_equal(bins.place, place):
            continue
        weight = 0.5 ** ((today - release.published.day) / HALF_LIFE)
        total[own] += weight * bins.noisy
        sums[:, own] += np.array([weight, weight**2, (weight * bins.noise) ** 2])[:, None]
    known = np.flatnonzero(sums[0, :-1])
    count, squares, noise = sums[:, known]
    masses, seen = np.bincount(place, shape.shares), np.maximum(total.sum(axis=0), 0.0)
    seen = np.maximum(seen / max(seen.sum(), 1.0), LEAST_SEEN * masses)
    shares = shape.shares * (seen / masses)[place]
    shares = shares / shares.sum()
    fit = fit_cells(
        shares, total[known] / count[:, None], place, np.sqrt(noise) / count,
        [group[known] for group in groups], n_days=count**2 / squares,
    )  # fmt: skip
    bases = np.tile(shares, (n_cells, 1))
    bases[known] = tilt(shares, legendre_terms(shares), fit.alpha)
    return bases.astype(np.float32).astype(np.float64)  # as they are published


def remember_shapes(
    component: PresenceComponent,
    outputs: Outputs,
    decoded: ReleasedMap,
    history: History,
    units: Floats,
) -> tuple[Rows, Mapping[str, Any]] | None:
    """Return the file of a day for later ones, and the manifest's section; None if too large."""
    request, is_open = component.request.of_map, decoded.is_open
    allocation, forecast = request.shape_allocation(), request.forecast
    if isinstance(allocation, RememberedShapes) and forecast and forecast.shape:
        bases, shape, releases = allocation.bases, forecast.shape, forecast.releases
    else:
        shares, measured = allocation.pooled_shape(outputs)
        bases = np.tile(shares, (is_open.size, 1))
        shape, releases = PublishedShape(np.array(allocation.fine_edges), shares, measured), ()
    place, key = (
        allocation.cell_place(outputs),
        memory_key(score_facts(component.facts, request.terms, shape)),
    )
    memory = {
        "key": key,
        "day": history.day.isoformat(),
        "shape": {name: one.tolist() for name, one in vars(shape).items()},
        "bins": place.tolist(),
        "noise": allocation.law.number_deviation / PARTS,
        "releases": [r.identity() for r in alike(key, history) if r.sha256 in releases],
    }
    rows = np.zeros(is_open.size, dtype=row_of(memory))
    if rows.nbytes > MOST_BYTES:
        return None
    rows["bases"] = bases
    rows["bins"][is_open] = allocation.noisy_bins(outputs)[is_open]
    rows["share_squares"][is_open] = 1.0 / units
    return rows, memory

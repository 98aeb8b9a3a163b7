"""Maps with private presence that remember earlier days, as `publish` makes them.

Distributions are remembered by their bins (`shape_history`), averages as follows.

Of each open cell the noisy weight W and balance D are a look at its average (`RatioLook`). Whether
a cell is open follows from its weight, so that a closed one says nothing about its average, and has
no likelihood. Shares of records are taken to be even over its units, by its weight and price.
What `cut_off_error` allows for in an interval of the day alone is in the likelihood as well.

A share that is asked for alone is remembered as the average of its indicator (`score_history`). Its
first day measures bins, k of B beyond the threshold: D is their noisy weight less that of the
others, so that D - z W is k (1 - z) X - (B - k) (1 + z) Y in the variance, at most that of
`RatioLook` for numbers of noise that are each a sum of the more of both.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hexveil.accounting.noise_law import Gaussian
from hexveil.accounting.promise import PARTS
from hexveil.base.arrays import Floats, Ints
from hexveil.learning.memory import usual_deviation
from hexveil.learning.published_day import PublishedDay, blank_day, cell_names, summarize_day
from hexveil.learning.remembering import NORMAL_95
from hexveil.mechanisms.distribution.shape_statistics import MEAN
from hexveil.mechanisms.looks.user_weights import PRIOR_SD
from hexveil.mechanisms.pooled_law import PooledLaw
from hexveil.mechanisms.presence.presence_decoding import (
    DRIFT,
    GAUSSIAN_DRIFT,
    MEAN_ABS_NORMAL,
    WEIGHTING,
    ReleasedMap,
)
from hexveil.mechanisms.presence.remembered_map import RememberedMap
from hexveil.mechanisms.stage_data import Outputs
from hexveil.model.declared_grid import DeclaredColumns, DeclaredFacts
from hexveil.model.statistic_terms import Share, on_lattice, parse_statistics
from hexveil.planning.allocation import CellForecast
from hexveil.planning.presence.presence_plan import PresenceComponent, statistics_of
from hexveil.planning.presence.presence_request import USERS, PresenceRequest
from hexveil.publishing.estimates.table import TODAY
from hexveil.publishing.memory.history import (
    MOST_CELLS,
    History,
    alike,
    day_and_places,
    drawn_to_usual,
    forecast_or_none,
    memory_key,
    remember_day,
)
from hexveil.publishing.memory.score_history import NOTHING, published_shape, score_facts
from hexveil.publishing.memory.shape_history import forecast_shapes, remember_shapes
from hexveil.publishing.memory.stored_day import Rows
from hexveil.smoothing.user_mean_law import (
    WEIGHT_DRIFT,
    WITHIN_SHARE,
    CellDesign,
    RatioLook,
    UserMeanSpread,
)

ESTIMATED = ("mean", "mean_low", "mean_high")
SELDOM = 0.2
"""Part of the earlier days on which a cell is open at most, where nobody is expected."""
ALIKE, SURE, SHARE_DRIFT = 0.25, (0.05, 0.95), 2.0
"""Usual part of the variance of an indicator by which units differ, and not records of one; ends of
the share in all cells for it; factor of what weights of units are off by, where shares are."""
UNKNOWN = 1.5
"""Deviation of the forecast of a cell that was never open, in those of the others' forecasts."""


def forecast_declared(
    facts: DeclaredFacts | DeclaredColumns,
    history: History | None,
    statistics: Sequence[str] | str | None = None,
) -> CellForecast | None:
    """Return the forecast of a day's declared cells by the releases of earlier days.

    None without any, of several columns, for a map that is too large, or where none can be
    computed.
    """
    if history is None or not isinstance(facts, DeclaredFacts):
        return None
    names = [name for name in statistics_of(statistics) if name != USERS] or [MEAN]
    moments, terms = parse_statistics(names)
    shape, terms = None, on_lattice(terms, facts.lattice)
    if terms:
        is_share = len(terms) == 1 and isinstance(terms[0], Share) and not moments
        shape = None if is_share else published_shape(facts, terms, history)
        facts = score_facts(facts, terms, shape)
    earlier = alike(memory_key(facts), history)
    if not earlier or facts.grid.n_cells > MOST_CELLS:
        return None
    days = [release.published for release in earlier]
    ordinal, place, slot = day_and_places(facts, history.day)
    n_cells, earlier_cells = place.size, [cell_names(day.place, day.slot) for day in days]
    number = {name: k for k, name in enumerate(cell_names(place, slot).tolist())}
    # Cells of no declared grid, which only a stranger's folder has, are counted apart.
    rows = [[number.get(name, n_cells) for name in names.tolist()] for names in earlier_cells]
    units = 1.0 / np.concatenate([day.share_squares for day in days])
    every = [row for own in rows for row in own]
    n_open = np.bincount(every, minlength=n_cells + 1)[:-1]
    is_known, is_frequent = n_open > 0, n_open > SELDOM * len(days)
    total = np.bincount(every, units, n_cells + 1)[:-1].astype(np.float64)
    weight = np.where(is_frequent, total / np.maximum(n_open, 1), 0.0)
    if not (weight > 0).any():
        return None
    releases = tuple(release.sha256 for release in earlier)
    if shape is not None:
        tilts = forecast_shapes(shape, earlier, rows, facts.grid.table.groupings(), n_cells)
        return CellForecast(NOTHING, NOTHING, 0.0, releases, weight, shape, *tilts)
    users, squares = usual_deviation(days), 1.0 / np.maximum(weight[is_known], 1.0)
    blank = blank_day((ordinal, place[is_known], slot[is_known]), days[-1].bounds, users, squares)
    if (forecast := forecast_or_none(earlier, blank)) is None:
        return None
    # A cell that was never open is like the others, as far as is known.
    spread = float(np.hypot(np.std(forecast.mean), users))
    mean, deviation = np.full(n_cells, forecast.mean.mean()), np.full(n_cells, UNKNOWN * spread)
    mean[is_known], deviation[is_known] = forecast.mean, forecast.deviation
    return CellForecast(mean, deviation, users, releases, weight)


def remember_map(
    component: PresenceComponent, outputs: Outputs, decoded: ReleasedMap, history: History | None
) -> tuple[ReleasedMap, Rows | None, dict[str, Any] | None]:
    """Return the map of a day with its memory, its file, and the manifest's section.

    Both are None of what is not remembered, of a map that is too large, or without an open cell.

    Parameters
    ----------
    component : PresenceComponent
    outputs : Outputs
        Of all stages of the map.
    decoded : ReleasedMap
        By the day alone, in value units; of an indicator, too.
    history : History
    """
    facts, is_open, request = component.facts, decoded.is_open, component.request
    is_small = facts.grid.n_cells <= MOST_CELLS and bool(is_open.any())
    if history is None or not request.has_map or not is_small:
        return decoded, None, None
    if request.terms and not request.share:
        prices = request.of_map.shape_allocation().prices(outputs)[is_open]
        units = _units(request.of_map, decoded["weight_noisy"][is_open], prices)
        return decoded, *remember_shapes(component, outputs, is_open, history, units)
    if request.terms:
        facts = score_facts(facts, request.terms)
    if request.has_bins:  # the first day of a series, whatever is in the archive
        history = History(history.day)
    day = _summarize(facts, request.of_map, outputs, decoded, history)
    rows, statement, estimates = remember_day(day, facts, history, is_open)
    if estimates is None:
        return decoded, rows, statement
    columns = dict(decoded.columns)
    remembered = (estimates.estimate, estimates.low, estimates.high)
    for name, today, numbers in zip(ESTIMATED, TODAY, remembered, strict=True):
        columns[today], columns[name] = decoded[name], np.full(is_open.size, np.nan)
        columns[name][is_open] = numbers
    columns["mean_smoothed"] = np.where(is_open, columns["mean"], decoded["mean_smoothed"])
    error = {"mean": remembered_error(columns)}
    return replace(decoded, columns=columns, error=error), rows, statement


def remembered_error(columns: Mapping[str, Floats]) -> Floats:
    """Return expected errors of averages that remember, by their intervals."""
    width = columns["mean_high"] - columns["mean_low"]
    return np.asarray(MEAN_ABS_NORMAL * width / (2.0 * NORMAL_95))


def _deviation(law: PooledLaw) -> float:
    """Return half of the width of the middle 68 %: far bins of noise move it little."""
    return (law.quantile(0.841) - law.quantile(0.159)) / 2.0


def _look_at_means(
    request: PresenceRequest, outputs: Outputs, decoded: ReleasedMap
) -> tuple[RatioLook, Ints, float]:
    """Return the look at open cells, prices of all, and users' deviation as a share of the span."""
    allocation = request.mean_allocation()
    law, window = allocation.law, allocation.fine_window(outputs)
    weight, difference, low, high = (
        decoded[name][decoded.is_open]
        for name in ("weight_noisy", "balance_noisy", "mean_range_low", "mean_range_high")
    )
    if isinstance(allocation, RememberedMap):
        users = allocation.within
    else:
        name, edges, votes = allocation.histogram(outputs)
        shape = PooledLaw.of(edges / PARTS, votes, allocation.histogram_law(name))
        ratio = 1.0 if allocation.form.coarse_share else WITHIN_SHARE
        measured = ratio * _deviation(shape)
        users = drawn_to_usual(measured, shape, WITHIN_SHARE * PRIOR_SD, _deviation)
    scale = np.full(weight.size, law.scale / PARTS)
    is_gaussian = isinstance(law, Gaussian)
    look = RatioLook(difference, low, high, scale, is_gaussian, weight=weight)
    return look, window.prices, users


def _look_at_bins(
    request: PresenceRequest, outputs: Outputs, decoded: ReleasedMap
) -> tuple[RatioLook, Ints, float]:
    """Return the same of an indicator that was measured by bins, which its threshold divides."""
    allocation, scores = request.shape_allocation(), request.indicator
    assert scores is not None  # noqa: S101  of a share
    bins, law = allocation.noisy_bins(outputs)[decoded.is_open], allocation.law
    side = np.full(bins.shape[1], -1.0)
    side[allocation.cell_place(outputs)[scores > 0]] = 1.0
    weight, difference = bins.sum(axis=1), (side * bins).sum(axis=1)
    # Of numbers that are sums of several, noise is nearly normal.
    most = max(np.sum(side > 0), np.sum(side < 0))
    noise = np.full(weight.size, law.number_deviation / PARTS * math.sqrt(most))
    ends = np.zeros_like(weight), np.ones_like(weight)
    look = RatioLook(difference, *ends, noise, is_gaussian=True, weight=weight)
    share = np.clip(allocation.shape.shares(outputs)[scores > 0].sum(), *SURE)
    records = max(request.fleet.records_per_unit / request.cells_of_unit, 1.0)
    users = math.sqrt(share * (1.0 - share) * (ALIKE + (1.0 - ALIKE) / records))
    return look, allocation.prices(outputs), WITHIN_SHARE * users


def _units(request: PresenceRequest, weight: Floats, prices: Ints) -> Floats:
    """Return the number of units of each cell, by its noisy weight and its price."""
    # A unit's weight is divided by the prices of its cells: a cell of a high price, among others of
    # the usual one, has nearly all of it, and so about as many units as weight.
    sure, power = np.maximum(weight, 1.0), request.promise.noise().power
    relative = sure.sum() / (sure / prices).sum() / prices
    return np.asarray(sure * (1.0 + (request.cells_of_unit - 1) * relative**power) ** (1.0 / power))


def _summarize(
    facts: DeclaredFacts,
    request: PresenceRequest,
    outputs: Outputs,
    decoded: ReleasedMap,
    history: History,
) -> PublishedDay:
    """Return the published day of the open cells."""
    is_open, law = decoded.is_open, request.promise.noise()
    bounds = float(facts.lattice.lower), float(facts.lattice.upper)
    look, every, users = (_look_at_bins if request.has_bins else _look_at_means)(
        request, outputs, decoded
    )
    users *= bounds[1] - bounds[0]
    sure, units = np.maximum(look.weight, 1.0), _units(request, look.weight, every[is_open])
    drift = GAUSSIAN_DRIFT if isinstance(law, Gaussian) else DRIFT
    drift *= SHARE_DRIFT if request.terms else 1.0
    design = CellDesign(
        units.astype(np.int64), 1.0 / units, 1.0 / units, WEIGHTING**2 / sure,
        np.full(sure.size, drift / WEIGHT_DRIFT),
    )  # fmt: skip
    when, place, slot = day_and_places(facts, history.day)
    where = when, place[is_open], slot[is_open]
    return summarize_day(where, [look], design, UserMeanSpread(0.0, users, users, users), bounds)

"""Averages with private presence that remember earlier days, as `publish` makes them.

Of each open cell the noisy weight W and balance D are a look at its average (`RatioLook`). Whether
a cell is open follows from its weight, so that a closed one says nothing about its average, and has
no likelihood. Weights stand for shares of records: w / p, p the cell's price, as a part of all.
What `cut_off_error` allows for in an interval of the day alone is in the likelihood as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.accounting.noise_law import Gaussian
from hexveil.accounting.promise import PARTS
from hexveil.learning.published_day import blank_day, summarize_day
from hexveil.learning.remembering import NORMAL_95, estimate_day
from hexveil.mechanisms.pooled_law import PooledLaw
from hexveil.mechanisms.presence.presence_decoding import (
    DRIFT,
    GAUSSIAN_DRIFT,
    MEAN_ABS_NORMAL,
    WEIGHTING,
)
from hexveil.mechanisms.presence.remembered_map import RememberedMap
from hexveil.planning.allocation import CellForecast
from hexveil.publishing.memory.history import (
    MOST_CELLS,
    History,
    alike,
    day_and_places,
    drawn_to_usual,
    forecast_or_none,
    memory_key,
    remember_or_none,
)
from hexveil.publishing.memory.stored_day import is_narrower, pack, statement_of
from hexveil.smoothing.user_mean_law import (
    WEIGHT_DRIFT,
    WITHIN_SHARE,
    CellDesign,
    RatioLook,
    UserMeanSpread,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hexveil.base.arrays import Floats
    from hexveil.learning.published_day import PublishedDay
    from hexveil.mechanisms.presence.presence_decoding import ReleasedMap
    from hexveil.mechanisms.stage_data import Outputs
    from hexveil.model.declared_grid import DeclaredFacts
    from hexveil.planning.presence.presence_plan import PresenceComponent
    from hexveil.publishing.memory.stored_day import Rows

ESTIMATED = ("mean", "mean_low", "mean_high")
SELDOM = 0.2
"""Part of the earlier days on which a cell is open at most, where nobody is expected."""
UNKNOWN = 1.5
"""Deviation of the forecast of a cell that was never open, in those of the others' forecasts."""


@dataclass(frozen=True, eq=False)
class RememberedAverages:
    """Averages of a day that remember earlier releases.

    Attributes
    ----------
    decoded : ReleasedMap
        With the estimates of the memory where their intervals are narrower.
    statement : dict
        The manifest's section.
    rows : ndarray
        Of `memory.npy`.
    """

    decoded: ReleasedMap
    statement: dict[str, Any]
    rows: Rows


def forecast_declared(facts: DeclaredFacts, history: History) -> CellForecast | None:
    """Return the forecast of a day's declared cells by the releases of earlier days.

    None without any, for a map that is too large, or where none can be computed.
    """
    earlier = alike(memory_key(facts), history)
    if not earlier or facts.grid.n_cells > MOST_CELLS:
        return None
    days, (day, place, slot) = (
        [one.published for one in earlier],
        day_and_places(facts, history.day),
    )
    names, n_cells = _names(place, slot), facts.grid.n_cells
    order, (n_open, weight) = np.argsort(names), np.zeros((2, n_cells))
    for published in days:
        own = _names(published.place, published.slot)
        rows = np.searchsorted(names[order], own)
        rows = order[np.minimum(rows, n_cells - 1)]
        is_here = names[rows] == own
        n_open[rows[is_here]] += 1
        weight[rows[is_here]] += 1.0 / published.share_squares[is_here]
    known = n_open > 0
    weight = np.where(n_open > SELDOM * len(days), weight / np.maximum(n_open, 1), 0.0)
    if not (weight > 0).any():
        return None
    users = float(np.exp(np.mean([np.log(one.user_deviation) for one in days])))
    squares = 1.0 / np.maximum(weight[known], 1.0)
    blank = blank_day((day, place[known], slot[known]), days[-1].bounds, users, squares)
    forecast = forecast_or_none(earlier, blank)
    if forecast is None:
        return None
    # A cell that was never open is like the others, as far as is known.
    away = float(np.hypot(np.std(forecast.mean), users))
    mean, deviation = np.full(n_cells, forecast.mean.mean()), np.full(n_cells, UNKNOWN * away)
    mean[known], deviation[known] = forecast.mean, forecast.deviation
    return CellForecast(mean, deviation, users, tuple(one.sha256 for one in earlier), weight)


def remember_averages(
    component: PresenceComponent, outputs: Outputs, decoded: ReleasedMap, history: History
) -> RememberedAverages | None:
    """Return the averages of a day with its memory; None for a map that is too large.

    Parameters
    ----------
    component : PresenceComponent
    outputs : Outputs
        Of all stages of the map.
    decoded : ReleasedMap
        By the day alone, in value units.
    history : History
    """
    facts, is_open = component.facts, decoded.is_open
    if facts.grid.n_cells > MOST_CELLS or not is_open.any():
        return None
    day = _summarize(component, outputs, decoded, history)
    key = memory_key(facts)
    earlier = alike(key, history)
    remembered = remember_or_none(day, earlier)
    forecast = None if remembered is None else remembered.forecast
    statement, rows = statement_of(day, key, earlier, remembered), pack(day, forecast, is_open)
    if forecast is None:
        return RememberedAverages(decoded, statement, rows)
    estimates, columns = estimate_day(day, forecast), dict(decoded.columns)
    today = {name: decoded[name][is_open] for name in ESTIMATED}
    better = dict(zip(ESTIMATED, (estimates.estimate, estimates.low, estimates.high), strict=True))
    used = is_narrower((estimates.low, estimates.high), (today["mean_low"], today["mean_high"]))
    for name in ESTIMATED:
        columns[name.replace("mean", "mean_today")] = decoded[name]
        columns[name] = np.full(is_open.size, np.nan)
        columns[name][is_open] = np.where(used, better[name], today[name])
    columns["mean_smoothed"] = np.where(is_open, columns["mean"], decoded["mean_smoothed"])
    error = {"mean": remembered_error(columns, decoded.error["mean"])}
    return RememberedAverages(replace(decoded, columns=columns, error=error), statement, rows)


def remembered_error(columns: Mapping[str, Floats], alone: Floats) -> Floats:
    """Return expected errors of averages: where they remember, by their intervals."""
    width, own = (
        columns[f"{name}_high"] - columns[f"{name}_low"] for name in ("mean", "mean_today")
    )
    return np.where(width < own, MEAN_ABS_NORMAL * width / (2.0 * NORMAL_95), alone)


def _names(place: np.typing.NDArray[np.str_], slot: np.typing.NDArray[np.int64]) -> Any:  # noqa: ANN401
    return np.char.add(np.char.add(place, "|"), slot.astype(str))


def _summarize(
    component: PresenceComponent, outputs: Outputs, decoded: ReleasedMap, history: History
) -> PublishedDay:
    """Return the published day of the open cells."""
    facts, is_open = component.facts, decoded.is_open
    allocation = component.request.of_map.mean_allocation()
    bounds = float(facts.lattice.lower), float(facts.lattice.upper)
    weight, difference, low, high = (
        decoded[name][is_open]
        for name in ("weight_noisy", "balance_noisy", "mean_range_low", "mean_range_high")
    )
    span, law = bounds[1] - bounds[0], allocation.law
    if isinstance(allocation, RememberedMap):
        users = allocation.within * span
    else:
        name, edges, votes = allocation.histogram(outputs)
        shape = PooledLaw.of(edges / PARTS, votes, allocation.histogram_law(name))
        part = 1.0 if allocation.form.coarse_share else WITHIN_SHARE
        measured = part * span * shape.middle_deviation
        users = drawn_to_usual(measured, shape, span, lambda law: law.middle_deviation)
    # A unit is in several cells, with a part of its weight in each.
    in_cells = component.request.cells_of_unit
    sure = np.maximum(weight, 1.0)
    drift = GAUSSIAN_DRIFT if isinstance(law, Gaussian) else DRIFT
    design = CellDesign(
        sure.astype(np.int64), 1.0 / sure / in_cells, 1.0 / sure / in_cells, WEIGHTING**2 / sure,
        np.full(sure.size, drift / WEIGHT_DRIFT),
    )  # fmt: skip
    scale = np.full(sure.size, law.scale / PARTS)
    look = RatioLook(difference, low, high, scale, isinstance(law, Gaussian), weight=weight)
    when, place, slot = day_and_places(facts, history.day)
    where = when, place[is_open], slot[is_open]
    day = summarize_day(where, [look], design, UserMeanSpread(0.0, users, users, users), bounds)
    natural = weight / allocation.fine_window(outputs).prices[is_open]
    natural = in_cells * np.maximum(natural * (weight.sum() / natural.sum()), 1.0)
    shares = (1.0 / natural).astype(np.float32).astype(np.float64)
    return replace(day, user_deviation=float(np.float32(users)), share_squares=shares)

"""Estimates of a day by the releases of earlier days, as `publish` makes them of its archive."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.learning.published_day import PublishedDay, summarize_day
from hexveil.learning.remembering import DayEstimates, Remembered, estimate_day, remember
from hexveil.mechanisms.stage_data import CutOff
from hexveil.publishing.memory.stored_day import (
    EarlierRelease,
    Rows,
    pack,
    places_of,
    statement_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    import pyarrow as pa

    from hexveil.base.arrays import Bools, Floats
    from hexveil.mechanisms.pooled_law import MeanView
    from hexveil.publishing.estimates.posterior_estimates import PosteriorEstimates

MOST_CELLS = 600
"""Cells of a day up to which it is remembered: the joint law of all cells grows with the square."""


@dataclass(frozen=True, eq=False)
class History:
    """The earlier releases of an archive.

    Attributes
    ----------
    day : date
        The day to be published.
    releases : tuple of EarlierRelease
        By date.
    """

    day: date
    releases: tuple[EarlierRelease, ...] = ()


@dataclass(frozen=True, eq=False)
class RememberedMeans:
    """Means of a day that remember earlier releases.

    Attributes
    ----------
    rows : ndarray
        Of `memory.npy`.
    statement : dict
        The manifest's section.
    posterior : PosteriorEstimates
        With the estimates of the memory where their intervals are narrower.
    today : mapping of str to ndarray
        Columns of the day's own estimates; empty without earlier releases.
    """

    rows: Rows
    statement: dict[str, Any]
    posterior: PosteriorEstimates
    today: dict[str, Floats]


def remember_means(
    view: MeanView, cells: pa.Table, posterior: PosteriorEstimates, history: History, key: str
) -> RememberedMeans | None:
    """Return the means of a day with its memory; None for a map that is too large.

    Parameters
    ----------
    view : MeanView
        All that the day's numbers show.
    cells : pyarrow.Table
        Columns that name the cells.
    posterior : PosteriorEstimates
        By the day alone.
    history : History
    key : str
        Value, bounds and grid.
    """
    if len(cells) > MOST_CELLS:
        return None
    when = (history.day.toordinal(), *places_of(cells))
    day = summarize_day(when, view.looks, view.design, view.spread, view.bounds)
    earlier = [release for release in history.releases if release.key == key]
    remembered = _remember(day, earlier)
    if remembered is None:
        return RememberedMeans(pack(day, None), statement_of(day, key, (), None), posterior, {})
    better, today = choose(posterior, estimate_day(day, remembered.forecast), view.bounds)
    statement = statement_of(day, key, earlier, remembered)
    return RememberedMeans(pack(day, remembered.forecast), statement, better, today)


def _remember(day: PublishedDay, earlier: Sequence[EarlierRelease]) -> Remembered | None:
    """Return the forecast of a day; None without earlier releases, or where none can be computed.

    Numbers are paid for when this runs: whatever they are, the day has to be published.
    """
    if not earlier:
        return None
    stated = next((release.deviations for release in earlier[::-1] if release.deviations), None)
    try:
        remembered = remember([*(release.published for release in earlier), day], stated)
    except np.linalg.LinAlgError:
        return None
    forecast = remembered.forecast
    is_sound = all(np.isfinite(numbers).all() for numbers in vars(forecast).values())
    return remembered if is_sound and (forecast.deviation > 0).all() else None


def choose(
    posterior: PosteriorEstimates, remembered: DayEstimates, bounds: tuple[float, float]
) -> tuple[PosteriorEstimates, dict[str, Floats]]:
    """Return the estimates with narrower intervals, and the columns of the day's own."""
    cut_off = posterior.cut_off
    low = np.where(cut_off.below, bounds[0], posterior.low)
    high = np.where(cut_off.above, bounds[1], posterior.high)
    used = is_narrower((remembered.low, remembered.high), (low, high))
    today = {"today": posterior.estimate, "today_low": low, "today_high": high}
    estimates = {
        name: np.where(used, getattr(remembered, name), getattr(posterior, name))
        for name in ("estimate", "low", "high", "expected_error")
    }
    cut_off = CutOff(cut_off.below & ~used, cut_off.above & ~used)
    return replace(posterior, **estimates, cut_off=cut_off), today


def is_narrower(remembered: tuple[Floats, Floats], alone: tuple[Floats, Floats]) -> Bools:
    """Return where the interval of the memory is narrower than the day's own."""
    return np.asarray(remembered[1] - remembered[0] < alone[1] - alone[0])

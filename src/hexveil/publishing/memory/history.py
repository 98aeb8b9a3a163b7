"""Estimates of a day by the releases of earlier days, as `publish` makes them of its archive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa

from hexveil.base.arrays import Bools, Floats
from hexveil.base.rational import decimal_text
from hexveil.learning.memory import Deviations, Forecast, usual_deviation
from hexveil.learning.published_day import PublishedDay, Where, blank_day, summarize_day
from hexveil.learning.remembering import (
    DayEstimates,
    Remembered,
    estimate_day,
    forecast_day,
    remember,
)
from hexveil.mechanisms.distribution.shape_statistics import SCORE_LATTICE
from hexveil.mechanisms.looks.user_weights import PRIOR_SD
from hexveil.mechanisms.pooled_law import MeanView, PooledLaw
from hexveil.mechanisms.stage_data import CutOff
from hexveil.model.declared_grid import DeclaredFacts
from hexveil.model.occupancy import Occupancy
from hexveil.model.pair_columns import FactoredWeights
from hexveil.model.public_metadata import PublicMetadata
from hexveil.planning.allocation import CellForecast
from hexveil.publishing.estimates.posterior_estimates import PosteriorEstimates
from hexveil.publishing.estimates.table import name_columns
from hexveil.publishing.memory.stored_day import (
    EarlierRelease,
    Rows,
    is_narrower,
    pack,
    places_of,
    statement_of,
    within_cells,
)
from hexveil.smoothing.user_mean_law import WITHIN_SHARE, CellDesign

MOST_CELLS = 600
"""Cells of a day up to which it is remembered: the time of the joint law grows faster than they."""


SCORE_SD = 0.25
"""Usual deviation of users' mean scores; of values it is `PRIOR_SD` of their span."""
LOG_USUAL_SD = 0.3
"""Deviation of the logarithm of users' deviations around the usual one."""


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


def forecast_cells(facts: PublicMetadata, history: History) -> CellForecast | None:
    """Return the forecast of a day's cells by the releases of earlier days, before it has numbers.

    None without any, for a map that is too large, or where none can be computed. It is made of
    published numbers, and of what is public of the day.
    """
    occupancy, earlier = facts.occupancy, alike(memory_key(facts), history)
    if not earlier or occupancy.n_cells > MOST_CELLS:
        return None
    days, when = [release.published for release in earlier], day_and_places(facts, history.day)
    users = usual_deviation(days)
    day = blank_day(when, days[-1].bounds, users, record_shares(occupancy))
    if (forecast := forecast_or_none(earlier, day)) is None:
        return None
    within = within_cells(earlier, forecast.mean, occupancy.users_per_cell)
    releases = tuple(release.sha256 for release in earlier)
    return CellForecast(forecast.mean, forecast.deviation, within, releases)


def forecast_or_none(earlier: Sequence[EarlierRelease], blank: PublishedDay) -> Forecast | None:
    """Return the forecast of a day without numbers; None where none can be computed."""
    days = [release.published for release in earlier]
    try:
        forecast = forecast_day(days, blank, _stated_deviations(earlier))
    except np.linalg.LinAlgError:
        return None
    return forecast if _is_sound(forecast) else None


def remember_means(
    view: MeanView, facts: PublicMetadata, posterior: PosteriorEstimates, history: History
) -> RememberedMeans | None:
    """Return the means of a day, estimated alone before, with its memory; None if too large."""
    memory = remember_view(view, facts, history)
    if memory is None:
        return None
    rows, statement, estimates = memory
    if estimates is None:
        return RememberedMeans(rows, statement, posterior, {})
    return RememberedMeans(rows, statement, *choose(posterior, estimates, view.bounds))


def remember_view(
    view: MeanView, facts: PublicMetadata, history: History
) -> tuple[Rows, dict[str, Any], DayEstimates | None] | None:
    """Return the file, the manifest's section, and estimates that remember; None if too large."""
    if facts.occupancy.n_cells > MOST_CELLS:
        return None
    if view.law is not None and (forecast := forecast_cells(facts, history)) is not None:
        # Ranges are bought: what is known of users is known from all days.
        view = replace(view, spread=replace(view.spread, within=forecast.within), law=None)
    when = day_and_places(facts, history.day)
    day = summarize_day(when, view.looks, view.design, view.spread, view.bounds)
    if view.law is not None:
        share = SCORE_SD if facts.lattice == SCORE_LATTICE else PRIOR_SD
        usual = WITHIN_SHARE * share * (view.bounds[1] - view.bounds[0])
        users = drawn_to_usual(day.user_deviation, view.law, usual, lambda law: law.deviation)
        # As it is published: whoever reads it computes the same.
        day = replace(day, user_deviation=float(np.float32(users)))
    return remember_day(day, facts, history)


def remember_day(
    day: PublishedDay,
    facts: PublicMetadata | DeclaredFacts,
    history: History,
    is_open: Bools | None = None,
) -> tuple[Rows, dict[str, Any], DayEstimates | None]:
    """Return the same of a published day, perhaps of open cells alone."""
    key = memory_key(facts)
    earlier = alike(key, history)
    remembered = _remember(day, earlier)
    if remembered is None:
        return pack(day, None, is_open), statement_of(day, key, (), None), None
    statement, forecast = statement_of(day, key, earlier, remembered), remembered.forecast
    return pack(day, forecast, is_open), statement, estimate_day(day, forecast)


def drawn_to_usual(
    measured: float, law: PooledLaw, usual: float, deviation: Callable[[PooledLaw], float]
) -> float:
    """Return a deviation of user means within a cell, drawn to the usual one by its own error.

    What noise of the pooled histogram does to the deviation of its law is known from repeats of it.
    At a small ε the first day alone would say anything, and later days have no histogram.
    """
    repeats = [deviation(PooledLaw(law.edges, share, law.draws)) for share in law.draws]
    away = np.log(np.array(repeats) / deviation(law))
    precision = 1.0 / max(float(np.mean(away**2)), 1e-6)
    pull = np.log(usual / measured) / (1.0 + precision * LOG_USUAL_SD**2)
    return measured * float(np.exp(pull))


def _remember(day: PublishedDay, earlier: Sequence[EarlierRelease]) -> Remembered | None:
    """Return the forecast of a day; None without earlier releases, or where none can be computed.

    Numbers are paid for when this runs: whatever they are, the day has to be published.
    """
    if not earlier:
        return None
    try:
        days = [*(release.published for release in earlier), day]
        remembered = remember(days, _stated_deviations(earlier))
    except np.linalg.LinAlgError:
        return None
    return remembered if _is_sound(remembered.forecast) else None


def _stated_deviations(earlier: Sequence[EarlierRelease]) -> Deviations | None:
    """Return the deviations of the newest release that states some."""
    return next((release.deviations for release in earlier[::-1] if release.deviations), None)


def _is_sound(forecast: Forecast) -> bool:
    is_finite = all(np.isfinite(numbers).all() for numbers in vars(forecast).values())
    return is_finite and bool((forecast.deviation > 0).all())


def day_and_places(facts: PublicMetadata | DeclaredFacts, day: date) -> Where:
    """Return the ordinal of a day, and place and slot of each cell."""
    return day.toordinal(), *places_of(pa.table(name_columns(facts.cells)))


def record_shares(occupancy: Occupancy) -> Floats:
    """Return Σp² of each cell, p the shares of users in its records."""
    # Weights by records alone: these sums do not depend on what a plan weighs by.
    even = FactoredWeights(occupancy, np.ones(occupancy.n_users), np.ones(occupancy.n_cells))
    return CellDesign.of(even).share_squares


def alike(key: str, history: History) -> list[EarlierRelease]:
    """Return the earlier releases of a key: of the same value, bounds and grid."""
    return [release for release in history.releases if release.key == key]


def memory_key(facts: PublicMetadata | DeclaredFacts) -> str:
    """Return the facts in which releases must agree that remember each other."""
    lattice = facts.lattice
    model = "" if isinstance(facts, PublicMetadata) else "; presence is private"
    unit = f"{facts.privacy_unit}{model}"
    bounds = f"{decimal_text(lattice.lower)}..{decimal_text(lattice.upper)}"
    return f"{facts.value} [{facts.value_unit}] {bounds} {unit} {facts.cells.grid!r}"


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

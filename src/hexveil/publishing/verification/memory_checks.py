"""Checks of estimates that remember earlier releases, from the folder alone.

`memory.npy` has the likelihood of each cell's average and the forecast that earlier releases gave;
both together are the published estimates, which are computed again here. That the forecast is that
of the releases named needs their folders.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from hexveil.learning.remembering import estimate_day
from hexveil.publishing.estimates.table import TODAY
from hexveil.publishing.memory.history import is_narrower
from hexveil.publishing.memory.stored_day import (
    FILE,
    forecast_of,
    from_bytes,
    places_of,
    unpack,
)
from hexveil.report.manifest_view import numbers_of

TOLERANCE = 1e-6
"""Relative: the last digits differ between processors."""
UNKNOWN = (
    f"the likelihoods in {FILE}, which need the users' weights, and the forecasts, which need the "
    "folders of the earlier days"
)


def check_memory(
    content: bytes | None, table: pa.Table, stated: Mapping[str, Any]
) -> Iterator[str]:
    """Yield estimates that are not those of forecast and likelihood.

    Parameters
    ----------
    content : bytes or None
        Of `memory.npy`; None where the folder has none.
    table : pyarrow.Table
    stated : mapping
        Statements of the value column.
    """
    memory = stated.get("memory")
    if (memory is None) != (content is None):
        yield f"manifest.json and the folder differ about {FILE}."
        return
    if memory is None or content is None:
        return
    try:
        rows = from_bytes(content, table.num_rows)
    except ValueError as error:
        yield f"{FILE} cannot be read: {error}."
        return
    days = [entry["day"] for entry in memory["releases"]]
    if days != sorted({*days}) or (days and days[-1] >= memory["day"]):
        yield "the releases that estimates rest on are not earlier days, in order."
    if bool(days) != (memory["deviations"] is not None):
        yield "the deviations of the memory and its releases do not belong together."
    if days:
        yield from _check_estimates(rows, table, stated)


def _check_estimates(rows: Any, table: pa.Table, stated: Mapping[str, Any]) -> Iterator[str]:  # noqa: ANN401
    """Yield if the estimates are not those of forecasts and likelihoods."""
    bounds = (float(Fraction(stated["bounds"][end])) for end in ("lower", "upper"))
    forecast = forecast_of(rows)
    sane = [np.isfinite(number).all() for number in vars(forecast).values()]
    if not all(sane) or not (forecast.deviation > 0).all():
        yield f"{FILE} has a forecast that is none."
        return
    lower, upper = bounds
    day = unpack(rows, places_of(table), stated["memory"], (lower, upper))
    remembered = estimate_day(day, forecast)
    today, low, high = (numbers_of(table, name) for name in TODAY)
    used = is_narrower((remembered.low, remembered.high), (low, high))
    for name, alone in (("estimate", today), ("low", low), ("high", high)):
        expected = np.where(used, getattr(remembered, name), alone)
        shown = numbers_of(table, f"mean_{name}")
        if not np.allclose(shown, expected, rtol=TOLERANCE, atol=TOLERANCE):
            yield f"mean_{name} is not that of the forecast and of the day's own number."
    if not ((low <= today + TOLERANCE) & (today <= high + TOLERANCE)).all():
        yield "mean_today is outside mean_today_low and mean_today_high."

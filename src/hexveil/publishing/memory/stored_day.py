"""File of a release for later days, and for those who check its estimates: `memory.npy`.

A row per cell, in the order of the table: the likelihood of its average in bins, and the forecast
that earlier days gave for it. The manifest states the rest. Both are made of published numbers and
public facts, and are enough to compute the estimates again, as a recipient does here. That the
forecast is that of the releases named needs their folders.
"""

import hashlib
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import date
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from hexveil.base.arrays import Bools, Floats, Ints
from hexveil.learning.memory import Deviations, Forecast, usual_deviation
from hexveil.learning.published_day import BINS, PublishedDay, blank_day
from hexveil.learning.remembering import OWN_SHARE, Remembered, estimate_day
from hexveil.mechanisms.distribution.tilted_shapes import N_TERMS
from hexveil.publishing.estimates.table import TODAY
from hexveil.report.manifest_view import numbers_of
from hexveil.smoothing.user_mean_law import WITHIN_SHARE

Rows = np.typing.NDArray[np.void]
FILE = "memory.npy"
HEADER = 1024
"""Bytes of the file's head, at most."""
LEAST_WITHIN = 0.35
"""Least deviation of users within a cell, as a part of that of all users."""
_FORECAST = tuple(field.name for field in fields(Forecast))
ROW = np.dtype(
    [
        ("share_squares", "<f4"),
        ("lasting", "<f4"),
        ("edges", "<f4", (BINS + 1,)),
        ("density", "<f4", (BINS,)),
        *((name, "<f8") for name in _FORECAST),
    ]
)


@dataclass(frozen=True, eq=False)
class PublishedBins:
    """Noisy bins of the open cells of a day with private presence.

    Attributes
    ----------
    noisy : ndarray of float, shape (n_cells, n_bins)
        In units.
    place : ndarray of int64, shape (n_fine_bins,)
    noise : float
        Standard deviation of the noise of each.
    """

    noisy: Floats
    place: Ints
    noise: float


@dataclass(frozen=True)
class EarlierRelease:
    """A release of an earlier day, as it was published.

    Attributes
    ----------
    day : str
        ISO date.
    request : str
        Fingerprint of its public request.
    sha256 : str
        Of its `memory.npy`.
    published : PublishedDay
    deviations : Deviations or None
        Those that the next day begins with.
    key : str
        Value, bounds and grid: only releases that agree in them remember each other.
    shape : mapping, optional
        Of mean ranks: the distribution that they are ranks in. Of bins: that they are placed by.
    bins : PublishedBins, optional
    """

    day: str
    request: str
    sha256: str
    published: PublishedDay
    deviations: Deviations | None
    key: str
    shape: Mapping[str, Any] | None = None
    bins: PublishedBins | None = None

    def identity(self) -> dict[str, str]:
        """Return how a manifest names it."""
        return {"day": self.day, "request": self.request, "sha256": self.sha256}


def within_cells(earlier: Sequence[EarlierRelease], means: Floats, users: Ints) -> float:
    """Return users' deviation within a cell, by that of all users and by the means of cells.

    That of all users was measured on days without a memory; what cells differ by, each with its
    users, is no part of it. Where little is known of cells their forecasts differ less than they do
    themselves, so that the deviation is rather too large.
    """
    first = [release.published for release in earlier if release.deviations is None]
    if not first:
        return usual_deviation([release.published for release in earlier])
    pooled = usual_deviation(first) / WITHIN_SHARE
    between = float(np.cov(means, fweights=users, bias=True))
    return math.sqrt(max(pooled**2 - between, (LEAST_WITHIN * pooled) ** 2))


def pack(day: PublishedDay, forecast: Forecast | None, is_open: Bools | None = None) -> Rows:
    """Return the rows of the file; a day without earlier ones has no forecast.

    Where presence is private the day has the open cells alone: rows of others say nothing.
    """
    rows = np.zeros(day.slot.size, dtype=ROW)
    for name in ("share_squares", "lasting", "edges", "density"):
        rows[name] = getattr(day, name)
    for name in _FORECAST:
        rows[name] = np.nan if forecast is None else getattr(forecast, name)
    if is_open is None:
        return rows
    every = np.zeros(is_open.size, dtype=ROW)
    every["density"] = 1.0
    every[is_open] = rows
    return every


def forecast_of(rows: Rows) -> Forecast:
    """Return the forecast in the rows of a file."""
    return Forecast(*(np.array(rows[name]) for name in _FORECAST))


def to_bytes(rows: Rows) -> bytes:
    """Return the content of the file."""
    file = io.BytesIO()
    np.lib.format.write_array(file, rows, version=(1, 0), allow_pickle=False)
    return file.getvalue()


def row_of(memory: Mapping[str, Any]) -> Any:  # noqa: ANN401  a type of numpy
    """Return the type of the rows of a file, by the manifest's section."""
    if "bins" not in memory:
        return ROW
    bins = ("bins", "<f8", (max(memory["bins"]) + 1,))
    tilts = ("alpha", "<f8", (N_TERMS,)), ("covariance", "<f8", (N_TERMS, N_TERMS))
    return np.dtype([("share_squares", "<f4"), bins, *tilts])


def from_bytes(content: bytes, n_cells: int, memory: Mapping[str, Any]) -> Rows:
    """Return the rows of a file that anyone may have written; `memory` is the manifest's section.

    Raises
    ------
    ValueError
        If it has not a row of finite numbers for each cell.
    """
    # Compared before it is read: a head could state any size.
    row = row_of(memory)
    if not n_cells * row.itemsize < len(content) <= n_cells * row.itemsize + HEADER:
        raise ValueError("its size is not that of the cells")
    rows = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    if rows.dtype != row or rows.shape != (n_cells,):
        raise ValueError("its rows are not those of the cells")
    if row != ROW:
        if not all(np.isfinite(rows[name]).all() for name in row.names):
            raise ValueError("it has a number that is not finite")
        return rows
    if not all(np.isfinite(rows[name]).all() for name in ("share_squares", "lasting", "edges")):
        raise ValueError("it has a number that is not finite")
    if not (np.diff(rows["edges"]) >= 0).all():
        raise ValueError("it has bins out of order")
    if not ((rows["density"] > 0) & (rows["density"] <= 1)).all():
        raise ValueError("it has a likelihood that is none")
    return rows


def unpack(
    rows: Rows,
    places: tuple[np.typing.NDArray[np.str_], Ints],
    statement: Mapping[str, Any],
    bounds: tuple[float, float],
) -> PublishedDay:
    """Return the day of a file's rows.

    Parameters
    ----------
    rows : ndarray
    places : pair of ndarray
        Place and slot of each cell of the rows; see `places_of`.
    statement : mapping
        The manifest's section `memory`.
    bounds : pair of float
        Of the values.
    """
    numbers = (
        rows[name].astype(np.float64) for name in ("share_squares", "edges", "density", "lasting")
    )
    day = date.fromisoformat(statement["day"]).toordinal()
    return PublishedDay(day, *places, bounds, float(statement["user_deviation"]), *numbers)


def places_of(table: pa.Table) -> tuple[np.typing.NDArray[np.str_], Ints]:
    """Return the place of each cell of a table, and the start of its slot in seconds of the day."""
    if "hexagon" not in table.column_names:
        return np.array(table["cell"].to_pylist(), dtype=str), np.zeros(len(table), dtype=np.int64)
    place = np.array(table["hexagon"].to_pylist(), dtype=str)
    if "slot" not in table.column_names:
        return place, np.zeros(place.size, dtype=np.int64)
    clocks = [text[-5:].split(":") for text in table["slot"].to_pylist()]
    return place, np.array([3600 * int(h) + 60 * int(m) for h, m in clocks], dtype=np.int64)


def statement_of(
    day: PublishedDay, key: str, earlier: Sequence[EarlierRelease], remembered: Remembered | None
) -> dict[str, Any]:
    """Return the manifest's section `memory`."""
    return {
        "key": key,
        "day": date.fromordinal(day.day).isoformat(),
        "user_deviation": day.user_deviation,
        "own_share": OWN_SHARE,
        "deviations": None if remembered is None else asdict(remembered.deviations),
        "changes": 0 if remembered is None else len(remembered.changes),
        "releases": [release.identity() for release in earlier],
    }


def read_earlier(manifest: Mapping[str, Any], table: pa.Table, content: bytes) -> EarlierRelease:
    """Return an earlier release by its files.

    Raises
    ------
    ValueError, KeyError, TypeError
        If they are not those of a release that can be remembered.
    """
    stated = component_of(manifest)
    memory, bounds = stated["memory"], stated["bounds"]
    deviations = memory.get("deviations")
    ends = float(Fraction(bounds["lower"])), float(Fraction(bounds["upper"]))
    ends = (0.0, 1.0) if has_scores(stated) else ends
    is_open = open_rows(table)
    rows, (place, slot) = from_bytes(content, table.num_rows, memory)[is_open], places_of(table)
    place, slot, bins = place[is_open], slot[is_open], None
    if "bins" in memory:
        when = date.fromisoformat(memory["day"]).toordinal(), place, slot
        day = blank_day(when, ends, 1.0, rows["share_squares"].astype(np.float64))
        bins = PublishedBins(rows["bins"], np.array(memory["bins"]), float(memory["noise"]))
        if np.unique(bins.place).size != rows["bins"].shape[1] or bins.place.min() < 0:
            raise ValueError("its bins are none")
    else:
        day = unpack(rows, (place, slot), memory, ends)
    return EarlierRelease(
        memory["day"],
        manifest["request"],
        hashlib.sha256(content).hexdigest(),
        day,
        None if deviations is None else Deviations(**deviations),
        memory["key"],
        memory.get("shape"),
        bins,
    )


def has_scores(stated: Mapping[str, Any]) -> bool:
    """Return whether a release remembers mean scores, from 0 to 1, and not averages."""
    return stated["kind"] == "distributions" or "bins" in stated["plan"]


def may_have_bins(stated: Mapping[str, Any]) -> bool:
    """Return whether cells of a map with private presence were measured by bins."""
    plan = stated["plan"]
    return stated["kind"] == "presence" and "bins" in plan and "within" not in plan


def open_rows(table: pa.Table) -> Bools:
    """Return which cells have numbers: all, but where presence is private."""
    if "is_open" in table.column_names:
        return np.array(table["is_open"].to_pylist(), dtype=bool)
    return np.ones(len(table), dtype=bool)


def component_of(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the statements of the first value column of a manifest."""
    component: Mapping[str, Any] = manifest["components"][0]
    return component


def memory_of(manifest: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the manifest's section `memory`; None without one."""
    memory: dict[str, Any] | None = component_of(manifest).get("memory")
    return memory


def parse_note(content: Any) -> list[dict[str, str]]:  # noqa: ANN401  JSON
    """Parse a note of earlier releases; raise KeyError or TypeError if it is another."""
    return [{key: str(entry[key]) for key in ("day", "request", "sha256")} for entry in content]


# ---- checks of a folder ----

DRAFT_OWN_SHARE = 0.6
TOLERANCE = 1e-6
"""Relative: the last digits differ between processors."""


def describe_unchecked(memory: Mapping[str, Any]) -> str:
    """Return what of a file cannot be checked, in words."""
    own = "" if "bins" in memory else "the likelihoods, which need the users' weights, and "
    return f"in {FILE} {own}the forecasts, which need the folders of the earlier days"


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
    if "bins" in memory and not may_have_bins(stated):
        yield "the memory has bins, and the release has none to remember."
        return
    try:
        rows = from_bytes(content, table.num_rows, memory)
    except ValueError as error:
        yield f"{FILE} cannot be read: {error}."
        return
    days = [entry["day"] for entry in memory["releases"]]
    if days != sorted({*days}) or (days and days[-1] >= memory["day"]):
        yield "the releases that estimates rest on are not earlier days, in order."
    if "bins" in memory:  # see publishing/kinds/presence_checks.py
        return
    if bool(days) != (memory["deviations"] is not None):
        yield "the deviations of the memory and its releases do not belong together."
    if days:
        yield from _check_estimates(rows, table, stated)


def own_share_of(memory: Mapping[str, Any]) -> float:
    """Return the part of users' sampling that intervals have room for; drafts state none."""
    return float(memory.get("own_share", DRAFT_OWN_SHARE))


def _check_estimates(rows: Any, table: pa.Table, stated: Mapping[str, Any]) -> Iterator[str]:  # noqa: ANN401
    """Yield if the estimates are not those of forecasts and likelihoods."""
    lower, upper = (float(Fraction(stated["bounds"][end])) for end in ("lower", "upper"))
    is_open, is_private = open_rows(table), stated["kind"] == "presence"
    rows, table = rows[is_open], table.filter(is_open)
    forecast = forecast_of(rows)
    sane = [np.isfinite(number).all() for number in vars(forecast).values()]
    if not all(sane) or not (forecast.deviation > 0).all():
        yield f"{FILE} has a forecast that is none."
        return
    if has_scores(stated):  # see publishing/kinds/distribution_checks.py
        return
    day = unpack(rows, places_of(table), stated["memory"], (lower, upper))
    remembered = estimate_day(day, forecast, own_share_of(stated["memory"]))
    today, low, high = (numbers_of(table, name) for name in TODAY)
    used = is_narrower((remembered.low, remembered.high), (low, high)) | is_private
    for name, alone in (("estimate", today), ("low", low), ("high", high)):
        expected = np.where(used, getattr(remembered, name), alone)
        column = "mean" if is_private and name == "estimate" else f"mean_{name}"
        shown = numbers_of(table, column)
        if not np.allclose(shown, expected, rtol=TOLERANCE, atol=TOLERANCE):
            yield f"{column} is not that of the forecast and of the day's own number."
    if not ((low <= today + TOLERANCE) & (today <= high + TOLERANCE)).all():
        yield "mean_today is outside mean_today_low and mean_today_high."


def is_narrower(remembered: tuple[Floats, Floats], alone: tuple[Floats, Floats]) -> Bools:
    """Return where the interval of the memory is narrower than the day's own."""
    return np.asarray(remembered[1] - remembered[0] < alone[1] - alone[0])

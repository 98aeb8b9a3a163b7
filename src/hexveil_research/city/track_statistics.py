"""How alike the simulated city and real records are: named statistics, side by side.

All of them are taken of tracks: tables of user_id, lat, lon, timestamp (an instant) and value
(km/h), one row per user and time. To compare like with like, cut the city to the minutes of the day
of the real records first (`same_minutes`); the number of users and the time from fix to fix are
arguments of the city.

The statistics, each by its 10, 25, 50, 75 and 90 % quantiles and its maximum:

- records per user;
- users per cell and cells per user, where a cell is an H3 hexagon (resolutions 7 and 8) in an hour
  of the local clock;
- the speed, if above 0; the share of speeds that are exactly 0 is a quantity of its own;

and the autocorrelation of speed: Pearson's correlation, over all users, of a record with the same
user's record nearest to so much later (at most a quarter off).

The ratio is city / real. Statistics of private records are private: a ratio of a public thing to a
private one is, too. Nothing here prints or writes.

Is the simulated city like real ones? Cities as large as Surat's and Warsaw's, and the verdict.

A real set is named for the file of its records. The city that is set beside it has as many buses on
the streets, a fix as often, and is cut to the same minutes of the day. A number of the city holds
if it is within a factor of two of either set's.

Only ratios leave `verdict`; the tables that it takes hold quantiles of the real records. As anybody
can simulate the city, a ratio in many digits tells the real number: print two.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hexveil.base import hexagons
from hexveil.simulation.city import TIMEZONE, City

Row = tuple[str, float | None, float]

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
LAGS = {"12 s": 12, "30 s": 30, "1 min": 60, "2 min": 120, "5 min": 300}
RESOLUTIONS = (7, 8)
SLACK = 0.25
"""How much nearer or farther than a lag a pair of records may be, as a share of it."""

MINUTE, HOUR, MINUTES = 60_000_000, 3_600_000_000, 1_440
"""In microseconds; minutes of a day."""

_SCHEMA = pa.schema(
    [
        ("statistic", pa.string()),
        ("quantile", pa.float64()),
        ("city", pa.float64()),
        ("real", pa.float64()),
        ("ratio", pa.float64()),
    ]
)


def tracks(records: pa.Table) -> pa.Table:
    """Return the tracks in records of the city, those sent twice once."""
    pairs = pc.struct_field(records["location"].combine_chunks(), "coordinates")
    plates = records["license_plate"].combine_chunks()
    table = pa.table(
        {
            "user_id": plates.dictionary_decode() if records.num_rows else plates,
            # GeoJSON order: longitude first.
            "lat": pc.list_element(pairs, 1),
            "lon": pc.list_element(pairs, 0),
            "timestamp": records["observationDateTime"],
            "value": records["speed"],
        }
    ).sort_by([("user_id", "ascending"), ("timestamp", "ascending")])
    user, unix = _users(table), _seconds(table)
    # A feed may send a fix twice: the first row of each user and time stays.
    new = np.append(np.ones(1, bool), (np.diff(user) != 0) | (np.diff(unix) != 0))[: user.size]
    return table.filter(pa.array(new))


def same_minutes(
    city: pa.Table, real: pa.Table, *, city_timezone: str, real_timezone: str
) -> pa.Table:
    """Return the city's tracks in those minutes of the day in which the real tracks have records.

    Parameters
    ----------
    city, real : pyarrow.Table
        Tracks.
    city_timezone, real_timezone : str
        Of the local clocks, as "Asia/Kolkata".
    """
    observed = np.zeros(MINUTES, dtype=bool)
    observed[_clock(real, real_timezone) // MINUTE % MINUTES] = True
    return city.filter(pa.array(observed[_clock(city, city_timezone) // MINUTE % MINUTES]))


def statistics(tracks: pa.Table, timezone: str) -> pa.Table:
    """Return every statistic of some tracks: statistic, quantile (null where it has none), value.

    Parameters
    ----------
    tracks : pyarrow.Table
        Columns user_id, lat, lon, timestamp and value.
    timezone : str
        Of the local clock, as "Asia/Kolkata".
    """
    rows = [*_counted(tracks, timezone), *_of_speed(tracks), *_autocorrelation(tracks)]
    names = ("statistic", "quantile", "value")
    return pa.table(dict(zip(names, map(pa.array, zip(*rows, strict=True)), strict=True)))


def comparison(
    city: pa.Table, real: pa.Table, *, city_timezone: str, real_timezone: str
) -> pa.Table:
    """Return every statistic of two tracks, and city / real.

    Two zeros have the ratio 1; a zero beside another number has 0 or infinity.

    Parameters
    ----------
    city, real : pyarrow.Table
        Tracks, cut to the same hours of the day.
    city_timezone, real_timezone : str
        Of the local clocks.
    """
    ours, theirs = statistics(city, city_timezone), statistics(real, real_timezone)
    a, b = (np.asarray(table["value"], dtype=np.float64) for table in (ours, theirs))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where((a == 0) & (b == 0), 1.0, a / b)
    return pa.table([ours["statistic"], ours["quantile"], a, b, ratio], schema=_SCHEMA)


def _counted(tracks: pa.Table, timezone: str) -> Iterator[Row]:
    """Yield the counted statistics: records per user, users per cell, cells per user."""
    user = _users(tracks)
    yield from _quantiles("records per user", np.bincount(user))
    hour = _clock(tracks, timezone) // HOUR
    for resolution in RESOLUTIONS:
        lat, lon = (tracks[name].combine_chunks() for name in ("lat", "lon"))
        hexagon = np.asarray(hexagons.of_places(lat, lon, resolution))
        rows = pa.table({"hexagon": hexagon, "hour": hour, "user": user})
        pairs = rows.group_by(rows.column_names).aggregate([])
        cells = pairs.group_by(["hexagon", "hour"]).aggregate([([], "count_all")])
        yield from _quantiles(f"users per cell, resolution {resolution}", cells["count_all"])
        yield from _quantiles(
            f"cells per user, resolution {resolution}", np.bincount(pairs["user"])
        )


def _of_speed(tracks: pa.Table) -> Iterator[Row]:
    speed = np.asarray(tracks["value"])
    yield "share of speeds that are 0", None, float(np.mean(speed == 0))
    yield from _quantiles("speed above 0", speed[speed > 0])


def _autocorrelation(tracks: pa.Table) -> Iterator[Row]:
    """Yield the correlation of speeds so many seconds apart; nan where there is none."""
    user, unix, speed = _users(tracks), _seconds(tracks), np.asarray(tracks["value"])
    order = np.lexsort((unix, user))
    user, unix, speed = user[order], unix[order], speed[order]
    # All users on one axis, too far apart for a pair of records to be of two of them.
    far = 4 * (max(LAGS.values()) + float(np.ptp(unix) if unix.size else 0))
    place = user * far + (unix - unix.min() if unix.size else 0)
    for name, lag in LAGS.items():
        index = np.clip(np.searchsorted(place, place + lag), 1, place.size - 1)
        # The insertion point is the later neighbour of the lagged time; take the nearer of the two.
        index -= place[index] - place - lag > place + lag - place[index - 1]
        paired = np.abs(place[index] - place - lag) <= SLACK * lag
        value = _correlation(speed[paired], speed[index[paired]])
        yield f"autocorrelation of speed after {name}", None, value


def _correlation(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Return Pearson's correlation; nan where there is none, as of numbers all alike."""
    if a.size < 2 or not np.ptp(a) or not np.ptp(b):
        return float("nan")
    return float(np.corrcoef(a, b)[0, 1])


def _quantiles(name: str, numbers: NDArray[np.number] | pa.ChunkedArray) -> list[Row]:
    quantiles = np.quantile(numbers, QUANTILES)
    return [
        (name, share, float(number)) for share, number in zip(QUANTILES, quantiles, strict=True)
    ]


def _users(tracks: pa.Table) -> NDArray[np.int64]:
    """Return a number for each row's user, from 0 on without gaps."""
    return np.unique(np.asarray(tracks["user_id"]), return_inverse=True)[1]


def _seconds(tracks: pa.Table) -> NDArray[np.float64]:
    """Return Unix times."""
    return (
        np.asarray(pc.cast(tracks["timestamp"].cast(pa.timestamp("us", "UTC")), pa.int64())) / 1e6
    )


def _clock(tracks: pa.Table, timezone: str) -> NDArray[np.int64]:
    """Return the local clock's date and time, as microseconds since 1970 began on it."""
    local = pc.local_timestamp(tracks["timestamp"].cast(pa.timestamp("us", timezone)))
    return np.asarray(pc.cast(local, pa.int64()))


WITHIN = 2.0
"""The factor that a number of the city may be off."""


@dataclass(frozen=True)
class Counterpart:
    """The simulated city that is set beside a set of real records.

    Attributes
    ----------
    users : int
        Of the city; in Warsaw's hours some two thirds are on the streets, as many as Warsaw's.
    interval : int
        Seconds between two fixes.
    start : datetime.date
        The simulated day.
    timezone : str
        Of the real records.
    """

    users: int
    interval: int
    start: dt.date
    timezone: str


COUNTERPARTS = {
    "surat_itms": Counterpart(311, 10, dt.date(2022, 1, 1), "Asia/Kolkata"),
    "warsaw_buses": Counterpart(2_300, 12, dt.date(2024, 2, 19), "Europe/Warsaw"),
}
"""By the name of the file of real records, without its suffix."""


def compare(name: str, real: pa.Table, seed: int = 1) -> pa.Table:
    """Return the statistics of a city beside those of a real set of records.

    See `comparison`.

    Parameters
    ----------
    name : str
        Key of `COUNTERPARTS`.
    real : pyarrow.Table
        The set's records: user_id, lat, lon, timestamp, value (km/h).
    seed : int
        Of the city.
    """
    beside = COUNTERPARTS[name]
    zones = {"city_timezone": TIMEZONE, "real_timezone": beside.timezone}
    city = City(beside.users, 1, seed, beside.interval, beside.start)
    sent = (tracks(pa.Table.from_batches([batch])) for batch in city.batches())
    sample = pa.concat_tables(same_minutes(track, real, **zones) for track in sent)
    return comparison(sample, real, **zones)


def verdict(comparisons: Mapping[str, pa.Table]) -> pa.Table:
    """Return all ratios, and whether one of each row is within a factor of two.

    Parameters
    ----------
    comparisons : mapping of str to pyarrow.Table
        By name of the real set, all with the same rows.

    Returns
    -------
    pyarrow.Table
        Columns statistic, quantile, one for each set (city / real), and holds.
    """
    tables = list(comparisons.values())
    ratios = np.stack([np.asarray(table["ratio"]) for table in tables])
    # Real cities differ from each other as well, so likeness to one of them is enough.
    holds = ((ratios >= 1 / WITHIN) & (ratios <= WITHIN)).any(axis=0)
    columns = {name: tables[0][name] for name in ("statistic", "quantile")}
    columns |= dict(zip(comparisons, ratios, strict=True))
    return pa.table(columns | {"holds": holds})

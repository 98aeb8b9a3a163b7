"""Is the simulated city like real ones? Cities as large as Surat's and Warsaw's, and the verdict.

A real set is named for the file of its records. The city that is set beside it has as many buses on
the streets, a fix as often, and is cut to the same minutes of the day. A number of the city holds
if it is within a factor of two of either set's.

Only ratios leave `verdict`; the tables that it takes hold quantiles of the real records. As anybody
can simulate the city, a ratio in many digits tells the real number: print two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hexveil.simulation.city import City
from hexveil.simulation.city.feed import TIMEZONE
from hexveil_research.city import track_statistics

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
    start : str
        The simulated day.
    timezone : str
        Of the real records.
    """

    users: int
    interval: int
    start: str
    timezone: str


COUNTERPARTS = {
    "surat_itms": Counterpart(311, 10, "2022-01-01", "Asia/Kolkata"),
    "warsaw_buses": Counterpart(2_300, 12, "2024-02-19", "Europe/Warsaw"),
}
"""By the name of the file of real records, without its suffix."""


def compare(name: str, real: pa.Table, seed: int = 1) -> pa.Table:
    """Return the statistics of a city beside those of a real set of records.

    See `track_statistics.comparison`.

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
    city = City(beside.users, 1, seed, beside.start, beside.interval)
    tracks = (track_statistics.tracks(pa.Table.from_batches([batch])) for batch in city.batches())
    sample = pa.concat_tables(
        track_statistics.same_minutes(track, real, **zones) for track in tracks
    )
    return track_statistics.comparison(sample, real, **zones)


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

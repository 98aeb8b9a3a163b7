"""A small invented feed, for first steps without records."""

from __future__ import annotations

import pyarrow as pa

from hexveil.base.errors import InputError
from hexveil.simulation.city import City

CITY = City(users=300, days=7, seed=1, interval="5min")


def example(name: str = "buses") -> pa.Table:
    """Return an invented feed: a week of 300 buses, a record every five minutes.

    The same records each time. Nothing in it is real; `hexveil simulate` makes longer ones.

    Parameters
    ----------
    name : "buses"

    Returns
    -------
    pyarrow.Table
        175,519 rows: bus (str), time (timestamp, UTC+5:30), lat, lon (degrees), speed (km/h, at
        most 65), line (str).

    Raises
    ------
    InputError
        For another name.

    Examples
    --------
    >>> example("buses").column_names
    ['bus', 'time', 'lat', 'lon', 'speed', 'line']
    """
    if name != "buses":
        raise InputError(f"there is one example, 'buses', and none called {name!r}.")
    feed = pa.Table.from_batches(CITY.batches())
    places = feed["location"].combine_chunks().field("coordinates").flatten()
    return pa.table(
        {
            "bus": feed["license_plate"].cast(pa.string()),
            "time": feed["observationDateTime"],
            "lat": places[1::2],
            "lon": places[::2],
            "speed": feed["speed"],
            "line": feed["route_id"].cast(pa.string()),
        }
    )

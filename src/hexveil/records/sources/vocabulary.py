"""Known column names, which tell a header from a record and one role from another.

A name is split into words and is known if all of its words are, so that it contains no id and no
value: "location.coordinates", "PM2.5" and "vehicle_id" are known; "bus 1", which may be a vehicle,
and "speed_of_kr7731" are not.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

PHRASES: Mapping[str, tuple[str, ...]] = {
    "lat": ("latitude", "lat"),
    "lon": ("longitude", "lon", "lng", "long"),
    "location": (
        "location coordinates", "coordinates", "location", "position", "geo point", "geometry",
        "geom", "point",
    ),
    "time": (
        "observation date time", "observed at", "observation time", "timestamp", "date time",
        "event time", "recorded at", "time", "ts", "time hour", "date observed", "date",
    ),
    "user": (
        "license plate", "licence plate", "number plate", "plate", "registration", "vehicle id",
        "bus id", "vehicle number", "vehicle no", "vehicle", "bus", "tram", "tail num",
        "tail number", "fleet number", "user id", "user", "device id", "device", "imei",
        "sensor id", "uid", "icao 24", "mmsi", "icao", "vehicle label",
        "vehicle plate identifier", "fleet vehicle id",
        "ref vehicle", "ref device", "taxi id", "taxi", "cab id", "cab", "car id", "car",
        "truck id", "truck no", "truck", "bike id", "bike", "train id", "train", "traj id",
        "track id", "station id", "id",
    ),
    "value": (
        "speed", "velocity", "speed kmh", "ground speed", "speed over ground", "sog", "pm 25",
        "pm 10", "no 2", "o 3", "so 2", "co 2", "aqi", "temperature", "humidity", "noise",
        "concentration", "value", "reading", "measurement",
        "delay",
    ),
    "labels": (
        "ward", "zone", "district", "area", "route id", "route", "line", "stop id", "stop",
        "station", "hour",
    ),
}  # fmt: skip
"""Words that columns of a role are called by, the likelier first."""

_SPOKEN = {word for phrases in PHRASES.values() for name in phrases for word in name.split()}
_KNOWN = {word for word in _SPOKEN if not word.isdigit()} | {
    *("last", "first", "current", "start", "end", "arrival", "departure", "actual", "trip", "gps"),
    *("data", "properties", "attributes", "observation", "timestamp", "kmh", "kph", "mph", "avg"),
    *("mean", "type", "name", "wgs", "object"),
}
_ENVELOPES = {
    *("results", "result", "data", "records", "features", "items", "vehicles", "entities"),
    *(
        "entity",
        "observations",
        "measurements",
        "readings",
        "rows",
        "list",
        "response",
        "payload",
        "content",
    ),
    *("body", "positions", "points", "buses", "feed", "values", "message", "objects", "d"),
}
"""Keys under which documents hold lists of records."""
_QUALITIES = {
    *("type", "class", "category", "kind", "model", "make", "brand", "length", "width", "height"),
    *("weight", "capacity", "colour", "color", "status", "state", "mode", "count", "speed", "year"),
}
"""Last words of names that say something of a vehicle, and not which one it is."""
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_PLAIN = re.compile(r"[A-Za-z0-9 _./:-]+")
_NUMBERED = re.compile(
    r"^no 2\b|\b(?:icao 24|pm (?:1|10|25|2 5)|(?:so|co) 2|o 3|wgs 84"
    r"|(?:coordinates|location|position|point|geometry|geom) [01])\b"
)
"""Numbers that belong to a column name. Any other number may be part of a vehicle's id."""


def words(name: str) -> list[str]:
    """Return the words of a name, in small letters.

    Examples
    --------
    >>> words("observationDateTime"), words("PM2.5")
    (['observation', 'date', 'time'], ['pm', '2', '5'])
    """
    return [word.lower() for word in _WORD.findall(name)]


def is_known_name(name: str) -> bool:
    """Return whether a name consists of known words.

    Examples
    --------
    >>> [is_known_name(name) for name in ("vehicle_id", "PM2.5", "bus 1", "kr7731")]
    [True, True, False, False]
    """
    name_words = words(name)
    # Other letters are not split into words, and so could hide an id between known ones.
    if not name_words or not _PLAIN.fullmatch(name):
        return False
    return _KNOWN.issuperset(_NUMBERED.sub("", " ".join(name_words)).split())


def is_quality(name: str) -> bool:
    """Return whether a name says something of a user, and not which one it is.

    Examples
    --------
    >>> is_quality("vehicle_type"), is_quality("vehicle_id")
    (True, False)
    """
    return words(name)[-1:] != [] and words(name)[-1] in _QUALITIES


def is_time_name(name: str) -> bool:
    """Return whether a name is one of times or dates."""
    return not {"time", "timestamp", "date", "datetime", "ts"}.isdisjoint(words(name))


def is_place_name(name: str) -> bool:
    """Return whether a name is one of latitudes or longitudes."""
    return words(name)[-1:] != [] and words(name)[-1] in (*PHRASES["lat"], *PHRASES["lon"])


def day_and_time(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of names, of a date and a time of day, that are alike but for this word.

    Examples
    --------
    >>> list(day_and_time(["gps_date", "speed", "gps_time"]))
    [('gps_date', 'gps_time')]
    """
    spoken = [(name, words(name)) for name in names]
    for day, of_day in spoken:
        for clock, of_clock in spoken:
            alike = of_day[:-1] == of_clock[:-1]
            if alike and of_day[-1:] in (["date"], ["day"]) and of_clock[-1:] == ["time"]:
                yield day, clock


def is_envelope(path: str) -> bool:
    """Return whether a path of keys is known to lead to a list of records.

    Examples
    --------
    >>> [is_envelope(path) for path in ("results", "data.vehicles", "data.kr7731")]
    [True, True, False]
    """
    return all(key.lower() in _ENVELOPES for key in path.split("."))


def is_id_name(name: str) -> bool:
    """Return whether a known name ends like that of an id of a user.

    Examples
    --------
    >>> [is_id_name(name) for name in ("vehicle_id", "icao24", "id", "speed", "id of kr7731")]
    [True, True, True, False, False]
    """
    text = "".join(words(name))
    return (
        is_known_name(name)
        and not is_quality(name)
        and any(text.endswith(phrase.replace(" ", "")) for phrase in PHRASES["user"])
    )

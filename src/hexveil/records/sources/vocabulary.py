"""Known column names, which tell a header from a record and one role from another.

A name is split into words and is known if all of its words are, so that it contains no id and no
value: "location.coordinates", "PM2.5" and "vehicle_id" are known; "bus 1", which may be a vehicle,
and "speed_of_kr7731" are not.
"""

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files

_NAMES = tomllib.loads((files(__package__) / "column_names.toml").read_text(encoding="utf-8"))
PHRASES: Mapping[str, Sequence[str]] = _NAMES["phrases"]
"""Words that columns of a role are called by, the likelier first."""
_LETTERS = str.maketrans({"ł": "l", "Ł": "L", "ß": "ss"})
_ENGLISH = {
    unicodedata.normalize("NFKD", word): english
    for english, foreign in _NAMES["translations"].items()
    for word in foreign.split()
}

_SPOKEN = {word for phrases in PHRASES.values() for name in phrases for word in name.split()}
_KNOWN = {word for word in _SPOKEN if not word.isdigit()}.union(_NAMES["known"])
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[\u0900-\u0965\u0970-\u097f]+|\d+")
"""Letters of our alphabet and of Devanagari; digits."""
_PLAIN = re.compile(r"(?:[A-Za-z0-9 _./:-]|[\u0900-\u0965\u0970-\u097f])+")
_NUMBERED = re.compile(
    r"^no 2\b|\b(?:icao 24|pm (?:1|10|25|2 5)|(?:so|co) 2|o 3|wgs 84"
    r"|(?:coordinates|location|position|point|geometry|geom) [01])\b"
)
"""Numbers that belong to a column name. Any other number may be part of a vehicle's id."""


def words(name: str) -> list[str]:
    """Return the words of a name, in small letters and, if they are known ones, in English.

    Examples
    --------
    >>> words("observationDateTime"), words("PM2.5"), words("Prędkość")
    (['observation', 'date', 'time'], ['pm', '2', '5'], ['speed'])
    """
    spelled = [word.lower() for word in _WORD.findall(_plain(name))]
    return [part for word in spelled for part in _ENGLISH.get(word, word).split()]


def _plain(name: str) -> str:
    """Return a name without accents."""
    parts = unicodedata.normalize("NFKD", name).translate(_LETTERS)
    return "".join(part for part in parts if not "\u0300" <= part <= "\u036f")


def is_known_name(name: str) -> bool:
    """Return whether a name consists of known words.

    Examples
    --------
    >>> [is_known_name(name) for name in ("vehicle_id", "PM2.5", "bus 1", "kr7731")]
    [True, True, False, False]
    """
    name_words = words(name)
    # Other letters are not split into words, and so could hide an id between known ones.
    if not name_words or not _PLAIN.fullmatch(_plain(name)):
        return False
    return _KNOWN.issuperset(_NUMBERED.sub("", " ".join(name_words)).split())


def is_quality(name: str) -> bool:
    """Return whether a name says something of a user, and not which one it is.

    Examples
    --------
    >>> is_quality("vehicle_type"), is_quality("vehicle_id")
    (True, False)
    """
    return words(name)[-1:] != [] and words(name)[-1] in _NAMES["qualities"]


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
    return all(key.lower() in _NAMES["envelopes"] for key in path.split("."))


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

"""Proposal of a role for each column, from names and declared types alone.

The words of each role are in `hexveil.records.sources.vocabulary`. Keys of JSON documents can be
ids or values, so only common names of keys are ever returned.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from hexveil.records.sources.columns import ColumnType, TypeName, is_attribute, strip_value_members
from hexveil.records.sources.vocabulary import PHRASES, is_known_name, is_quality, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hexveil.records.sources.schema_preview import SourceSchema

MOST = 3
"""Largest number of other candidates that are listed."""

_KINDS: Mapping[str, tuple[TypeName, ...]] = {
    "lat": ("number", "text", "json"),
    "lon": ("number", "text", "json"),
    "location": ("list", "struct", "text", "json"),
    "time": ("time", "naive time", "number", "text", "json"),
    "user": ("text", "number", "json"),
    "value": ("number", "text", "json"),
    "labels": ("text", "number", "json"),
}
_ALONE: Mapping[str, tuple[TypeName, ...]] = {"time": ("time", "naive time"), "value": ("number",)}
"""A column of such a type that is the only one has this role, whatever its name."""
_METADATA = ("type", "@type", "@value", "unitCode", "datasetId")
"""Members of an NGSI-LD attribute that have no role of their own."""
_OBSERVED = ".observedAt"
"""Ending of the time of an NGSI-LD attribute."""
_UNIT = re.compile(r".*\S\s*[(\[]\s*([^()\[\]\d][^()\[\]]{0,15}?)\s*[)\]]\s*")
"""Name with a unit of measure in brackets: Speed (km/h)."""
_WEAK = {"id", "date", "long", "hour"}
"""Words that are weak evidence even as a whole name."""


class ProposedColumn(NamedTuple):
    """The column that is proposed for a role.

    Attributes
    ----------
    name : str
    kind : ColumnType
    others : tuple of str
        Other candidates, the likelier first.
    unit : str
        Unit of measure, "" unless the format of the source fixes it, or the name states it.
    day : str
        Of times, the column of the dates that they belong to; "" where they have dates.
    """

    name: str
    kind: ColumnType
    others: tuple[str, ...] = ()
    unit: str = ""
    day: str = ""


@dataclass
class _Choice:
    """The columns that are still without a role."""

    look: SourceSchema
    assigned: set[str] = field(default_factory=set)

    def propose_for(self, role: str) -> ProposedColumn | None:
        """Return the likeliest column of a role, and take it; None if there is none."""
        best = self.ranked(role) or self._alone(role)
        if role == "time":
            best = self._observed_with_value(best)
        return self.take(best) if best else None

    def _observed_with_value(
        self, times: list[tuple[str, ColumnType]]
    ) -> list[tuple[str, ColumnType]]:
        """Return times; those at which attributes other than the value were observed come last."""
        values = self.ranked("value")
        observed_at = f"{strip_value_members(values[0][0])}{_OBSERVED}" if values else ""
        return sorted(
            times, key=lambda time: time[0].endswith(_OBSERVED) and time[0] != observed_at
        )

    def take(self, best: list[tuple[str, ColumnType]]) -> ProposedColumn:
        """Take the first of some columns."""
        (name, kind), *alternatives = best
        self.assigned.add(name)
        others, unit = tuple(column for column, _ in alternatives)[:MOST], _UNIT.fullmatch(name)
        return ProposedColumn(name, kind, others, unit[1] if unit else "")

    def ranked(self, role: str) -> list[tuple[str, ColumnType]]:
        """Return the columns that a role's words fit, the likeliest first."""
        scored = [
            (score, number, name, kind)
            for number, (name, kind) in enumerate(self.free(role))
            if (score := _score(role, name)) is not None
        ]
        # Ties go to the column that comes first, so that a file always gives one draft.
        return [(name, kind) for _, _, name, kind in sorted(scored, key=lambda one: one[:2])]

    def free(self, role: str) -> Iterator[tuple[str, ColumnType]]:
        """Yield the columns that may have a role by their type and may be named."""
        for name, kind in nameable_columns(self.look):
            if name in self.assigned or kind.name not in _KINDS[role]:
                continue
            # An id that is the same in all rows is that of a feed or a fleet, not of a vehicle.
            if role == "user" and name in self.look.constant_ids:
                continue
            if role == "user" and is_quality(name):
                continue
            # A typed value, unlike other objects, is read as what is in it.
            is_object = kind.name == "json" and kind.fields and "@value" not in kind.fields
            if not is_object or role == "location":
                yield name, kind

    def _alone(self, role: str) -> list[tuple[str, ColumnType]]:
        columns = [column for column in self.free(role) if column[1].name in _ALONE.get(role, ())]
        return columns if len(columns) == 1 else []


def nameable_columns(look: SourceSchema) -> Iterator[tuple[str, ColumnType]]:
    """Yield the columns that may be named, with their types: keys of documents can be values."""
    for name, kind in _columns(look.schema):
        if not look.documents or is_known_name(name):
            yield name, kind


def propose(
    look: SourceSchema, known_columns: Mapping[str, str | Sequence[str]] | None = None
) -> dict[str, ProposedColumn]:
    """Return the column proposed for each role that one was found for.

    Roles are user, value, time, lat and lon or location, and labels where there is no place.

    Parameters
    ----------
    look : SourceSchema
    known_columns : mapping of role to name, or to several
        Columns whose role is known; they are left out.
    """
    known_columns = known_columns or {}
    known_names = known_columns.values()
    choice = _Choice(
        look,
        {name for names in known_names for name in ([names] if isinstance(names, str) else names)},
    )
    placed = not known_columns.keys().isdisjoint(("lat", "lon", "location"))
    proposed = {} if placed else _place(choice)
    roles = ["time", "user", "value"] + ["labels"] * (not proposed and not placed)
    for role in roles:
        pair = look.day_and_time if role == "time" and role not in known_columns else None
        column = None if role in known_columns else choice.propose_for(role)
        if pair is not None and column is not None and column.name in pair:
            choice.assigned.update(pair)
            column = ProposedColumn(pair[1], column.kind, day=pair[0])
        if column is not None:
            proposed[role] = column
    return proposed


def _place(choice: _Choice) -> dict[str, ProposedColumn]:
    """Return latitude and longitude, or a location; other candidates stay ordinary columns."""
    lat = choice.ranked("lat")
    lon = _paired(choice.ranked("lon"), lat[0][0]) if lat else []
    # Flattened coordinate pairs are the strongest evidence for a location.
    places = [*_split(choice.look), *choice.ranked("location")]
    if lat and lon:
        return {"lat": choice.take(lat), "lon": choice.take(lon)}
    if not places:
        return {}
    location = choice.take(places[:1])
    inside = (location.name + "/", location.name + ".")
    choice.assigned |= {name for name, _ in _columns(choice.look.schema) if name.startswith(inside)}
    return {"location": location}


def _paired(lon: list[tuple[str, ColumnType]], lat: str) -> list[tuple[str, ColumnType]]:
    """Return longitudes, those first that are called like the latitude but for the last word."""
    stem = words(lat)[:-1]
    return sorted(lon, key=lambda one: words(one[0])[:-1] != stem)


def _split(look: SourceSchema) -> Iterator[tuple[str, ColumnType]]:
    """Yield the stems of pairs of columns that end in 0 and 1, as flattened lists do."""
    for name, kind in look.schema.items():
        stem, mark = name[:-2], name[-2:]
        paired = mark in ("/0", ".0") and f"{stem}{mark[0]}1" in look.schema
        nameable = not look.documents or is_known_name(stem)
        if paired and nameable and _score("location", stem) is not None:
            yield stem, kind


def _columns(schema: Mapping[str, ColumnType], stem: str = "") -> Iterator[tuple[str, ColumnType]]:
    """Yield every column and field by the name that it is configured by."""
    for name, kind in schema.items():
        yield stem + name, kind
        metadata = _METADATA if is_attribute(kind) else ()
        fields = {key: inner for key, inner in kind.fields.items() if key not in metadata}
        yield from _columns(fields, f"{stem}{name}.")


def _score(role: str, name: str) -> int | None:
    """Return how unlikely a name is for a role, from 0; None where no word fits.

    The value of an attribute is called as the attribute is.
    """
    scores = [_score_words(role, words(text)) for text in {name, strip_value_members(name)}]
    return min((score for score in scores if score is not None), default=None)


def _score_words(role: str, name_words: list[str]) -> int | None:
    """Return how unlikely the words of a name are for a role.

    A name that is one of the phrases is likelier than one that ends in it, and that than one
    that holds it. Spaces do not count: "pm2.5" is "pm 25".
    """
    size = len(name_words)
    runs = {"".join(name_words[a:b]): (a, b) for a in range(size) for b in range(a + 1, size + 1)}
    scores = []
    for rank, phrase in enumerate(PHRASES[role]):
        place = runs.get(phrase.replace(" ", ""))
        if place is None:
            continue
        tier = 0 if place == (0, size) else 1 if place[1] == size else 2
        # A place in the middle of a name qualifies something else.
        if tier == 2 and role == "location":  # its type, its name
            continue
        if phrase not in _WEAK:
            scores.append(100 * tier + rank)
        elif tier == 0:
            scores.append(1000 + rank)
    return min(scores, default=None)

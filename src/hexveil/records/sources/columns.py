"""Resolution of configured columns: names, paths into nested fields, places.

One dotted name may mean three things, tried in this order: a column of exactly that name, a path
into a nested field, and a path into a column that holds JSON text. A name that ends at an attribute
of an NGSI-LD entity means the attribute's value, so that `speed` reads the simplified and the
normalised form alike. A place in one field is in GeoJSON order, longitude first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from hexveil.base.errors import ColumnError, InputError

TypeName = Literal[
    "text", "number", "boolean", "time", "naive time", "time of day", "date", "json", "struct",
    "list", "map", "other",
]  # fmt: skip
VALUE_MEMBERS = ("value", "object", "@value")
"""Members that hold the value of an NGSI-LD property, of a relationship, and of a typed value."""
_VALUE_SUFFIX = re.compile(rf"(\.({'|'.join(VALUE_MEMBERS)}))+\Z")


@dataclass(frozen=True)
class ColumnType:
    """Declared type of a column or field.

    Attributes
    ----------
    name : str
        "map" stands for unions as well.
    fields : mapping of str to ColumnType
        Of a struct, or of JSON objects as far as they were looked at.
    element : ColumnType or None
        Of a list, or of JSON lists as far as they were looked at.
    is_integer : bool
        Whether it is a number of a whole type: its text tells one from another.
    float_bits : int
        Bits of the significand of a binary float; 0 for every other type. Whole numbers below 2
        to this power are exact, larger ones may stand for several.
    """

    name: TypeName
    fields: Mapping[str, ColumnType] = field(default_factory=dict)
    element: ColumnType | None = None
    is_integer: bool = False
    float_bits: int = 0


@dataclass(frozen=True)
class ColumnRef:
    """A column, or a field inside one.

    Attributes
    ----------
    column : str
    path : tuple of str or int
        Field names and list positions (from 0) inside the column.
    kind : ColumnType
        What is found there.
    parsed : int
        How many leading parts of the path are followed by declared type; the rest are followed
        inside JSON.
    point : int or None
        Position in the [longitude, latitude] text, or GeoJSON point, found there.
    """

    column: str
    path: tuple[str | int, ...]
    kind: ColumnType
    parsed: int = 0
    point: int | None = None


Schema = dict[str, ColumnType]


def resolve(role: str, name: str, schema: Schema) -> ColumnRef:
    """Return where the column configured as `name` is found.

    Raises
    ------
    ColumnError
        If it is not in the source; the message names the nearest.
    InputError
        If JSON lists of objects are there, which hold several values.
    """
    ref = find_column(name, schema)
    if ref is None:
        raise ColumnError(role, name, tuple(all_names(schema)))
    ref = _attribute_value(ref)
    if ref.kind.name == "json" and ref.kind.element is not None and ref.kind.element.fields:
        raise InputError(
            f"{role}: {name!r} holds lists of objects, such as the temporal form of NGSI-LD has; "
            "write one entity for each instance, or name a value inside, for example "
            f"{name + '.0.value'!r}."
        )
    return ref


def strip_value_members(name: str) -> str:
    """Return the name of an attribute from that of its value: both configure the same field.

    Examples
    --------
    >>> [strip_value_members(name) for name in ("speed", "speed.value", "at.value.@value")]
    ['speed', 'speed', 'at']
    """
    return _VALUE_SUFFIX.sub("", name)


def is_attribute(kind: ColumnType) -> bool:
    """Return whether an object holds a value of its own, as attributes of NGSI-LD entities do."""
    return not kind.fields.keys().isdisjoint(VALUE_MEMBERS)


def _attribute_value(ref: ColumnRef) -> ColumnRef:
    """Return where the value of an attribute is; other fields stay as they are.

    No object is a number, a time or an id, so this changes no name that could be read without it.
    """
    for member in VALUE_MEMBERS:
        if member in ref.kind.fields:
            inner = ref.kind.fields[member]
            parsed = ref.parsed + (ref.kind.name == "struct")
            nested = replace(ref, path=(*ref.path, member), kind=inner, parsed=parsed)
            return _attribute_value(nested)  # a typed value is inside the value of a property
    return ref


def resolve_location(name: str, schema: Schema) -> tuple[ColumnRef, ColumnRef]:
    """Return where latitude and longitude of a one-field location are found.

    The field may be a list, a GeoJSON point, text of either, or a pair of columns whose names
    end in 0 and 1 after a slash or dot.
    """
    ref = find_column(name, schema)
    if ref is not None:
        return _pair(name, ref)
    # As flattened JSON names them: location/coordinates/0, or with dots.
    for mark in ("/", "."):
        for stem in (name, f"{name}{mark}coordinates"):
            lon, lat = (find_column(f"{stem}{mark}{i}", schema) for i in (0, 1))
            if lat is not None and lon is not None:
                return lat, lon
    raise ColumnError("location", name, tuple(all_names(schema)))


def _pair(name: str, ref: ColumnRef) -> tuple[ColumnRef, ColumnRef]:
    # A GeoProperty holds a point as its value, a point holds a list as its coordinates.
    for member in ("value", "coordinates"):
        if ref.kind.name == "struct" and member in ref.kind.fields:
            ref = _inside(ref, member, ref.kind.fields[member])
    kind = ref.kind
    if kind.name == "list" and kind.element is not None:
        lat, lon = (
            # GeoJSON puts longitude first.
            ColumnRef(ref.column, (*ref.path, i), kind.element, ref.parsed + 1)
            for i in (1, 0)
        )
        return lat, lon
    if kind.name in ("json", "text"):
        return replace(ref, point=1), replace(ref, point=0)
    raise InputError(
        f"location: the column {name!r} holds no list [longitude, latitude] and no GeoJSON point, "
        "nor text of these; name lat and lon instead."
    )


def find_column(name: str, schema: Schema) -> ColumnRef | None:
    """Return where a name leads by itself, without the value of an attribute; None if nowhere."""
    if name in schema:
        return ColumnRef(name, (), schema[name])
    names = name.split(".")
    # The longest column name first, as a name may itself hold dots.
    for size in range(len(names) - 1, 0, -1):
        stem = ".".join(names[:size])
        if stem in schema:
            nested = _descend(ColumnRef(stem, (), schema[stem]), names[size:])
            if nested is not None:
                return nested
    return None


def _descend(ref: ColumnRef, names: list[str]) -> ColumnRef | None:
    """Follow a path as far as the declared type goes, and inside JSON from there."""
    if not names:
        return ref
    kind, step = ref.kind, names[0]
    if kind.name == "struct" and step in kind.fields:
        return _descend(_inside(ref, step, kind.fields[step]), names[1:])
    if kind.name == "list" and step.isdigit() and kind.element is not None:
        return _descend(_inside(ref, int(step), kind.element), names[1:])
    if kind.name in ("json", "text"):
        nested = _json_steps(kind, names)
        return (
            None if nested is None else replace(ref, path=(*ref.path, *nested[0]), kind=nested[1])
        )
    return None


def _inside(ref: ColumnRef, step: str | int, kind: ColumnType) -> ColumnRef:
    return ColumnRef(ref.column, (*ref.path, step), kind, ref.parsed + 1)


def _json_steps(
    kind: ColumnType, names: list[str]
) -> tuple[tuple[str | int, ...], ColumnType] | None:
    """Return the steps of a path in JSON, and the type there; None if its known keys lack it."""
    if not names:
        return (), kind
    if not kind.fields:
        return tuple(int(step) if step.isdigit() else step for step in names), ColumnType("json")
    # A key may itself hold dots, so the longest one that is there is taken.
    for size in range(len(names), 0, -1):
        key = ".".join(names[:size])
        if key in kind.fields:
            remaining = _json_steps(kind.fields[key], names[size:])
            if remaining is not None:
                return (key, *remaining[0]), remaining[1]
    return None


def record_lists(schema: Schema, stem: str = "") -> Iterator[tuple[str, Schema]]:
    """Yield the path of each list of objects in documents, and the schema of these objects."""
    for name, kind in schema.items():
        if kind.element is not None and kind.element.fields:
            yield stem + name, dict(kind.element.fields)
        inner = kind.fields if kind.element is None else kind.element.fields
        yield from record_lists(dict(inner), f"{stem}{name}.")


def all_names(schema: Schema, stem: str = "") -> Iterator[str]:
    """Yield every name a column may be configured by, nested ones with dots."""
    for name, kind in schema.items():
        yield stem + name
        yield from all_names(dict(kind.fields), f"{stem}{name}.")

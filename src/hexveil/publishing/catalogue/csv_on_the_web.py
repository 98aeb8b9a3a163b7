"""Description of `cells.csv` by CSV on the Web (CSVW): types, units and meaning of its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from hexveil.base.csv_safety import escape_formula

if TYPE_CHECKING:
    from hexveil.publishing.catalogue.release_description import (
        ColumnDescription,
        ReleaseDescription,
    )

    Node = dict[str, Any]

_TYPES: dict[str, str | Node] = {
    "string": "string",
    "integer": "integer",
    "number": "double",
    "boolean": "boolean",
    "time": {"base": "time", "format": "HH:mm"},
    "datetime": {"base": "dateTime", "format": "yyyy-MM-ddTHH:mm"},
    "instant": {"base": "dateTimeStamp", "format": "yyyy-MM-dd HH:mm:ssX"},
}


def table_description(description: ReleaseDescription) -> Node:
    """Return the content of `cells.csv-metadata.json`."""
    stated, language = description.stated, description.language
    optional = {
        "dc:license": {"@id": description.license_url} if description.license_url else None,
        "dc:publisher": stated.get("publisher"),
        "dcat:keyword": stated.get("keywords"),
    }
    return {
        "@context": ["http://www.w3.org/ns/csvw", {"@language": language}],
        "url": "cells.csv",
        "dc:identifier": description.identifier,
        "dc:title": description.title,
        "dc:description": description.text,
        "dc:provenance": {"@value": description.privacy.in_words(), "@language": "en"},
        **{name: fact for name, fact in optional.items() if fact},
        "tableSchema": {
            "columns": [_column(column) for column in description.columns],
            "primaryKey": "cell",
        },
    }


def _column(column: ColumnDescription) -> Node:
    unit = {"schema:unitText": column.unit} if column.unit else {}
    # An empty label is a label, and numbers are never missing.
    is_label = column.kind == "string" and not column.optional
    missing: Node = {"null": []} if is_label else {"required": not column.optional}
    return {
        "name": _variable_name(column.name),
        "titles": escape_formula(column.name),
        "dc:description": column.text,
        "datatype": _TYPES[column.kind],
        **missing,
        **unit,
    }


def _variable_name(name: str) -> str:
    """Return a column's name as the variable of a URI template, which may hold few characters.

    Examples
    --------
    >>> _variable_name("mean_raw"), _variable_name("_ward-7")
    ('mean_raw', '%5Fward%2D7')
    """
    encoded = quote(name, safe="").replace("-", "%2D").replace("~", "%7E").replace(".", "%2E")
    return f"%5F{encoded[1:]}" if encoded.startswith("_") else encoded

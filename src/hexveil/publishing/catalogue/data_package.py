"""Description of a release as a Frictionless data package (Data Package, version 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hexveil.base.csv_safety import escape_formula

if TYPE_CHECKING:
    from hexveil.publishing.catalogue.folder_files import DataFile
    from hexveil.publishing.catalogue.release_description import (
        ColumnDescription,
        ReleaseDescription,
    )

    Node = dict[str, Any]

_TYPES = {
    "string": {"type": "string"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "time": {"type": "time", "format": "%H:%M"},
    "datetime": {"type": "datetime", "format": "%Y-%m-%dT%H:%M"},
    "instant": {"type": "datetime", "format": "%Y-%m-%d %H:%M:%SZ"},
}


def package(description: ReleaseDescription) -> Node:
    """Return the content of `datapackage.json`."""
    stated = description.stated
    optional = {
        "homepage": stated.get("landing_page"),
        "version": description.version,
        "keywords": stated.get("keywords"),
        "licenses": _licenses(description),
        "contributors": _contributors(stated),
    }
    return {
        "profile": "data-package",
        "name": description.name,
        "id": description.identifier,
        "title": description.title,
        "description": description.text,
        **{name: fact for name, fact in optional.items() if fact},
        "privacy": description.privacy.to_json(),
        "resources": [
            _resource(file, description) for file in description.files if file.role == "data"
        ],
    }


def _licenses(description: ReleaseDescription) -> list[Node]:
    stated, url = description.stated.get("license"), description.license_url
    if stated is None:
        return []
    return [{"path": url} if "://" in stated else {"name": stated, "path": url}]


def _contributors(stated: Node) -> list[Node]:
    if "publisher" not in stated:
        return []
    contact = stated.get("contact", "")
    optional = {
        "path": stated.get("publisher_url"),
        "email": "" if "://" in contact else contact,
    }
    facts = {name: fact for name, fact in optional.items() if fact}
    return [{"title": stated["publisher"], "role": "publisher", **facts}]


def _resource(file: DataFile, description: ReleaseDescription) -> Node:
    resource = {
        "name": f"cells-{file.key}",
        "path": file.name,
        "title": file.title,
        "format": file.key,
        "mediatype": file.media_type,
    }
    if file.key == "parquet":
        # Readers that guess take a column whose first numbers are whole for one of whole numbers.
        fields = [_parquet_field(column) for column in description.columns]
        outlines = [{"name": "geometry", "type": "any"}] * (description.coverage.box is not None)
        return resource | {"schema": {"fields": [*fields, *outlines]}}
    if file.key != "csv":
        return resource
    return resource | {
        "profile": "tabular-data-resource",
        "encoding": "utf-8",
        # An empty label is a label, except where several value columns leave cells out.
        "schema": {
            "fields": [_field(column) for column in description.columns],
            "missingValues": [""] if _has_missing_texts(description) else [],
            "primaryKey": ["cell"],
        },
    }


def _has_missing_texts(description: ReleaseDescription) -> bool:
    return any(column.optional and column.kind == "string" for column in description.columns)


def _parquet_field(column: ColumnDescription) -> Node:
    typed = column.kind in ("integer", "number", "boolean")
    return {"name": column.name, "type": column.kind if typed else "any"}


def _field(column: ColumnDescription) -> Node:
    unit = {"unit": column.unit} if column.unit else {}
    return {
        "name": escape_formula(column.name),
        **_TYPES[column.kind],
        "description": column.text,
        **unit,
        "constraints": {"required": True}
        if column.kind != "string" and not column.optional
        else {},
    }

"""Files that describe a release folder to data portals, a standard each.

Descriptions of a release whose columns have types and units: CSVW, data package, schema.org.

- `cells.csv-metadata.json`: CSV on the Web, of `cells.csv`.
- `datapackage.json`: a Frictionless data package (Data Package, version 1).
- `schema-org.jsonld`: a Dataset of schema.org, as search engines read it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from hexveil.base.arrow_tables import escape_formula
from hexveil.publishing.catalogue import dcat
from hexveil.publishing.catalogue.data_files import DataFile
from hexveil.publishing.catalogue.release_description import (
    ColumnDescription,
    ReleaseDescription,
    describe_release,
    instant_text,
    stated_facts,
)

Node = dict[str, Any]

DCAT, SCHEMA_ORG = "dcat.jsonld", "schema-org.jsonld"
DATA_PACKAGE, CSVW = "datapackage.json", "cells.csv-metadata.json"
ITEM = "stac-item.json"


def render_metadata(
    table: pa.Table, manifest: dict[str, Any], names: frozenset[str]
) -> dict[str, bytes]:
    """Return the descriptions of a release by file name.

    Parameters
    ----------
    table : pyarrow.Table
        The released table, without outlines.
    manifest : dict
    names : frozenset of str
        Other files of the folder.
    """
    return render_descriptions(describe_release(table, manifest, names))


def render_descriptions(description: ReleaseDescription) -> dict[str, bytes]:
    """Return the files of a description, by name."""
    documents = {name: make(description) for name, make in DOCUMENTS.items()}
    return {name: to_bytes(content) for name, content in documents.items() if content is not None}


def to_bytes(content: dict[str, Any]) -> bytes:
    """Return the bytes of a JSON file."""
    return (json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


SCHEMA_ORG_CONTEXT = "https://schema.org/"
_MOST_LETTERS = 5000
"""Of a description that search engines read."""
_TYPES: dict[str, tuple[str | Node, Node]] = {
    "string": ("string", {"type": "string"}),
    "integer": ("integer", {"type": "integer"}),
    "number": ("double", {"type": "number"}),
    "boolean": ("boolean", {"type": "boolean"}),
    "time": ({"base": "time", "format": "HH:mm"}, {"type": "time", "format": "%H:%M"}),
    "datetime": (
        {"base": "dateTime", "format": "yyyy-MM-ddTHH:mm"},
        {"type": "datetime", "format": "%Y-%m-%dT%H:%M"},
    ),
    "instant": (
        {"base": "dateTimeStamp", "format": "yyyy-MM-dd HH:mm:ssX"},
        {"type": "datetime", "format": "%Y-%m-%d %H:%M:%SZ"},
    ),
}
"""Types of a column by its kind, in CSVW and in a data package."""


def csvw_table(description: ReleaseDescription) -> Node:
    """Return the content of `cells.csv-metadata.json`."""
    stated, licence = description.stated, description.license_url
    return {
        "@context": ["http://www.w3.org/ns/csvw", {"@language": description.language}],
        "url": "cells.csv",
        "dc:identifier": description.identifier,
        "dc:title": description.title,
        "dc:description": description.text,
        "dc:provenance": {"@value": description.privacy.in_words(), "@language": "en"},
        **stated_facts(
            {
                "dc:license": {"@id": licence} if licence else None,
                "dc:publisher": stated.get("publisher"),
                "dcat:keyword": stated.get("keywords"),
            }
        ),
        "tableSchema": {
            "columns": [_csvw_column(column) for column in description.columns],
            "primaryKey": "cell",
        },
    }


def _csvw_column(column: ColumnDescription) -> Node:
    # An empty label is a label, and numbers are never missing.
    is_label = column.kind == "string" and not column.optional
    missing: Node = {"null": []} if is_label else {"required": not column.optional}
    return {
        "name": _variable_name(column.name),
        "titles": escape_formula(column.name),
        "dc:description": column.text,
        "datatype": _TYPES[column.kind][0],
        **missing,
        **stated_facts({"schema:unitText": column.unit}),
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


def data_package(description: ReleaseDescription) -> Node:
    """Return the content of `datapackage.json`."""
    stated = description.stated
    files = [file for file in description.files if file.role == "data"]
    return {
        "profile": "data-package",
        "name": description.name,
        "id": description.identifier,
        "title": description.title,
        "description": description.text,
        **stated_facts(
            {
                "homepage": stated.get("landing_page"),
                "version": description.version,
                "keywords": stated.get("keywords"),
                "licenses": _licenses(description),
                "contributors": _contributors(description),
            }
        ),
        "privacy": description.privacy.to_json(),
        "resources": [_resource(file, description) for file in files],
    }


def _licenses(description: ReleaseDescription) -> list[Node]:
    name, url = description.stated.get("license"), description.license_url
    if name is None:
        return []
    return [{"path": url} if "://" in name else {"name": name, "path": url}]


def _contributors(description: ReleaseDescription) -> list[Node]:
    stated = description.stated
    if "publisher" not in stated:
        return []
    facts = {"path": stated.get("publisher_url"), "email": description.email}
    return [{"title": stated["publisher"], "role": "publisher", **stated_facts(facts)}]


def _resource(file: DataFile, description: ReleaseDescription) -> Node:
    resource = {
        "name": f"cells-{file.key}",
        "path": file.name,
        "title": file.title,
        "format": file.key,
        "mediatype": file.media_type,
    }
    columns = description.columns
    if file.key == "parquet":
        # Readers that guess take a column whose first numbers are whole for one of whole numbers.
        fields = [_parquet_field(column) for column in columns]
        outlines = [{"name": "geometry", "type": "any"}] * (description.coverage.box is not None)
        return resource | {"schema": {"fields": [*fields, *outlines]}}
    if file.key != "csv":
        return resource
    has_missing = any(column.optional and column.kind == "string" for column in columns)
    return resource | {
        "profile": "tabular-data-resource",
        "encoding": "utf-8",
        # An empty label is a label, except where several value columns leave cells out.
        "schema": {
            "fields": [_csv_field(column) for column in columns],
            "missingValues": [""] if has_missing else [],
            "primaryKey": ["cell"],
        },
    }


def _parquet_field(column: ColumnDescription) -> Node:
    # Readers have whole numbers of which some are missing as floats.
    is_whole = column.kind == "integer" and not column.optional
    typed = is_whole or column.kind in ("number", "boolean")
    return {"name": column.name, "type": column.kind if typed else "any"}


def _csv_field(column: ColumnDescription) -> Node:
    is_required = column.kind != "string" and not column.optional
    return {
        "name": escape_formula(column.name),
        **_TYPES[column.kind][1],
        "description": column.text,
        **stated_facts({"unit": column.unit}),
        "constraints": {"required": True} if is_required else {},
    }


def schema_org_dataset(description: ReleaseDescription) -> Node:
    """Return the content of `schema-org.jsonld`."""
    stated, privacy = description.stated, description.privacy
    base_url = stated.get("base_url", "")
    return {
        "@context": SCHEMA_ORG_CONTEXT,
        "@type": "Dataset",
        "identifier": description.identifier,
        "name": description.title,
        "description": f"{description.text} {privacy.in_words()}"[:_MOST_LETTERS],
        "inLanguage": description.language,
        **stated_facts(
            {
                "url": stated.get("landing_page") or base_url,
                "version": description.version,
                "keywords": stated.get("keywords"),
                "license": description.license_url,
                "publisher": _organisation(description),
                "spatialCoverage": _places(description),
                "temporalCoverage": _period(description),
            }
        ),
        "measurementTechnique": f"{privacy.model}, epsilon {privacy.epsilon}, privacy unit "
        f"{privacy.unit}",
        "variableMeasured": [
            {
                "@type": "PropertyValue",
                "name": column.name,
                "description": column.text,
                **stated_facts({"unitText": column.unit}),
            }
            for column in description.columns
        ],
        "distribution": [
            {
                "@type": "DataDownload",
                "name": file.title,
                "contentUrl": f"{base_url}{file.name}",
                "encodingFormat": file.media_type,
            }
            for file in description.files
        ],
    }


def _organisation(description: ReleaseDescription) -> Node | None:
    """Return the publisher; None where none is stated."""
    stated, page = description.stated, description.contact_page
    if "publisher" not in stated:
        return None
    facts = {
        "url": stated.get("publisher_url"),
        "email": description.email,
        "contactPoint": {"@type": "ContactPoint", "url": page} if page else None,
    }
    return {"@type": "Organization", "name": stated["publisher"], **stated_facts(facts)}


def _places(description: ReleaseDescription) -> list[Node]:
    area, box = description.stated.get("spatial"), description.coverage.box
    places: list[Node] = [{"@type": "Place", "@id": area}] if area else []
    if box is not None:
        west, south, east, north = box
        shape = {"@type": "GeoShape", "box": f"{south} {west} {north} {east}"}
        places.append({"@type": "Place", "geo": shape})
    return places


def _period(description: ReleaseDescription) -> str:
    """Return the period as ISO 8601: of instants, else of days."""
    coverage = description.coverage
    if coverage.start is not None and coverage.end is not None:
        return f"{instant_text(coverage.start)}/{instant_text(coverage.end)}"
    return "" if coverage.days is None else "/".join(coverage.days)


DOCUMENTS: dict[str, Callable[[ReleaseDescription], Node | None]] = {
    DCAT: dcat.dataset_document,
    SCHEMA_ORG: schema_org_dataset,
    DATA_PACKAGE: data_package,
    CSVW: csvw_table,
    ITEM: dcat.item,
}
"""What makes each file; None where it cannot be made."""
NAMES = tuple(DOCUMENTS)
ALWAYS = tuple(name for name in NAMES if name != ITEM)
"""In every folder; the STAC Item is where the period of the release is known."""

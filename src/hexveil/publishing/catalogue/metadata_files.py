"""Files that describe a release folder to data portals, a standard each.

- `dcat.jsonld`: DCAT-AP, and `stac-item.json`: STAC (dcat.py).
- `schema-org.jsonld`: a Dataset of schema.org, as search engines read it.
- `datapackage.json`: a Frictionless data package (Data Package, version 1), with types and units of
  columns.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from hexveil.base.arrow_tables import escape_formula
from hexveil.publishing.catalogue import dcat
from hexveil.publishing.catalogue.release_description import (
    ColumnDescription,
    DataFile,
    ReleaseDescription,
    describe_release,
    stated_facts,
)

Node = dict[str, Any]

DCAT, SCHEMA_ORG, DATA_PACKAGE = "dcat.jsonld", "schema-org.jsonld", "datapackage.json"
ITEM, FORMER = "stac-item.json", "cells.csv-metadata.json"
"""Where the period is known; in folders of earlier versions alone."""
_MOST_LETTERS = 5000
"""Of a description that search engines read."""
_FORMATS = {"time": "%H:%M", "datetime": "%Y-%m-%dT%H:%M", "instant": "%Y-%m-%d %H:%M:%SZ"}


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
    description = describe_release(table, manifest, names)
    documents = {name: make(description) for name, make in DOCUMENTS.items()}
    return {name: to_bytes(content) for name, content in documents.items() if content is not None}


def to_bytes(content: dict[str, Any]) -> bytes:
    """Return the bytes of a JSON file."""
    return (json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def data_package(description: ReleaseDescription) -> Node:
    """Return the content of `datapackage.json`."""
    stated, name = description.stated, description.stated.get("license", "")
    licence = stated_facts({"name": "" if "://" in name else name, "path": description.license_url})
    publisher = {"title": stated.get("publisher"), "role": "publisher"}
    publisher |= stated_facts({"path": stated.get("publisher_url"), "email": description.email})
    # Tools read the rows as text: the other tables bring their own types.
    files = [file for file in description.files if file.key == "csv"]
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
                "licenses": [licence] if licence else [],
                "contributors": [publisher] if publisher["title"] else [],
            }
        ),
        "privacy": description.privacy,
        "resources": [_resource(file, description) for file in files],
    }


def _resource(file: DataFile, description: ReleaseDescription) -> Node:
    columns = description.columns
    has_missing = any(column.optional and column.kind == "string" for column in columns)
    return {
        "name": f"cells-{file.key}",
        "path": file.name,
        "title": file.title,
        "format": file.key,
        "mediatype": file.media_type,
        "profile": "tabular-data-resource",
        "encoding": "utf-8",
        # An empty label is a label, except where several value columns leave cells out.
        "schema": {
            "fields": [_csv_field(column) for column in columns],
            "missingValues": [""] if has_missing else [],
            "primaryKey": ["cell"],
        },
    }


def _csv_field(column: ColumnDescription) -> Node:
    is_required = column.kind != "string" and not column.optional
    return {
        "name": escape_formula(column.name),
        "type": "datetime" if column.kind == "instant" else column.kind,
        **stated_facts({"format": _FORMATS.get(column.kind)}),
        "description": column.text,
        **stated_facts({"unit": column.unit}),
        "constraints": {"required": True} if is_required else {},
    }


def schema_org_dataset(description: ReleaseDescription) -> Node:
    """Return the content of `schema-org.jsonld`."""
    stated, privacy = description.stated, description.privacy
    base_url = stated.get("base_url", "")
    said = f"{description.text} {description.privacy_sentence()}"
    return {
        "@context": "https://schema.org/",
        "@type": "Dataset",
        "identifier": description.identifier,
        "name": description.title,
        "description": said[:_MOST_LETTERS],
        "inLanguage": description.language,
        **stated_facts(
            {
                "url": stated.get("landing_page") or base_url,
                "version": description.version,
                "keywords": stated.get("keywords"),
                "license": description.license_url,
                "publisher": _organisation(description),
                "spatialCoverage": _places(description),
                "temporalCoverage": "/".join(description.coverage.period() or ()),
            }
        ),
        "measurementTechnique": f"{privacy['model']}, epsilon {privacy['epsilon']}, privacy unit "
        f"{privacy['privacy_unit']}",
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
    stated = description.stated
    if "publisher" not in stated:
        return None
    facts = {"url": stated.get("publisher_url"), "email": description.email}
    return {"@type": "Organization", "name": stated["publisher"], **stated_facts(facts)}


def _places(description: ReleaseDescription) -> list[Node]:
    area, box = description.stated.get("spatial"), description.coverage.box
    places: list[Node] = [{"@type": "Place", "@id": area}] if area else []
    if box is not None:
        west, south, east, north = box
        shape = {"@type": "GeoShape", "box": f"{south} {west} {north} {east}"}
        places.append({"@type": "Place", "geo": shape})
    return places


DOCUMENTS: dict[str, Callable[[ReleaseDescription], Node | None]] = {
    DCAT: dcat.dataset_document,
    SCHEMA_ORG: schema_org_dataset,
    DATA_PACKAGE: data_package,
    ITEM: dcat.item,
}
"""What makes each file; None where it cannot be made."""
NAMES = tuple(DOCUMENTS)
ALWAYS = tuple(name for name in NAMES if name != ITEM)
"""In every folder; the STAC Item is where the period of the release is known."""

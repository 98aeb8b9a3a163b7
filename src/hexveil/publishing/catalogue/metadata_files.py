"""Files that describe a release folder to data portals, a standard each."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from hexveil.publishing.catalogue import dcat, stac, table_descriptions
from hexveil.publishing.catalogue.release_description import ReleaseDescription, describe_release

DCAT, SCHEMA_ORG = "dcat.jsonld", "schema-org.jsonld"
DATA_PACKAGE, CSVW = "datapackage.json", "cells.csv-metadata.json"
ITEM = "stac-item.json"
ALWAYS = (DCAT, SCHEMA_ORG, DATA_PACKAGE, CSVW)
"""In every folder; the STAC Item is where the period of the release is known."""
NAMES = (*ALWAYS, ITEM)


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
    documents = {
        DCAT: dcat.dataset_document(description),
        SCHEMA_ORG: table_descriptions.schema_org_dataset(description),
        DATA_PACKAGE: table_descriptions.data_package(description),
        CSVW: table_descriptions.csvw_table(description),
        ITEM: stac.item(description),
    }
    return {name: to_bytes(content) for name, content in documents.items() if content is not None}


def to_bytes(content: dict[str, Any]) -> bytes:
    """Return the bytes of a JSON file."""
    return (json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()

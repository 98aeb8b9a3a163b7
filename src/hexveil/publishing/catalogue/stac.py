"""Description of a release as an Item of the SpatioTemporal Asset Catalog (STAC 1.1)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from hexveil.publishing.catalogue.dcat import box_rings
from hexveil.publishing.catalogue.release_description import (
    Box,
    DataFile,
    ReleaseDescription,
    instant_text,
    stated_facts,
)

Node = dict[str, Any]

VERSION = "1.1.0"
TABLE_EXTENSION = "https://stac-extensions.github.io/table/v1.2.0/schema.json"


def item(description: ReleaseDescription) -> Node | None:
    """Return the Item of a release; None where its period, which it must state, is not known."""
    coverage = description.coverage
    if coverage.start is None or coverage.end is None:
        return None
    box = {} if coverage.box is None else {"bbox": list(coverage.box)}
    licence = description.license_url
    return {
        "type": "Feature",
        "stac_version": VERSION,
        "stac_extensions": [TABLE_EXTENSION],
        "id": description.name,
        "geometry": None if coverage.box is None else footprint(coverage.box),
        **box,
        "properties": _properties(description, coverage.start, coverage.end),
        "links": [{"rel": "license", "href": licence}] if licence else [],
        "assets": {file.key: _asset(file, description) for file in description.files},
    }


def footprint(box: Box) -> Node:
    """Return the outline of a box as GeoJSON; in two parts at the 180th meridian."""
    rings = box_rings(box)
    if len(rings) == 1:
        return {"type": "Polygon", "coordinates": rings}
    return {"type": "MultiPolygon", "coordinates": [[ring] for ring in rings]}


def _properties(description: ReleaseDescription, start: datetime, end: datetime) -> Node:
    stated, name = description.stated, description.stated.get("publisher")
    licence = str(stated.get("license", ""))
    provider = stated_facts({"name": name, "url": stated.get("publisher_url")})
    return {
        "datetime": None,
        "start_datetime": instant_text(start),
        "end_datetime": instant_text(end),
        "title": description.title,
        "description": description.text,
        **stated_facts(
            {
                "license": "other" if "://" in licence else licence,
                "providers": [provider] if name else [],
                "keywords": stated.get("keywords"),
            }
        ),
        "hexveil:request": description.identifier,
        "hexveil:privacy": description.privacy.to_json(),
        "table:row_count": description.rows,
        "table:columns": [
            {"name": column.name, "description": column.text, "type": column.kind}
            for column in description.columns
        ],
    }


def _asset(file: DataFile, description: ReleaseDescription) -> Node:
    asset = {
        "href": f"./{file.name}",
        "type": file.media_type,
        "title": file.title,
        "roles": [file.role],
    }
    if file.key == "parquet" and description.coverage.box is not None:
        asset["table:primary_geometry"] = "geometry"
    return asset

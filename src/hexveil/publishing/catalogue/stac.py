"""Description of a release as an Item of the SpatioTemporal Asset Catalog (STAC 1.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hexveil.publishing.catalogue.dcat import box_rings

if TYPE_CHECKING:
    from datetime import datetime

    from hexveil.publishing.catalogue.coverage import Box
    from hexveil.publishing.catalogue.folder_files import DataFile
    from hexveil.publishing.catalogue.release_description import ReleaseDescription

    Node = dict[str, Any]

VERSION = "1.1.0"
TABLE_EXTENSION = "https://stac-extensions.github.io/table/v1.2.0/schema.json"


def item(description: ReleaseDescription) -> Node | None:
    """Return the Item of a release; None where its period, which it must state, is not known."""
    coverage = description.coverage
    if coverage.start is None or coverage.end is None:
        return None
    box = {} if coverage.box is None else {"bbox": list(coverage.box)}
    return {
        "type": "Feature",
        "stac_version": VERSION,
        "stac_extensions": [TABLE_EXTENSION],
        "id": description.name,
        "geometry": None if coverage.box is None else footprint(coverage.box),
        **box,
        "properties": _properties(description, coverage.start, coverage.end),
        "links": license_links(description.license_url),
        "assets": {file.key: _asset(file, description) for file in description.files},
    }


def footprint(box: Box) -> Node:
    """Return the outline of a box as GeoJSON; in two parts at the 180th meridian."""
    rings = box_rings(box)
    if len(rings) == 1:
        return {"type": "Polygon", "coordinates": rings}
    return {"type": "MultiPolygon", "coordinates": [[ring] for ring in rings]}


def holder_fields(stated: Node) -> Node:
    """Return the common fields of an Item or Collection that its holder states."""
    fields: Node = {}
    if "license" in stated:
        fields["license"] = "other" if "://" in stated["license"] else stated["license"]
    if "publisher" in stated:
        address = {"url": stated["publisher_url"]} if "publisher_url" in stated else {}
        fields["providers"] = [{"name": stated["publisher"], **address}]
    if "keywords" in stated:
        fields["keywords"] = stated["keywords"]
    return fields


def license_links(license_url: str | None) -> list[Node]:
    """Return the link to the licence, if one is stated."""
    return [] if license_url is None else [{"rel": "license", "href": license_url}]


def _properties(description: ReleaseDescription, start: datetime, end: datetime) -> Node:
    privacy = description.privacy
    return {
        "datetime": None,
        "start_datetime": f"{start:%Y-%m-%dT%H:%M:%SZ}",
        "end_datetime": f"{end:%Y-%m-%dT%H:%M:%SZ}",
        "title": description.title,
        "description": description.text,
        **holder_fields(description.stated),
        "hexveil:request": description.identifier,
        "hexveil:privacy": privacy.to_json(),
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

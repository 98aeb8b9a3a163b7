"""Description of a release as a Dataset of schema.org, as search engines read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hexveil.publishing.catalogue.coverage import Coverage
    from hexveil.publishing.catalogue.release_description import (
        ColumnDescription,
        ReleaseDescription,
    )

    Node = dict[str, Any]

CONTEXT = "https://schema.org/"


def dataset_node(description: ReleaseDescription) -> Node:
    """Return the JSON-LD of a release."""
    stated, base_url = description.stated, description.stated.get("base_url", "")
    optional = {
        "url": stated.get("landing_page") or base_url,
        "version": description.version,
        "keywords": stated.get("keywords"),
        "license": description.license_url,
        "publisher": organisation(stated),
        "spatialCoverage": _places(description.coverage, stated.get("spatial")),
        "temporalCoverage": _period(description.coverage),
    }
    return {
        "@context": CONTEXT,
        "@type": "Dataset",
        "identifier": description.identifier,
        "name": description.title,
        "description": f"{description.text} {description.privacy.in_words()}"[:5000],
        "inLanguage": description.language,
        **{name: fact for name, fact in optional.items() if fact},
        "measurementTechnique": f"{description.privacy.model}, epsilon "
        f"{description.privacy.epsilon}, privacy unit {description.privacy.unit}",
        "variableMeasured": [_variable(column) for column in description.columns],
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


def organisation(stated: Node) -> Node | None:
    """Return the publisher; None where none is stated."""
    if "publisher" not in stated:
        return None
    contact = stated.get("contact", "")
    optional = {
        "url": stated.get("publisher_url"),
        "email": "" if "://" in contact else contact,
        "contactPoint": {"@type": "ContactPoint", "url": contact} if "://" in contact else None,
    }
    return {
        "@type": "Organization",
        "name": stated["publisher"],
        **{name: fact for name, fact in optional.items() if fact},
    }


def _variable(column: ColumnDescription) -> Node:
    unit = {"unitText": column.unit} if column.unit else {}
    return {"@type": "PropertyValue", "name": column.name, "description": column.text, **unit}


def _places(coverage: Coverage, area: str | None) -> list[Node]:
    places: list[Node] = [{"@type": "Place", "@id": area}] if area else []
    if coverage.box is not None:
        west, south, east, north = coverage.box
        shape = {"@type": "GeoShape", "box": f"{south} {west} {north} {east}"}
        places.append({"@type": "Place", "geo": shape})
    return places


def _period(coverage: Coverage) -> str:
    """Return the period as ISO 8601: of instants, else of days."""
    if coverage.start is not None and coverage.end is not None:
        return f"{coverage.start:%Y-%m-%dT%H:%M:%SZ}/{coverage.end:%Y-%m-%dT%H:%M:%SZ}"
    return "" if coverage.days is None else "/".join(coverage.days)

"""Files that describe a release folder to data portals, a standard each.

- `dcat.jsonld`: DCAT-AP 3 as JSON-LD. The privacy statement stands in `dct:provenance` in words,
  and its measure is that of the Data Privacy Vocabulary (DPV). Addresses are relative to the
  folder, or to `@base` where its holder states the folder's URL.
- `stac-item.json`: an Item of STAC 1.1, the SpatioTemporal Asset Catalog.
- `schema-org.jsonld`: a Dataset of schema.org, as search engines read it.
- `datapackage.json`: a Frictionless data package (Data Package, version 1), with types and units of
  columns.
"""

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from hexveil.base.arrow_tables import escape_formula
from hexveil.publishing.catalogue.holder_statements import THEMES
from hexveil.publishing.catalogue.release_description import (
    Box,
    ColumnDescription,
    Coverage,
    DataFile,
    ReleaseDescription,
    describe_release,
)

Node = dict[str, Any]

DCAT, SCHEMA_ORG, DATA_PACKAGE = "dcat.jsonld", "schema-org.jsonld", "datapackage.json"
ITEM, FORMER = "stac-item.json", "cells.csv-metadata.json"
"""Where the period is known; in folders of earlier versions alone."""
_MOST_LETTERS = 5000
"""Of a description that search engines read."""
_TELLING = ("geometry", "datetime", "links", "missingValues")
"""Names of facts that say something where they are empty."""
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
    return {name: to_bytes(known(content)) for name, content in documents.items() if content}


def known(content: Any) -> Any:  # noqa: ANN401  JSON
    """Return a description without unknown facts: empty ones, but for those that tell.

    Examples
    --------
    >>> known({"url": "", "links": [], "publisher": {"name": "A", "url": None}})
    {'links': [], 'publisher': {'name': 'A'}}
    """
    if isinstance(content, list):
        return [known(entry) for entry in content]
    if not isinstance(content, dict):
        return content
    facts = ((name, known(fact)) for name, fact in content.items())
    return {name: fact for name, fact in facts if fact or fact == 0 or name in _TELLING}


def to_bytes(content: dict[str, Any]) -> bytes:
    """Return the bytes of a JSON file."""
    return (json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def data_package(description: ReleaseDescription) -> Node:
    """Return the content of `datapackage.json`."""
    stated, name = description.stated, description.stated.get("license", "")
    licence = {"name": "" if "://" in name else name, "path": description.license_url}
    publisher = {"title": stated.get("publisher"), "role": "publisher"}
    publisher |= {"path": stated.get("publisher_url"), "email": description.email}
    # Tools read the rows as text: the other tables bring their own types.
    files = [file for file in description.files if file.key == "csv"]
    return {
        "profile": "data-package",
        "name": description.name,
        "id": description.identifier,
        "title": description.title,
        "description": description.text,
        "homepage": stated.get("landing_page"),
        "version": description.version,
        "keywords": stated.get("keywords"),
        "licenses": [licence] if name else [],
        "contributors": [publisher] if publisher["title"] else [],
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
        "format": _FORMATS.get(column.kind),
        "description": column.text,
        "unit": column.unit,
        "constraints": {"required": True} if is_required else {},
    }


def schema_org_dataset(description: ReleaseDescription) -> Node:
    """Return the content of `schema-org.jsonld`."""
    stated, privacy = description.stated, description.privacy
    base_url = stated.get("base_url", "")
    sentences = f"{description.text} {description.privacy_sentence()}"
    publisher = {"@type": "Organization", "name": stated.get("publisher")}
    publisher |= {"url": stated.get("publisher_url"), "email": description.email}
    return {
        "@context": "https://schema.org/",
        "@type": "Dataset",
        "identifier": description.identifier,
        "name": description.title,
        "description": sentences[:_MOST_LETTERS],
        "inLanguage": description.language,
        "url": stated.get("landing_page") or base_url,
        "version": description.version,
        "keywords": stated.get("keywords"),
        "license": description.license_url,
        "publisher": publisher if publisher["name"] else None,
        "spatialCoverage": _places(description),
        "temporalCoverage": "/".join(description.coverage.period() or ()),
        "measurementTechnique": f"{privacy['model']}, epsilon {privacy['epsilon']}, privacy unit "
        f"{privacy['privacy_unit']}",
        "variableMeasured": [
            {
                "@type": "PropertyValue",
                "name": column.name,
                "description": column.text,
                "unitText": column.unit,
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


def _places(description: ReleaseDescription) -> list[Node]:
    area, box = description.stated.get("spatial"), description.coverage.box
    places: list[Node] = [{"@type": "Place", "@id": area}] if area else []
    if box is not None:
        west, south, east, north = box
        shape = {"@type": "GeoShape", "box": f"{south} {west} {north} {east}"}
        places.append({"@type": "Place", "geo": shape})
    return places


PREFIXES = {
    "dcat": "http://www.w3.org/ns/dcat#",
    "dct": "http://purl.org/dc/terms/",
    "dpv": "https://w3id.org/dpv#",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "geo": "http://www.opengis.net/ont/geosparql#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "vcard": "http://www.w3.org/2006/vcard/ns#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}
_EU = "http://publications.europa.eu/resource/authority"
_MEDIA_TYPES = "https://www.iana.org/assignments/media-types"
HERE = "./"
"""Relative address of the folder, which is the dataset."""
VERSION = "1.1.0"


def context(base_url: str | None) -> Node:
    """Return the JSON-LD context, with the folder's address if it is known."""
    return PREFIXES if base_url is None else {"@base": base_url, **PREFIXES}


def dataset_document(description: ReleaseDescription) -> Node:
    """Return the JSON-LD document of a release."""
    stated, language = description.stated, description.language
    agent = {"@type": "foaf:Agent", "foaf:name": stated.get("publisher")}
    agent |= {"foaf:homepage": _reference(stated.get("publisher_url"), "foaf:Document")}
    return {
        "@context": context(stated.get("base_url")),
        "@id": HERE,
        "@type": "dcat:Dataset",
        "dct:identifier": description.identifier,
        "dct:title": text(description.title, language),
        "dct:description": text(description.text, language),
        "dcat:version": description.version,
        "dct:publisher": agent if agent["foaf:name"] else None,
        "dcat:contactPoint": _contact(stated) if "contact" in stated else None,
        "dcat:keyword": [text(keyword, language) for keyword in stated.get("keywords", ())],
        "dcat:theme": [_theme(theme) for theme in stated.get("theme", ())],
        "dcat:landingPage": _reference(stated.get("landing_page"), "foaf:Document"),
        **_coverage(description.coverage, stated.get("spatial")),
        "dct:provenance": {
            "@type": "dct:ProvenanceStatement",
            "rdfs:label": text(description.privacy_sentence(), "en"),
        },
        "dpv:hasTechnicalMeasure": {"@id": "dpv:DifferentialPrivacy"},
        "dcat:distribution": [_distribution(file, description) for file in description.files],
    }


def _theme(theme: str) -> Node:
    """Return a theme; a concept must have a label, which is its code for those of the EU."""
    if theme not in THEMES:
        return {"@id": theme}
    label = text(theme, "en")
    return {"@id": f"{_EU}/data-theme/{theme}", "@type": "skos:Concept", "skos:prefLabel": label}


def text(words: str, language: str) -> Node:
    """Return a text with its language."""
    return {"@value": words, "@language": language}


def _contact(stated: Node) -> Node:
    contact = stated["contact"]
    name = stated.get("publisher", contact)
    key, address = ("hasURL", contact) if "://" in contact else ("hasEmail", f"mailto:{contact}")
    return {"@type": "vcard:Kind", "vcard:fn": name, f"vcard:{key}": {"@id": address}}


def _coverage(coverage: Coverage, area: str | None) -> Node:
    places = [_reference(area, "dct:Location")] if area else []
    if coverage.box is not None:
        shape = _typed("geo:wktLiteral", box_text(coverage.box))
        places.append({"@type": "dct:Location", "dcat:bbox": shape})
    kind = "xsd:date" if coverage.start is None else "xsd:dateTime"
    first, final = (_typed(kind, end) for end in coverage.period() or ("", ""))
    period = {"@type": "dct:PeriodOfTime", "dcat:startDate": first, "dcat:endDate": final}
    return {"dct:spatial": places, "dct:temporal": period if first["@value"] else None}


def box_text(box: Box) -> str:
    """Return a box as well-known text: a polygon, or two at the 180th meridian.

    Examples
    --------
    >>> box_text((1.0, 2.0, 3.0, 4.0))
    'POLYGON((1.0 2.0,3.0 2.0,3.0 4.0,1.0 4.0,1.0 2.0))'
    """
    rings = [",".join(f"{x} {y}" for x, y in ring) for ring in box_rings(box)]
    if len(rings) == 1:
        return f"POLYGON(({rings[0]}))"
    return f"MULTIPOLYGON({','.join(f'(({ring}))' for ring in rings)})"


def box_rings(box: Box) -> list[list[list[float]]]:
    """Return the closed rings of a box, counter-clockwise; two if it crosses the 180th meridian."""
    west, south, east, north = box
    pieces = [(west, east)] if west <= east else [(west, 180.0), (-180.0, east)]
    return [
        [[low, south], [high, south], [high, north], [low, north], [low, south]]
        for low, high in pieces
    ]


def _distribution(file: DataFile, description: ReleaseDescription) -> Node:
    kind = f"{_EU}/file-type/{file.eu_format}"
    return {
        "@id": f"{HERE}#{file.key}",
        "@type": "dcat:Distribution",
        "dct:title": text(file.title, "en"),
        "dcat:accessURL": {"@id": file.name},
        "dcat:downloadURL": {"@id": file.name},
        "dcat:mediaType": _reference(f"{_MEDIA_TYPES}/{file.media_type}", "dct:MediaType"),
        "dct:format": _reference(kind, "dct:MediaTypeOrExtent"),
        "dct:license": _reference(description.license_url, "dct:LicenseDocument"),
    }


def _reference(address: str | None, kind: str) -> Node | None:
    return {"@id": address, "@type": kind} if address else None


def _typed(kind: str, words: str) -> Node:
    return {"@type": kind, "@value": words}


def item(description: ReleaseDescription) -> Node | None:
    """Return the Item of a release; None where its period, which it must state, is not known."""
    coverage, stated = description.coverage, description.stated
    if coverage.start is None:
        return None
    box, (start, end) = coverage.box, coverage.period() or ("", "")
    licence, name = str(stated.get("license", "")), stated.get("publisher")
    provider = {"name": name, "url": stated.get("publisher_url")}
    link = {"rel": "license", "href": description.license_url}
    return {
        "type": "Feature",
        "stac_version": VERSION,
        "id": description.name,
        "geometry": None if box is None else footprint(box),
        "bbox": box and list(box),
        "properties": {
            "datetime": None,
            "start_datetime": start,
            "end_datetime": end,
            "title": description.title,
            "description": description.text,
            "license": "other" if "://" in licence else licence,
            "providers": [provider] if name else [],
            "keywords": stated.get("keywords"),
            "hexveil:request": description.identifier,
            "hexveil:privacy": description.privacy,
            "table:row_count": description.rows,
        },
        "links": [link] if licence else [],
        "assets": {
            file.key: {
                "href": f"./{file.name}",
                "type": file.media_type,
                "title": file.title,
                "roles": [file.role],
            }
            for file in description.files
        },
    }


def footprint(box: Box) -> Node:
    """Return the outline of a box as GeoJSON; in two parts at the 180th meridian."""
    rings = box_rings(box)
    if len(rings) == 1:
        return {"type": "Polygon", "coordinates": rings}
    return {"type": "MultiPolygon", "coordinates": [[ring] for ring in rings]}


DOCUMENTS: dict[str, Callable[[ReleaseDescription], Node | None]] = {
    DCAT: dataset_document,
    SCHEMA_ORG: schema_org_dataset,
    DATA_PACKAGE: data_package,
    ITEM: item,
}
"""What makes each file; None where it cannot be made."""
NAMES = tuple(DOCUMENTS)
ALWAYS = tuple(name for name in NAMES if name != ITEM)
"""In every folder; the STAC Item is where the period of the release is known."""

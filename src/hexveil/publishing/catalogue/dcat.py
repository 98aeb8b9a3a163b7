"""Description of a release as a dataset of DCAT-AP 3, in JSON-LD.

The privacy statement stands in `dct:provenance` in words; its epsilon is a quality measurement of
the W3C Data Quality Vocabulary, and the measure is that of the Data Privacy Vocabulary (DPV).
Addresses are relative to the folder, or to `@base` where its holder states the folder's URL.

Description of a release as an Item of the SpatioTemporal Asset Catalog (STAC 1.1).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from hexveil.publishing.catalogue.data_files import DataFile
from hexveil.publishing.catalogue.holder_statements import THEMES
from hexveil.publishing.catalogue.release_description import (
    Box,
    Coverage,
    PrivacyStatement,
    ReleaseDescription,
    instant_text,
    stated_facts,
)
from hexveil.report.templates import render_sentence

Node = dict[str, Any]


PREFIXES = {
    "dcat": "http://www.w3.org/ns/dcat#",
    "dct": "http://purl.org/dc/terms/",
    "dpv": "https://w3id.org/dpv#",
    "dqv": "http://www.w3.org/ns/dqv#",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "geo": "http://www.opengis.net/ont/geosparql#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "vcard": "http://www.w3.org/2006/vcard/ns#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}
_EU = "http://publications.europa.eu/resource/authority"
_MEDIA_TYPES = "https://www.iana.org/assignments/media-types"
_LANGUAGES = {
    "bg": "BUL", "cs": "CES", "da": "DAN", "de": "DEU", "el": "ELL", "en": "ENG", "es": "SPA",
    "et": "EST", "fi": "FIN", "fr": "FRA", "ga": "GLE", "hr": "HRV", "hu": "HUN", "it": "ITA",
    "lt": "LIT", "lv": "LAV", "mt": "MLT", "nl": "NLD", "pl": "POL", "pt": "POR", "ro": "RON",
    "sk": "SLK", "sl": "SLV", "sv": "SWE",
}  # fmt: skip
"""Codes of the EU's authority table; other languages are stated by their tags alone."""
HERE = "./"
"""Relative address of the folder, which is the dataset."""


def context(base_url: str | None) -> Node:
    """Return the JSON-LD context, with the folder's address if it is known."""
    return PREFIXES if base_url is None else {"@base": base_url, **PREFIXES}


def dataset_document(description: ReleaseDescription) -> Node:
    """Return the JSON-LD document of a release."""
    return {"@context": context(description.stated.get("base_url")), **_dataset(description)}


def _dataset(description: ReleaseDescription) -> Node:
    stated, language = description.stated, description.language
    return {
        "@id": HERE,
        "@type": "dcat:Dataset",
        "dct:identifier": description.identifier,
        "dct:title": text(description.title, language),
        "dct:description": text(description.text, language),
        **stated_facts({"dcat:version": description.version}),
        **_holder_properties(stated, language),
        **_if(
            description.timeslot,
            {"dcat:temporalResolution": _typed("xsd:duration", description.timeslot)},
        ),
        **_coverage(description.coverage, stated.get("spatial")),
        **_privacy(description.privacy),
        "dcat:distribution": [_distribution(file, description) for file in description.files],
    }


def _holder_properties(stated: Node, language: str) -> Node:
    """Return the properties of a dataset or catalogue that its holder states."""
    properties: Node = {}
    if language in _LANGUAGES:
        properties["dct:language"] = _reference(
            f"{_EU}/language/{_LANGUAGES[language]}", "dct:LinguisticSystem"
        )
    if "publisher" in stated:
        properties["dct:publisher"] = _agent(stated)
    if "contact" in stated:
        properties["dcat:contactPoint"] = _contact(stated)
    if "keywords" in stated:
        properties["dcat:keyword"] = [text(keyword, language) for keyword in stated["keywords"]]
    if "theme" in stated:
        properties["dcat:theme"] = [_theme(theme) for theme in stated["theme"]]
    if "landing_page" in stated:
        properties["dcat:landingPage"] = _reference(stated["landing_page"], "foaf:Document")
    return properties


def _theme(theme: str) -> Node:
    """Return a theme; a concept must have a label, which is known for those of the EU."""
    if theme not in THEMES:
        return {"@id": theme}
    concept = _reference(f"{_EU}/data-theme/{theme}", "skos:Concept")
    return concept | {"skos:prefLabel": text(THEMES[theme], "en")}


def text(words: str, language: str) -> Node:
    """Return a text with its language."""
    return {"@value": words, "@language": language}


def _agent(stated: Node) -> Node:
    homepage = stated.get("publisher_url")
    return {
        "@type": "foaf:Agent",
        "foaf:name": stated["publisher"],
        **_if(homepage, {"foaf:homepage": _reference(homepage, "foaf:Document")}),
    }


def _contact(stated: Node) -> Node:
    contact = stated["contact"]
    where = (
        {"vcard:hasURL": {"@id": contact}}
        if "://" in contact
        else {"vcard:hasEmail": {"@id": f"mailto:{contact}"}}
    )
    return {"@type": "vcard:Kind", "vcard:fn": stated.get("publisher", contact), **where}


def _coverage(coverage: Coverage, area: str | None) -> Node:
    properties: Node = {}
    places = [_reference(area, "dct:Location")] if area else []
    if coverage.box is not None:
        shape = _typed("geo:wktLiteral", box_text(coverage.box))
        places.append({"@type": "dct:Location", "dcat:bbox": shape})
    if places:
        properties["dct:spatial"] = places
    kind, ends = "xsd:date", coverage.days
    if coverage.start is not None and coverage.end is not None:
        kind, ends = "xsd:dateTime", (instant_text(coverage.start), instant_text(coverage.end))
    if ends is not None:
        properties["dct:temporal"] = {
            "@type": "dct:PeriodOfTime",
            "dcat:startDate": _typed(kind, ends[0]),
            "dcat:endDate": _typed(kind, ends[1]),
        }
    return properties


def box_text(box: Box) -> str:
    """Return a box as well-known text: a polygon, or two at the 180th meridian.

    Examples
    --------
    >>> box_text((1.0, 2.0, 3.0, 4.0))
    'POLYGON((1.0 2.0,3.0 2.0,3.0 4.0,1.0 4.0,1.0 2.0))'
    """
    rings = [
        ",".join(f"{longitude} {latitude}" for longitude, latitude in ring)
        for ring in box_rings(box)
    ]
    if len(rings) == 1:
        return f"POLYGON(({rings[0]}))"
    return "MULTIPOLYGON(" + ",".join(f"(({ring}))" for ring in rings) + ")"


def box_rings(box: Box) -> list[list[list[float]]]:
    """Return the closed rings of a box, counter-clockwise; two if it crosses the 180th meridian."""
    west, south, east, north = box
    pieces = [(west, east)] if west <= east else [(west, 180.0), (-180.0, east)]
    return [
        [[low, south], [high, south], [high, north], [low, north], [low, south]]
        for low, high in pieces
    ]


def _privacy(privacy: PrivacyStatement) -> Node:
    definition = render_sentence(
        "catalogue.txt", "epsilon_definition", unit=privacy.unit, delta=privacy.delta
    )
    return {
        "dct:provenance": {
            "@type": "dct:ProvenanceStatement",
            "rdfs:label": text(privacy.in_words(), "en"),
        },
        "dpv:hasTechnicalMeasure": {"@id": "dpv:DifferentialPrivacy"},
        "dqv:hasQualityMeasurement": {
            "@type": "dqv:QualityMeasurement",
            "dqv:isMeasurementOf": {
                "@type": "dqv:Metric",
                "skos:prefLabel": text("epsilon", "en"),
                "skos:definition": text(definition, "en"),
                "dqv:expectedDataType": {"@id": "xsd:decimal"},
            },
            "dqv:value": _typed("xsd:decimal", privacy.epsilon),
        },
    }


def _distribution(file: DataFile, description: ReleaseDescription) -> Node:
    licence = description.license_url
    return {
        "@id": f"{HERE}#{file.key}",
        "@type": "dcat:Distribution",
        "dct:title": text(file.title, "en"),
        "dcat:accessURL": {"@id": file.name},
        "dcat:downloadURL": {"@id": file.name},
        "dcat:mediaType": _reference(f"{_MEDIA_TYPES}/{file.media_type}", "dct:MediaType"),
        **_if(
            file.eu_format,
            {
                "dct:format": _reference(
                    f"{_EU}/file-type/{file.eu_format}", "dct:MediaTypeOrExtent"
                )
            },
        ),
        **_if(licence, {"dct:license": _reference(licence, "dct:LicenseDocument")}),
    }


def _reference(address: str | None, kind: str) -> Node:
    return {"@id": address, "@type": kind}


def _typed(kind: str, words: str) -> Node:
    return {"@type": kind, "@value": words}


def _if(condition: object, properties: Node) -> Node:
    return properties if condition else {}


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

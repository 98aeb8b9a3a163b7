"""Pages as they are written, and releases whose table or statements are others."""

import json
import re
import tempfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa


def page_of(release, **options):
    """Return the page of a release, or of derived numbers, that are written, as text."""
    with tempfile.TemporaryDirectory() as home:
        (page,) = release.write(Path(home) / "map", **options).glob("*.html")
        return page.read_text("utf-8")


def data_of(html):
    """Return the data of a page, with the columns that its scripts begin with."""
    data = json.loads(re.search(r'id="data">(.*?)</script>', html, re.DOTALL)[1])
    data["columns"] |= data["value_columns"][0]["counts"] | data["choices"][0]["columns"]
    return data


def restated(release, table=None, own=None, **sections):
    """Return a release with another table, and sections of its manifest and component changed."""
    (column,) = release.manifest["components"]
    sections |= {"components": [_joined(column, own or {})]}
    table = release.table if table is None else _described(table)
    return replace(release, table=table, manifest=_joined(release.manifest, sections))


def _described(table):
    """Return a table whose columns have a meaning, as those of a release have."""
    meaning = {"unit": "", "description": "A column."}
    return table.cast(pa.schema([field.with_metadata(meaning) for field in table.schema]))


def _joined(old, new):
    """Return sections of which some are others, or have other entries."""
    return old | {
        key: old[key] | part if isinstance(part, dict) and key in old else part
        for key, part in new.items()
    }


def with_column(table, name, values):
    """Return a table with another column of this name."""
    return table.set_column(table.column_names.index(name), name, [values])


def write_layer(folder, *features, **facts):
    """Write a GeoJSON file of features, each its properties, type and coordinates."""
    content = {
        "type": "FeatureCollection",
        "features": [
            {
                "type": "Feature",
                "properties": properties,
                "geometry": kind and {"type": kind, "coordinates": coordinates},
            }
            for properties, kind, coordinates in features
        ],
    }
    file = folder / "context.geojson"
    file.write_text(json.dumps(content | facts), encoding="utf-8")
    return file

"""Comparison of a release's files with those that this version makes of its table and manifest.

CSV and GeoJSON are made of the table again and compared; GeoJSON as text first, then by its values,
since another processor may compute a corner with other digits. README.txt, the page and the
descriptions for portals are made again of table and manifest; of a release by another version their
words are not compared. The holder's layer beneath the page's map is in no other file: its
lines and names are taken from the page, where they are data, and everything around them is
compared.
"""

from __future__ import annotations

import contextlib
import html
import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hexveil.base.arrow_tables import write_csv
from hexveil.base.errors import HexveilError
from hexveil.publishing.catalogue import metadata_files
from hexveil.publishing.estimates import places
from hexveil.publishing.folder import PAGE, derive_texts, round_to_intervals
from hexveil.publishing.verification import untrusted_files, whole_checks
from hexveil.report.geography.background import MAX_CONTEXT_BYTES
from hexveil.report.geography.context import Layer
from hexveil.report.payload import script_json

Json = dict[str, Any]

MAX_SPELLING_FACTOR = 4
"""Largest length of the same cells in another spelling, as a multiple of ours."""
DATA = '<script type="application/json" id="data">'
LAYER = re.compile('<span id="layer">([^<]{0,2000})</span>')
MOST_TIMES = 4
"""Size of a page's data with a layer, as a multiple of that without its names, at most."""
_SOURCE = "manifest.json and cells.parquet say"
OF_LAYER = ("labels", "streets", "context", "words")
"""Parts of a page's map that follow from the holder's layer."""


def compare_csv(folder: Path, table: pa.Table) -> Iterator[str]:
    """Yield if cells.csv does not hold the table's rows, rounded to their intervals."""
    expected = io.BytesIO()
    write_csv(round_to_intervals(as_released(table)), expected)
    if untrusted_files.read_content(folder / "cells.csv") != expected.getvalue():
        yield "cells.csv and cells.parquet do not have the same rows."


def compare_geojson(folder: Path, table: pa.Table) -> Iterator[str]:
    """Yield if cells.geojson does not hold the table's cells, or is there for labels."""
    path = folder / "cells.geojson"
    expected = places.geojson(round_to_intervals(whole_checks.without_geometry(table))) or b""
    content = untrusted_files.read_content(path) if path.exists() else b""
    if not content and 0 < len(expected) <= untrusted_files.LIMITS[path.name]:
        yield "cells.geojson is missing."
    elif content and not expected:
        yield "cells.geojson is there, and cells.parquet has no hexagons."
    elif (
        content
        and content != expected
        and (
            len(content) > MAX_SPELLING_FACTOR * len(expected)
            or not _has_features(untrusted_files.parse_json(content), json.loads(expected))
        )
    ):
        yield "cells.geojson and cells.parquet do not have the same cells."


def _has_features(collection: Json, expected: Json) -> bool:
    """Return whether two collections are equal, corners up to rounding; taken out of both."""
    corners, expected_corners = (
        np.array([feature["geometry"].pop("coordinates") for feature in made["features"]])
        for made in (collection, expected)
    )
    is_close = corners.shape == expected_corners.shape and np.allclose(
        corners, expected_corners, rtol=0, atol=whole_checks.PLACE_TOLERANCE
    )
    # As texts, since true equals 1 and 1 equals 1.0 as values.
    return is_close and json.dumps(collection) == json.dumps(expected)


def compare_texts(folder: Path, table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield if README.txt, page or descriptions for portals do not agree with both."""
    if not whole_checks.is_same_version(manifest):
        return
    names = frozenset(path.name for path in folder.iterdir()) & untrusted_files.LIMITS.keys()
    texts, page = derive_texts(as_released(table), manifest, names)
    for name in ("README.txt", *metadata_files.NAMES):
        present = untrusted_files.read_content(folder / name) if name in names else None
        if present == texts.get(name):
            continue
        yield f"{name} is missing." if present is None else f"{name} is not what {_SOURCE}."
    yield from compare_page(folder, page)


def as_released(table: pa.Table) -> pa.Table:
    """Return the table without outlines, with times in the seconds that Parquet does not have."""
    table = whole_checks.without_geometry(table)
    metadata = dict(table.schema.metadata or {})
    metadata.pop(b"geo", None)
    if "starts_at_utc" in table.column_names:
        index = table.column_names.index("starts_at_utc")
        field = table.schema.field(index).with_type(untrusted_files.TIME)
        table = table.set_column(index, field, table.column(index).cast(untrusted_files.TIME))
    return table.replace_schema_metadata(metadata or None)


def has_layer(folder: Path) -> bool:
    """Return whether a page has lines and names of its holder, which cannot be compared."""
    return LAYER.search(_read(folder)) is not None


def compare_page(folder: Path, render: Callable[..., str]) -> Iterator[str]:
    """Yield if the page is not the one that is rendered.

    Parameters
    ----------
    folder : Path
    render : callable
        Makes the page, given `context` and `geography`.
    """
    page, layer = _read(folder), None
    if credit := LAYER.search(page):
        layer = Layer([], html.unescape(credit[1]))
    try:
        # Quotes inside of texts are escaped, so that this is no part of one.
        expected = render(context=layer, geography='"attribution":""' not in page)
    except HexveilError:
        yield f"{PAGE} cannot be compared."
        return
    if page != expected and (layer is None or page != _with_layer(page, expected)):
        yield f"{PAGE} is not what manifest.json and cells.parquet say."


def _with_layer(page: str, expected: str) -> str:
    """Return the expected page with the layer of another; as it is if that has none."""
    (_, data, _), (head, expected_data, tail) = split_page(page), split_page(expected)
    # Sizes first: parsed, a page takes many times its size.
    if len(data) > MOST_TIMES * len(expected_data) + MAX_CONTEXT_BYTES:
        return expected
    with contextlib.suppress(ValueError, RecursionError, KeyError, TypeError):
        page_content, content = json.loads(data), json.loads(expected_data)
        content["map"] |= {key: page_content["map"][key] for key in OF_LAYER}
        return f"{head}{DATA}{script_json(content)}</script>{tail}"
    return expected


def _read(folder: Path) -> str:
    return untrusted_files.read_content(folder / PAGE).decode("utf-8")


def split_page(page: str) -> tuple[str, str, str]:
    """Return the data of a page's scripts, with the text before and after it."""
    head, _, remainder = page.partition(DATA)
    data, _, tail = remainder.partition("</script>")
    return head, data, tail

"""Comparison of a release's page with the one that this version makes of table and manifest.

The holder's layer beneath the map is in no other file: its lines and names are taken from the page,
where they are data, and everything around them is compared.
"""

from __future__ import annotations

import html
import json
import re
from typing import TYPE_CHECKING

from hexveil.base.errors import HexveilError
from hexveil.publishing.verification.files import untrusted_files
from hexveil.report.background import MAX_CONTEXT_BYTES
from hexveil.report.payload import script_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PAGE = "report.html"
DATA = '<script type="application/json" id="data">'
LAYER = re.compile('<span id="layer">([^<]{0,2000})</span>')
MOST_TIMES = 4
"""Size of a page's data with a layer, as a multiple of that without its names, at most."""
OF_LAYER = ("labels", "streets", "context", "words")
"""Parts of a page's map that follow from the holder's layer."""


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
        layer = {"type": "FeatureCollection", "features": []}
        layer["attribution"] = html.unescape(credit[1])
    try:
        # Quotes inside of texts are escaped, so that this is no part of one.
        expected = render(context=layer, geography='"attribution":""' not in page)
    except HexveilError:
        yield f"{PAGE} cannot be compared."
        return
    if page != expected and not (layer and _differs_in_layer(page, expected)):
        yield f"{PAGE} is not what manifest.json and cells.parquet say."


def _differs_in_layer(page: str, expected: str) -> bool:
    """Return whether two pages differ in the parts of the layer alone."""
    head, data, tail = _split(page)
    own_before, own_data, own_after = _split(expected)
    # Sizes first: parsed, a page takes many times its size.
    if (head, tail) != (own_before, own_after) or len(data) > MOST_TIMES * len(
        own_data
    ) + MAX_CONTEXT_BYTES:
        return False
    drawn, own_map = (json.loads(text)["map"] for text in (data, own_data))
    if not isinstance(drawn, dict) or drawn.keys() != own_map.keys():
        return False
    own_payload = json.loads(own_data)
    own_payload["map"] |= {key: drawn[key] for key in OF_LAYER}
    return script_json(own_payload) == data


def _read(folder: Path) -> str:
    return untrusted_files.read_content(folder / PAGE).decode("utf-8")


def _split(page: str) -> tuple[str, str, str]:
    """Return the data of a page's scripts, with the text before and after it."""
    head, _, remainder = page.partition(DATA)
    data, _, tail = remainder.partition("</script>")
    return head, data, tail

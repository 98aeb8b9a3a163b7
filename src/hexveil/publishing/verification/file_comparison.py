"""Comparison of a release's table with its manifest, and of all files with what is made of these.

Columns, cells, and places by name and outline; of the columns that name cells for people only those
are compared that this version of hexveil wrote. CSV and GeoJSON are made of the table again and
compared; GeoJSON as text first, then by its values, since another processor may compute a corner
with other digits. README.txt, the page and the descriptions for portals are made again of table and
manifest; of a release by another version their words are not compared. The holder's layer beneath
the page's map is in no other file: its lines and names are taken from the page, where they are
data, and everything around them is compared.

The largest loss of the whole lies between the largest of a column and the sum of these, and the sum
over all units is that of the columns; under private presence any unit loses exactly the sum of the
columns' ε. Under a δ squares of μ add up in place of ε.
"""

import contextlib
import html
import io
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hexveil.accounting.promise import summed
from hexveil.base import hexagons
from hexveil.base.arrow_tables import write_csv
from hexveil.base.errors import HexveilError
from hexveil.base.optional_packages import installed_version
from hexveil.publishing.catalogue import metadata_files
from hexveil.publishing.components import column_names
from hexveil.publishing.estimates import places
from hexveil.publishing.estimates.places import with_places
from hexveil.publishing.folder import PAGE, derive_texts, round_to_intervals
from hexveil.publishing.kinds import guarantee
from hexveil.publishing.part_kinds import KINDS
from hexveil.publishing.verification import untrusted_files
from hexveil.report.geography.background import MAX_CONTEXT_BYTES
from hexveil.report.geography.context import Layer
from hexveil.report.manifest_view import numbers_of
from hexveil.report.payload import script_json

Json = dict[str, Any]

# Exceptions of reading files that a stranger wrote.
READ_ERRORS = (
    OSError, pa.ArrowException, ValueError, TypeError, LookupError, ArithmeticError,
    RecursionError, MemoryError,
)  # fmt: skip
PLACE_TOLERANCE = 1e-9
"""Degrees, a tenth of a millimetre, by which versions of H3 may differ."""


def is_same_version(manifest: Json) -> bool:
    """Return whether this version of hexveil made the release: then its words are known."""
    return bool(manifest["software"]["hexveil"] == installed_version())


def without_geometry(table: pa.Table) -> pa.Table:
    """Return the table without outlines."""
    return table.drop_columns(["geometry"]) if "geometry" in table.column_names else table


def check_columns(table: pa.Table, grid: Json, needed: Collection[str]) -> Iterator[str]:
    """Yield columns that no such release has, and those that are missing.

    Parameters
    ----------
    table : pyarrow.Table
    grid : dict
    needed : collection of str
        Columns that follow from the manifest, beside those of places and labels.
    """
    labels = grid.get("columns", [])
    outlines = ("hexagon", "geometry") if grid["kind"] == "hexagons" else ()
    strange = sorted({*table.column_names} - {*needed, *places.PLACE, *labels, *outlines})
    if strange:
        yield f"cells.parquet has a column {strange[0]!r}, which no such release has."
    for name in ("cell", *needed, *outlines, *labels):
        if name not in table.column_names:
            yield f"cells.parquet has no column {name!r}."


def check_places(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield cells that stand twice, hexagons with another's outline, and other names."""
    names, bare = table["cell"].to_pylist(), without_geometry(table)
    if len(set(names)) < len(names):
        yield "a cell stands twice."
    if "hexagon" in table.column_names:
        level = manifest["grid"].get("resolution")
        named = set(table["hexagon"].to_pylist())
        if level is None or not all(hexagons.is_name(name, level) for name in named):
            yield "cells.parquet has a hexagon that is none of the grid in manifest.json."
            return
        outlines = places.with_geometry(bare)["geometry"].to_pylist()
        if not all(map(_is_same_outline, table["geometry"].to_pylist(), outlines)):
            yield "the outline of a hexagon is not its own."
    # Another version may know other names of places, and did not write all of these columns.
    known = is_same_version(manifest)
    placed = [with_places(bare, manifest, geography=words) for words in (True, False)]
    if known and bare.column_names != placed[0].column_names:
        yield "cells.parquet does not begin with the columns of every release, in their order."
        return
    for name in places.added_columns(bare, manifest):
        if pa.types.is_floating(bare[name].type):
            stated, expected = (numbers_of(one, name) for one in (bare, placed[0]))
            is_same = bool(np.allclose(stated, expected, atol=1e-5, rtol=0))
        else:
            texts = [one[name].to_pylist() for one in (bare, *placed)]
            is_same = not known or texts[0] in texts[1:]
        if not is_same:
            yield f"{name} is not what follows from the cells and manifest.json."


def _is_same_outline(outline: bytes, expected: bytes) -> bool:
    """Return whether two outlines as well-known binary are equal up to rounding."""
    if outline == expected or len(outline) != len(expected) or outline[:13] != expected[:13]:
        return outline == expected
    corners, expected_corners = (np.frombuffer(data[13:], "<f8") for data in (outline, expected))
    return bool(np.allclose(corners, expected_corners, rtol=0, atol=PLACE_TOLERANCE))


def until_error(problems: Iterable[str], sentence: str) -> list[str]:
    """Return problems as far as a stranger's numbers let them be found, or none and all is well."""
    issues: list[str] = []
    # Hostile numbers may be of any size.
    with contextlib.suppress(*READ_ERRORS), np.errstate(all="ignore"):
        for problem in problems:
            issues.append(problem)  # noqa: PERF402  those before an error are kept
        return issues
    return [*issues, sentence]


def check_together(manifest: Json) -> Iterator[str]:
    """Yield components that no manifest has together; run before any of their parts is used."""
    names, components = column_names(manifest), manifest["components"]
    if len(set(names)) < len(names):
        yield "manifest.json names a value column twice."
    protects = {KINDS[component["kind"]].protect for component in components}
    private = guarantee.is_private(manifest)
    if protects != {manifest["guarantee"]["protect"]}:
        yield "a component is of another privacy model than guarantee/protect."
    elif ("losses" in manifest) == private or ("cells" in manifest["grid"]) != private:
        yield "losses or grid/cells do not belong to guarantee/protect."
    if any(component.get("cells") == [] for component in components):
        yield "manifest.json has no cells."
    if len({tuple(component["plan"]["statistics"]) for component in components}) > 1:
        yield "the value columns have other statistics."
    for component in components:
        targets = component["plan"].get("request", {}).get("targets")
        if ("weight" in component) != (len(components) > 1 and not targets):
            yield "components/weight does not belong to a component."


def check_whole(manifest: Json, statements: Mapping[str, Json]) -> Iterator[str]:
    """Yield statements on the whole that those of the value columns exclude."""
    yield from guarantee.check_guarantee(manifest, words=is_same_version(manifest))
    promise, (leading, *others) = manifest["guarantee"], manifest["components"]
    free = not Fraction(promise["epsilon_spent"])
    if free != (manifest["ledger"] is None):
        yield "a release that cost nothing has no entry in a ledger, and every other one has."
    if not others:
        stated = ("epsilon_requested", "epsilon_spent")
        if any(promise[key] != leading[key] for key in stated):
            yield "guarantee/epsilon_requested or epsilon_spent is not that of the component."
        if manifest.get("losses") != leading.get("losses"):
            yield "losses are not those of the component."
    elif guarantee.is_private(manifest):
        spent = [Fraction(component["epsilon_spent"]) for component in manifest["components"]]
        total = guarantee.epsilon_text(summed(spent, guarantee.delta_of(manifest)).epsilon)
        if promise["epsilon_spent"] != total:
            yield "epsilon_spent is not the sum of the losses of the columns."
        if Fraction(total) > Fraction(promise["epsilon_requested"]) + Fraction(1, 10**11):
            yield "more was spent than asked for."
    else:
        yield from _check_public_losses(manifest, [own["losses"] for own in statements.values()])


def _check_public_losses(manifest: Json, columns: Sequence[Json]) -> Iterator[str]:
    """Yield losses of the whole that those of the columns exclude."""
    yield from guarantee.check_losses(manifest)
    losses, name = manifest["losses"], "squared_mu" if guarantee.delta_of(manifest) else "losses"
    added, *own = (one.get("squared_mu", one) for one in (losses, *columns))
    for what, whole, parts, room in (
        (f"{name}/max", added["max"], [one["max"] for one in own], 1.0 + guarantee.TOLERANCE),
        ("losses/units", losses["units"], [one["units"] for one in columns], 1.0),
    ):
        if not max(parts) <= whole * room <= sum(parts) * room**2:
            yield f"{what} is not between the largest of a column and the sum of these."
    total = math.fsum(all_["units"] * one["mean"] for all_, one in zip(columns, own, strict=True))
    if not math.isclose(losses["units"] * added["mean"], total, rel_tol=1e-6, abs_tol=1e-12):
        yield f"{name}/mean is not that of all columns."


# ---- files that are made of table and manifest ----

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
    expected = places.geojson(round_to_intervals(without_geometry(table))) or b""
    content = untrusted_files.read_content(path) if path.exists() else b""
    if not content and 0 < len(expected) <= untrusted_files.LIMITS[path.name]:
        yield "cells.geojson is missing."
    elif content and not expected:
        yield "cells.geojson is there, and cells.parquet has no hexagons."
    elif content and content != expected:
        too_long = len(content) > MAX_SPELLING_FACTOR * len(expected)
        if too_long or not _has_features(untrusted_files.parse_json(content), json.loads(expected)):
            yield "cells.geojson and cells.parquet do not have the same cells."


def _has_features(collection: Json, expected: Json) -> bool:
    """Return whether two collections are equal, corners up to rounding; taken out of both."""
    corners, expected_corners = (
        np.array([feature["geometry"].pop("coordinates") for feature in made["features"]])
        for made in (collection, expected)
    )
    is_close = corners.shape == expected_corners.shape and np.allclose(
        corners, expected_corners, rtol=0, atol=PLACE_TOLERANCE
    )
    # As texts, since true equals 1 and 1 equals 1.0 as values.
    return is_close and json.dumps(collection) == json.dumps(expected)


def compare_texts(folder: Path, table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield if README.txt, page or descriptions for portals do not agree with both."""
    if not is_same_version(manifest):
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
    table = without_geometry(table)
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

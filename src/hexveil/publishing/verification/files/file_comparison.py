"""Comparison of a release's files: every value of each against the Parquet table.

CSV and GeoJSON are made of the table anew and compared, as text first, then value by value, since
another version of a library may write the same number with other digits. README.txt, the page and
the descriptions for portals are made anew from table and manifest, as this version of hexveil
would; of a release by another version their words are not compared. Of the table itself: its
columns against each other and against the manifest.
"""

from __future__ import annotations

import importlib.metadata
import io
import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from hexveil.accounting.error_model import predicted_bound
from hexveil.base import csv_safety, hexagons
from hexveil.publishing import geometry, places
from hexveil.publishing.carried_digits import round_to_intervals
from hexveil.publishing.catalogue import metadata_files
from hexveil.publishing.catalogue.folder_files import TILES
from hexveil.publishing.estimates.quality_grades import grade
from hexveil.publishing.estimates.released_columns import ALL_COLUMNS, POSTERIOR, STATISTICS
from hexveil.publishing.estimates.table import cells_cut_off
from hexveil.publishing.folder import render_page
from hexveil.publishing.places import with_places, without_places
from hexveil.publishing.readme import render_readme
from hexveil.publishing.verification.files import untrusted_files
from hexveil.publishing.verification.files.page_comparison import compare_page
from hexveil.report.manifest_view import RANGE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from hexveil.base.arrays import Floats
    from hexveil.publishing.verification.release_statements import (
        ReleaseStatements,
        StatedStatistic,
    )

    Json = dict[str, Any]

TOLERANCE = 1e-9
PLACE_TOLERANCE = 1e-9
"""Degrees, a tenth of a millimetre, by which versions of H3 may differ."""
ROUNDING_SHARE = 2.0**-49
"""Largest relative rounding of a number on its grid."""
MAX_SPELLING_FACTOR = 4
"""Largest length of the same rows in another spelling, as a multiple of ours."""


# ---- other files ----


def compare_csv(folder: Path, table: pa.Table) -> Iterator[str]:
    """Yield if cells.csv does not hold the table's rows, rounded to their intervals."""
    content = untrusted_files.read_content(folder / "cells.csv")
    # Earlier versions wrote all digits.
    if not any(_is_csv(content, rounded) for rounded in _shown_tables(table)):
        yield "cells.csv and cells.parquet do not have the same rows."


def _shown_tables(table: pa.Table) -> Iterator[pa.Table]:
    """Yield the table as this version writes it for people, then with all digits."""
    bare = without_geometry(table)
    yield round_to_intervals(bare)
    yield bare


def _is_csv(content: bytes, table: pa.Table) -> bool:
    guarded, expected = csv_safety.escape_formulas(table), io.BytesIO()
    pa.csv.write_csv(guarded, expected)
    # Bytes first: parsing is slower, and only needed for another spelling.
    if content == expected.getvalue():
        return True
    head = expected.getvalue().partition(b"\n")[0]
    is_alike = len(content) <= MAX_SPELLING_FACTOR * expected.tell() and content.startswith(head)
    return is_alike and _has_rows(content, guarded)


def _has_rows(content: bytes, expected: pa.Table) -> bool:
    """Return whether CSV holds these rows, each column read with its type in the table."""
    types = {field.name: field.type for field in expected.schema}
    options = pa.csv.ConvertOptions(column_types=types, strings_can_be_null=False)
    parsing = pa.csv.ParseOptions(newlines_in_values=True)
    # Threads would read rows out of order where a quoted text has line breaks.
    in_order = pa.csv.ReadOptions(use_threads=False)
    table = pa.csv.read_csv(pa.BufferReader(content), in_order, parsing, options)
    return table.column_names == expected.column_names and all(
        table[name].to_pylist() == expected[name].to_pylist() for name in expected.column_names
    )


def compare_geojson(folder: Path, table: pa.Table) -> Iterator[str]:
    """Yield if cells.geojson does not hold the table's cells, or is there for labels."""
    path = folder / "cells.geojson"
    tables = _shown_tables(table)
    expected = geometry.geojson(next(tables))
    if not path.exists():
        if expected is not None and len(expected) <= untrusted_files.LIMITS[path.name]:
            yield "cells.geojson is missing."
        return
    if expected is None:
        yield "cells.geojson is there, and cells.parquet has no hexagons."
        return
    content = untrusted_files.read_content(path)
    if content == expected:
        return
    if len(content) > MAX_SPELLING_FACTOR * len(expected) or not any(
        _is_equal_json(untrusted_files.parse_json(content), untrusted_files.parse_json(spelled))
        for spelled in (expected, geometry.geojson(next(tables)) or b"{}")
    ):
        yield "cells.geojson and cells.parquet do not have the same cells."


def _is_equal_json(value: object, expected: object) -> bool:
    """Return whether two JSON values are equal, places up to rounding."""
    if isinstance(expected, dict) and isinstance(value, dict):
        return list(value) == list(expected) and all(
            _is_close_place(value[key], expected[key])
            if key == "coordinates"
            else _is_equal_json(value[key], expected[key])
            for key in expected
        )
    if isinstance(expected, list) and isinstance(value, list):
        return len(value) == len(expected) and all(map(_is_equal_json, value, expected))
    return type(value) is type(expected) and value == expected


def _is_close_place(place: object, expected: object) -> bool:
    corners, expected_corners = (
        np.array(place, dtype=np.float64),
        np.array(expected, dtype=np.float64),
    )
    return corners.shape == expected_corners.shape and bool(
        np.allclose(corners, expected_corners, rtol=0, atol=PLACE_TOLERANCE)
    )


def compare_readme(folder: Path, table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield if README.txt does not agree with table and manifest; see `is_same_version`."""
    if not is_same_version(manifest):
        return
    mapped, tiled = ((folder / name).exists() for name in ("cells.geojson", TILES))
    text = render_readme(without_geometry(table), manifest, mapped=mapped, tiled=tiled)
    if untrusted_files.read_content(folder / "README.txt") != text.encode():
        yield "README.txt is not what manifest.json and cells.parquet say."


def compare_metadata(folder: Path, table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield if page and descriptions for portals do not agree with both, as README.txt."""
    if not is_same_version(manifest):
        return
    # What was added is no release's, and was named already.
    names = frozenset(path.name for path in folder.iterdir()) & untrusted_files.LIMITS.keys()
    table = as_released(table)
    expected = metadata_files.render_metadata(table, manifest, names)
    yield from compare_descriptions(folder, names, expected, "manifest.json and cells.parquet say")
    yield from compare_page(folder, partial(render_page, table, manifest, expected, names))


def compare_descriptions(
    folder: Path, names: frozenset[str], expected: Mapping[str, bytes], source: str
) -> Iterator[str]:
    """Yield descriptions that are not as expected.

    Parameters
    ----------
    folder : Path
    names : frozenset of str
        Of the files that are there.
    expected : mapping of str to bytes
        By file name.
    source : str
        What they follow from, for messages.
    """
    for name in metadata_files.NAMES:
        present = untrusted_files.read_content(folder / name) if name in names else None
        if present == expected.get(name):
            continue
        if present is None:
            yield f"{name} is missing."
        else:
            yield f"{name} is not what {source}."


def is_same_version(manifest: Json) -> bool:
    """Return whether this version of hexveil made the release: then its words are known."""
    return bool(manifest["software"]["hexveil"] == importlib.metadata.version("hexveil"))


def without_geometry(table: pa.Table) -> pa.Table:
    """Return the table without outlines."""
    return table.drop_columns(["geometry"]) if "geometry" in table.column_names else table


def as_released(table: pa.Table) -> pa.Table:
    """Return the table without outlines, with times in the seconds that Parquet does not have."""
    table = without_geometry(table)
    metadata = dict(table.schema.metadata or {})
    metadata.pop(b"geo", None)
    if "starts_at_utc" in table.column_names:
        index = table.column_names.index("starts_at_utc")
        field = table.schema.field(index).with_type(untrusted_files.TIME)
        table = table.set_column(index, field, table.column(index).cast(untrusted_files.TIME))
    return table.replace_schema_metadata(metadata)


# ---- the table ----


def check_columns(
    table: pa.Table, manifest: Json, further: frozenset[str] = frozenset()
) -> Iterator[str]:
    """Yield columns that no release has, that are missing, or that hold no numbers.

    Parameters
    ----------
    table : pyarrow.Table
    manifest : dict
    further : frozenset of str
        Columns of quantiles, shares and histograms.
    """
    labels = [*manifest["grid"].get("columns", []), *sorted(further)]
    known_names = {*ALL_COLUMNS, *places.PLACE, *labels}
    strange = sorted({*without_geometry(table).column_names} - known_names)
    if strange:
        yield f"cells.parquet has a column {strange[0]!r}, which no release has."
    for name in (*_needed_columns(manifest), *labels):
        if name not in table.column_names:
            yield f"cells.parquet has no column {name!r}."
    for name in table.column_names:
        column = table[name]
        if column.null_count or (
            pa.types.is_floating(column.type) and not np.isfinite(column.to_numpy()).all()
        ):
            yield f"{name} has a row without a value."


def _needed_columns(manifest: Json) -> tuple[str, ...]:
    """Return the columns that follow from the manifest."""
    statistics = manifest["plan"]["statistics"]
    columns = [f"{name}_{key}" for name in statistics for key in sorted(STATISTICS[name])]
    geography = ("hexagon", "geometry") if manifest["grid"]["kind"] == "hexagons" else ()
    smoothed = [f"{entry['statistic']}_smoothed" for entry in manifest["smoothing"]]
    has_posterior = any(entry["basis"] == "posterior" for entry in manifest["accuracy"])
    posterior = POSTERIOR if has_posterior else ()
    return ("cell", "users", "records", *geography, *columns, *posterior, *smoothed)


def check_places(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield cells that differ from the manifest's, and hexagons with another's outline."""
    # Order matters: the manifest lists scales and biases by position.
    names = table["cell"].to_pylist()
    if names != [cell["cell"] for cell in manifest["cells"]]:
        yield "cells.parquet does not have the cells of manifest.json, in that order."
        return
    if len(set(names)) < len(names):
        yield "a cell stands twice."
    yield from check_outlines(table, manifest)
    yield from check_names(table, manifest)


def check_names(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield columns that name cells for people and do not follow from cells and manifest."""
    # Another version may know other names of places, and did not write all of these columns.
    if not is_same_version(manifest):
        return
    released = without_geometry(table)
    with_words, with_indexes = (
        places.with_places(released, manifest, geography=geography) for geography in (True, False)
    )
    if released.column_names != with_words.column_names:
        yield "cells.parquet does not begin with the columns of every release, in their order."
        return
    for name in places.added_columns(released, manifest):
        column, expected = released[name], with_words[name]
        if pa.types.is_floating(column.type):
            is_same = bool(np.allclose(column.to_numpy(), expected.to_numpy(), atol=1e-5, rtol=0))
        else:
            is_same = column.to_pylist() in (expected.to_pylist(), with_indexes[name].to_pylist())
        if not is_same:
            yield f"{name} is not what follows from the cells and manifest.json."


def check_outlines(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield hexagons that are none of the grid, or have another's outline."""
    if "hexagon" not in table.column_names:
        return
    hexagons_named = set(table["hexagon"].to_pylist())
    level = manifest["grid"].get("resolution")
    if level is None or not all(hexagons.is_name(name, level) for name in hexagons_named):
        yield "cells.parquet has a hexagon that is none of the grid in manifest.json."
        return
    outlines = geometry.with_geometry(without_geometry(table))["geometry"].to_pylist()
    if not all(map(_is_same_outline, table["geometry"].to_pylist(), outlines)):
        yield "the outline of a hexagon is not its own."
    placed = with_places(
        without_places(without_geometry(table), manifest), manifest, geography=False
    )
    for name in {"lat", "lon"}.intersection(table.column_names):
        if not np.allclose(_column(table, name), _column(placed, name), rtol=0.0, atol=1e-5):
            yield f"{name} is not that of the hexagons."


def _is_same_outline(outline: bytes, expected: bytes) -> bool:
    """Return whether two outlines as well-known binary are equal up to rounding."""
    if outline == expected or len(outline) != len(expected) or outline[:13] != expected[:13]:
        return outline == expected
    corners, expected_corners = (
        np.frombuffer(data[13:], dtype="<f8") for data in (outline, expected)
    )
    return bool(np.allclose(corners, expected_corners, rtol=0, atol=PLACE_TOLERANCE))


def check_numbers(table: pa.Table, stated: ReleaseStatements) -> Iterator[str]:
    """Yield numbers that differ from the manifest's, or do not follow from each other."""
    for statistic in stated.statistics.values():
        if statistic.name in stated.manifest["plan"]["statistics"]:
            yield from _check_stated(table, statistic)
            yield from _check_derived(table, stated, statistic)
    if "sd" in stated.manifest["plan"]["statistics"]:
        yield from _check_roots(table, stated)
    yield from _check_errors(table, stated)


def _check_stated(table: pa.Table, statistic: StatedStatistic) -> Iterator[str]:
    """Yield columns of a statistic that differ from the manifest."""
    for key in ("scale", "bias", "bound95"):
        if not _is_close(_column(table, f"{statistic.name}_{key}"), getattr(statistic, key)):
            yield f"{statistic.name}_{key} is not what manifest.json says."
    if not is_on_grid(_column(table, f"{statistic.name}_noisy"), statistic):
        yield f"{statistic.name}_noisy has a number that is not on the grid of manifest.json."


def is_on_grid(noisy: Floats, statistic: StatedStatistic) -> bool:
    """Return whether numbers are a start and whole steps, up to the precision of doubles."""
    distance = noisy - statistic.start
    n_steps = np.divide(
        distance, statistic.step, out=np.zeros_like(distance), where=statistic.step > 0
    )
    on_grid = ~np.isnan(statistic.step)  # estimates of a cell may lie on a curve and on no grid
    error = np.where(
        statistic.step > 0, np.abs(distance - np.round(n_steps) * statistic.step), np.abs(distance)
    )
    tolerance = ROUNDING_SHARE * (np.abs(noisy) + np.abs(statistic.start))
    return bool((error <= tolerance)[on_grid].all())


def _graded_bound(stated: ReleaseStatements, statistic: StatedStatistic, error: Floats) -> Floats:
    """Return the bound by which cells are graded: by a prediction where mechanisms have one."""
    if not stated.has_cell_stages:
        return statistic.bound95
    return predicted_bound(error, statistic.bound95)


def _check_derived(
    table: pa.Table, stated: ReleaseStatements, statistic: StatedStatistic
) -> Iterator[str]:
    """Yield columns that do not follow from the noisy numbers, the scale and the bias."""
    name, is_smoothed = statistic.name, f"{statistic.name}_smoothed" in table.column_names
    low, high = _limits(stated, name)
    raw = np.clip(_column(table, f"{name}_noisy"), low, high)
    if not _is_close(_column(table, f"{name}_raw"), raw):
        yield f"{name}_raw is not {name}_noisy clamped to the bounds."
    if stated.has_no_range:
        stated_error = _column(table, f"{name}_error")
        # Predictions of errors cannot be recomputed: a mechanism with stages has them.
        if not stated.has_cell_stages and not _is_close(
            stated_error, statistic.bias + statistic.scale * stated.law.mean_absolute
        ):
            yield f"{name}_error is not bias and scale."
        has_noise = statistic.scale > 0
        # Grades follow from the public bound, so they can be recomputed.
        flags = np.array(
            grade(_graded_bound(stated, statistic, stated_error), high - low, has_noise)
        )
        # A constant has its own rule for cells whose statistic is known beforehand.
        if (flags != table[f"{name}_quality"].to_numpy())[has_noise].any():
            yield f"{name}_quality is not that of its bound."
        if not is_smoothed:
            ends = (
                np.maximum(raw - statistic.bound95, low),
                np.minimum(raw + statistic.bound95, high),
            )
            if not all(map(_is_close, _interval(table, name), ends)):
                yield f"{name}_low and {name}_high are not {name}_raw and its bound."
    below, above = _interval(table, name)
    if is_smoothed:
        middle = _column(table, f"{name}_smoothed")
        if ((middle < below - TOLERANCE) | (middle > above + TOLERANCE)).any():
            yield f"{name}_smoothed is outside {name}_low and {name}_high."
    if (below > above).any() or not (
        (low - TOLERANCE <= below) & (above <= high + TOLERANCE)
    ).all():
        yield f"{name}_low and {name}_high are no interval within the bounds."


def _check_roots(table: pa.Table, stated: ReleaseStatements) -> Iterator[str]:
    """Yield columns of the standard deviation that are not roots of the variance's."""
    low, high = _interval(table, "sd")
    raw, largest = _column(table, "sd_raw"), stated.span * RANGE["sd"]
    if (low > high).any() or not ((low >= 0) & (high <= largest * (1.0 + TOLERANCE))).all():
        yield "sd_low and sd_high are no interval within the bounds."
    if "variance" in stated.manifest["plan"]["statistics"]:
        squares = [_column(table, f"variance_{key}") for key in ("raw", "low", "high")]
        if not all(map(_is_close, (raw, low, high), map(np.sqrt, np.maximum(squares, 0.0)))):
            yield "sd_raw, sd_low and sd_high are not the roots of the variance's."
    if "sd_smoothed" not in table.column_names:
        farthest, bound = np.maximum(raw - low, high - raw), _column(table, "sd_bound95")
        # A cell that its range may have cut off reaches to a limit of all roots, beyond the bound.
        reaches = (low <= 0.0) | (high >= largest * (1.0 - TOLERANCE))
        if not _is_close(np.where(reaches, np.minimum(bound, farthest), farthest), bound):
            yield "sd_bound95 is not the distance from sd_raw to its ends."


def _check_errors(table: pa.Table, stated: ReleaseStatements) -> Iterator[str]:
    """Yield if the largest or the average error is not that of the cells."""
    plan = stated.manifest["plan"]
    names = [name for name in stated.statistics if f"{name}_error" in table.column_names]
    if len(names) < len(stated.statistics):
        return  # where the root alone is published, errors of the variance are not in the table
    errors = {name: _column(table, f"{name}_error") for name in names}
    for key, over in (("max_error", np.max), ("mean_error", np.mean)):
        planned = plan[key]
        recomputed = {name: float(over(errors[name])) for name in names}
        if not isinstance(planned, dict):
            planned, recomputed = (
                {"": planned},
                {"": float(over(np.sum(list(errors.values()), axis=0)))},
            )
        if set(planned) != set(recomputed) or not all(
            math.isclose(planned[name], recomputed[name], rel_tol=TOLERANCE) for name in recomputed
        ):
            yield f"{key} of the plan is not that of the cells."


def check_cut_off(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield if the table has another number of cells cut off than the manifest says."""
    counts = {entry["statistic"]: entry["cells"] for entry in manifest["cut_off"]}
    graded = {f"{name}_quality" for name in counts} <= set(table.column_names)
    if graded and cells_cut_off(table, tuple(counts)) != counts:
        yield "cells.parquet does not have as many cells cut off as manifest.json says."


def _limits(stated: ReleaseStatements, name: str) -> tuple[Floats, Floats]:
    """Return the limits of a statistic."""
    if name == "mean":
        return stated.lower, stated.upper
    return np.zeros_like(stated.span), stated.span**2 * RANGE["variance"]


def _interval(table: pa.Table, name: str) -> tuple[Floats, Floats]:
    return _column(table, f"{name}_low"), _column(table, f"{name}_high")


def _column(table: pa.Table, name: str) -> Floats:
    return np.asarray(table[name].to_numpy(), dtype=np.float64)


def _is_close(numbers: Floats, expected: Floats) -> bool:
    return bool(np.allclose(numbers, expected, rtol=TOLERANCE, atol=TOLERANCE))

"""Whether the files of a release say the same: every value of each against the Parquet table.

CSV and GeoJSON are made of the table anew and compared, as text first, then value by value, since
another version of a library may write the same number with other digits. README.txt is made anew
from table and manifest, as this version of hexveil would; of a release by another version its words
are not compared. Of the table itself: its columns against each other and against the manifest.
"""

from __future__ import annotations

import importlib.metadata
import io
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from hexveil.base import csv_safety, hexagons
from hexveil.publishing import geometry
from hexveil.publishing.readme import readme
from hexveil.publishing.table import ALL, cells_cut_off, quality
from hexveil.publishing.verification import untrusted_files
from hexveil.report.manifest_view import RANGE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from hexveil.publishing.verification.recomputed_losses import Part, Stated

    Floats = NDArray[np.float64]
    Said = dict[str, Any]

CLOSE = 1e-9
PLACES = 1e-9
"""Degrees, a tenth of a millimetre, by which versions of H3 may differ."""
ULPS = 2.0**-49
"""What rounding can do to a number on its grid, as a part of it."""
LONGER = 4
"""Times as long as ours that the same rows can be in another's spelling."""


# ---- other files ----


def csv(folder: Path, table: pa.Table) -> Iterator[str]:
    """Yield if cells.csv does not hold the table's rows."""
    guarded = csv_safety.escape_formulas(plain(table))
    own = io.BytesIO()
    pa.csv.write_csv(guarded, own)
    found = untrusted_files.content(folder / "cells.csv")
    if found == own.getvalue():
        return
    head = own.getvalue().partition(b"\n")[0]
    if len(found) > LONGER * own.tell() or not found.startswith(head) or not _rows(found, guarded):
        yield "cells.csv and cells.parquet do not have the same rows."


def _rows(found: bytes, like: pa.Table) -> bool:
    """Return whether CSV holds these rows, each column read as the type that it has here."""
    types = {field.name: field.type for field in like.schema}
    options = pa.csv.ConvertOptions(column_types=types, strings_can_be_null=False)
    quoted = pa.csv.ParseOptions(newlines_in_values=True)
    once = pa.csv.ReadOptions(use_threads=False)
    read = pa.csv.read_csv(pa.BufferReader(found), once, quoted, options)
    return read.column_names == like.column_names and all(
        read[name].to_pylist() == like[name].to_pylist() for name in like.column_names
    )


def geojson(folder: Path, table: pa.Table) -> Iterator[str]:
    """Yield if cells.geojson does not hold the table's cells, or is there for labels."""
    path = folder / "cells.geojson"
    own = geometry.geojson(plain(table))
    if not path.exists():
        if own is not None and len(own) <= untrusted_files.LIMITS[path.name]:
            yield "cells.geojson is missing."
        return
    if own is None:
        yield "cells.geojson is there, and cells.parquet has no hexagons."
        return
    found = untrusted_files.content(path)
    if found == own:
        return
    if len(found) > LONGER * len(own) or not _alike(
        untrusted_files.parsed(found), untrusted_files.parsed(own)
    ):
        yield "cells.geojson and cells.parquet do not have the same cells."


def _alike(found: object, own: object) -> bool:
    """Return whether two JSON values are the same, places up to a rounding."""
    if isinstance(own, dict) and isinstance(found, dict):
        return list(found) == list(own) and all(
            _corners(found[key], own[key]) if key == "coordinates" else _alike(found[key], own[key])
            for key in own
        )
    if isinstance(own, list) and isinstance(found, list):
        return len(found) == len(own) and all(map(_alike, found, own))
    return type(found) is type(own) and found == own


def _corners(found: object, own: object) -> bool:
    one, other = np.array(found, dtype=np.float64), np.array(own, dtype=np.float64)
    return one.shape == other.shape and bool(np.allclose(one, other, rtol=0, atol=PLACES))


def text(folder: Path, table: pa.Table, manifest: Said) -> Iterator[str]:
    """Yield if README.txt is not what table and manifest say; see `same_version`."""
    mapped = (folder / "cells.geojson").exists()
    own = readme(plain(table), manifest, mapped=mapped).encode()
    if same_version(manifest) and untrusted_files.content(folder / "README.txt") != own:
        yield "README.txt is not what manifest.json and cells.parquet say."


def same_version(manifest: Said) -> bool:
    """Return whether this version of hexveil made the release: then its words are known."""
    return bool(manifest["software"]["hexveil"] == importlib.metadata.version("hexveil"))


def plain(table: pa.Table) -> pa.Table:
    """Return the table without outlines."""
    return table.drop_columns(["geometry"]) if "geometry" in table.column_names else table


# ---- the table ----


def columns(table: pa.Table, manifest: Said) -> Iterator[str]:
    """Yield which columns no release has, are missing, or hold what is no number."""
    labels = manifest["grid"].get("columns", [])
    strange = sorted({*plain(table).column_names} - {*ALL, *labels})
    if strange:
        yield f"cells.parquet has a column {strange[0]!r}, which no release has."
    for name in (*_needed(manifest), *labels):
        if name not in table.column_names:
            yield f"cells.parquet has no column {name!r}."
    for name in table.column_names:
        column = table[name]
        if column.null_count or (
            pa.types.is_floating(column.type) and not np.isfinite(column.to_numpy()).all()
        ):
            yield f"{name} has a row without a value."


def _needed(manifest: Said) -> tuple[str, ...]:
    """Return columns that the manifest speaks of."""
    said = manifest["plan"]["statistics"]
    made = {"raw", "bound95", "low", "high", "quality"}
    noised = {*made, "noisy", "scale", "bias", "error"}
    own = [f"{s}_{key}" for s in said for key in sorted(made if s == "sd" else noised)]
    where = ("hexagon", "geometry") if manifest["grid"]["kind"] == "hexagons" else ()
    smooth = [f"{one['statistic']}_smoothed" for one in manifest["smoothing"]]
    return ("cell", "users", "records", *where, *own, *smooth)


def places(table: pa.Table, manifest: Said) -> Iterator[str]:
    """Yield where cells are not those of the manifest, or hexagons not what they are drawn as."""
    names = table["cell"].to_pylist()
    if names != [one["cell"] for one in manifest["cells"]]:
        yield "cells.parquet does not have the cells of manifest.json, in that order."
        return
    if len(set(names)) < len(names):
        yield "a cell stands twice."
    if "hexagon" not in table.column_names:
        return
    found = set(table["hexagon"].to_pylist())
    level = manifest["grid"].get("resolution")
    if level is None or not all(hexagons.is_name(name, level) for name in found):
        yield "cells.parquet has a hexagon that is none of the grid in manifest.json."
        return
    outlines = geometry.with_geometry(plain(table))["geometry"].to_pylist()
    if not all(map(_same_outline, table["geometry"].to_pylist(), outlines)):
        yield "the outline of a hexagon is not its own."


def _same_outline(found: bytes, own: bytes) -> bool:
    """Return whether two outlines as well-known binary are the same, up to a rounding."""
    if found == own or len(found) != len(own) or found[:13] != own[:13]:
        return found == own
    one, other = (np.frombuffer(one[13:], dtype="<f8") for one in (found, own))
    return bool(np.allclose(one, other, rtol=0, atol=PLACES))


def numbers(table: pa.Table, stated: Stated) -> Iterator[str]:
    """Yield which numbers are not those of the manifest, or do not follow from each other."""
    for part in stated.parts.values():
        if part.name in stated.manifest["plan"]["statistics"]:
            yield from _stated(table, part)
            yield from _derived(table, stated, part)
    if "sd" in stated.manifest["plan"]["statistics"]:
        yield from _roots(table, stated)
    yield from _errors(table, stated)


def _stated(table: pa.Table, part: Part) -> Iterator[str]:
    """Yield which columns of a statistic are not what the manifest says."""
    for key in ("scale", "bias", "bound95"):
        if not _close(_column(table, f"{part.name}_{key}"), getattr(part, key)):
            yield f"{part.name}_{key} is not what manifest.json says."
    if not on_grid(_column(table, f"{part.name}_noisy"), part):
        yield f"{part.name}_noisy has a number that is not on the grid of manifest.json."


def on_grid(noisy: Floats, part: Part) -> bool:
    """Return whether numbers are a start and whole steps, as far as doubles can tell."""
    away = noisy - part.start
    whole = np.divide(away, part.step, out=np.zeros_like(away), where=part.step > 0)
    off = np.where(part.step > 0, np.abs(away - np.round(whole) * part.step), np.abs(away))
    return bool((off <= ULPS * (np.abs(noisy) + np.abs(part.start))).all())


def _derived(table: pa.Table, stated: Stated, part: Part) -> Iterator[str]:
    """Yield which columns do not follow from the noisy numbers, the scale and the bias."""
    name, smooth = part.name, f"{part.name}_smoothed" in table.column_names
    low, high = _ends(stated, name)
    raw = np.clip(_column(table, f"{name}_noisy"), low, high)
    if not _close(_column(table, f"{name}_raw"), raw):
        yield f"{name}_raw is not {name}_noisy clamped to the bounds."
    if stated.plain:
        if not _close(_column(table, f"{name}_error"), part.bias + part.scale):
            yield f"{name}_error is not bias and scale."
        live = part.scale > 0
        flags = np.array(quality(part.bound95, high - low, live))
        # A constant has its own rule for cells whose statistic is known beforehand.
        if (flags != table[f"{name}_quality"].to_numpy())[live].any():
            yield f"{name}_quality is not that of its bound."
        if not smooth:
            ends = np.maximum(raw - part.bound95, low), np.minimum(raw + part.bound95, high)
            if not all(map(_close, _interval(table, name), ends)):
                yield f"{name}_low and {name}_high are not {name}_raw and its bound."
    below, above = _interval(table, name)
    if smooth:
        middle = _column(table, f"{name}_smoothed")
        if ((middle < below - CLOSE) | (middle > above + CLOSE)).any():
            yield f"{name}_smoothed is outside {name}_low and {name}_high."
    if (below > above).any() or not ((low - CLOSE <= below) & (above <= high + CLOSE)).all():
        yield f"{name}_low and {name}_high are no interval within the bounds."


def _roots(table: pa.Table, stated: Stated) -> Iterator[str]:
    """Yield which columns of the standard deviation are not roots of the variance's."""
    low, high = _interval(table, "sd")
    raw, most = _column(table, "sd_raw"), stated.span * RANGE["sd"]
    if (low > high).any() or not ((low >= 0) & (high <= most * (1.0 + CLOSE))).all():
        yield "sd_low and sd_high are no interval within the bounds."
    if "variance" in stated.manifest["plan"]["statistics"]:
        squares = [_column(table, f"variance_{key}") for key in ("raw", "low", "high")]
        if not all(map(_close, (raw, low, high), map(np.sqrt, np.maximum(squares, 0.0)))):
            yield "sd_raw, sd_low and sd_high are not the roots of the variance's."
    if "sd_smoothed" not in table.column_names:
        bound = np.maximum(raw - low, high - raw)
        if not _close(_column(table, "sd_bound95"), bound):
            yield "sd_bound95 is not the distance from sd_raw to its ends."


def _errors(table: pa.Table, stated: Stated) -> Iterator[str]:
    """Yield if the largest or the average error is not that of the cells."""
    plan = stated.manifest["plan"]
    names = [name for name in stated.parts if f"{name}_error" in table.column_names]
    if len(names) < len(stated.parts):
        return  # where the root alone is published, errors of the variance are not in the table
    errors = {name: _column(table, f"{name}_error") for name in names}
    for key, over in (("max_error", np.max), ("mean_error", np.mean)):
        said = plan[key]
        known = {name: float(over(errors[name])) for name in names}
        if not isinstance(said, dict):
            said, known = {"": said}, {"": float(over(np.sum(list(errors.values()), axis=0)))}
        if set(said) != set(known) or not all(
            math.isclose(said[name], known[name], rel_tol=CLOSE) for name in known
        ):
            yield f"{key} of the plan is not that of the cells."


def cut_off(table: pa.Table, manifest: Said) -> Iterator[str]:
    """Yield if the table has another number of cells cut off than the manifest says."""
    counts = {one["statistic"]: one["cells"] for one in manifest["cut_off"]}
    graded = {f"{name}_quality" for name in counts} <= set(table.column_names)
    if graded and cells_cut_off(table, tuple(counts)) != counts:
        yield "cells.parquet does not have as many cells cut off as manifest.json says."


def _ends(stated: Stated, name: str) -> tuple[Floats, Floats]:
    """Return what a statistic cannot leave."""
    if name == "mean":
        return stated.lower, stated.upper
    return np.zeros_like(stated.span), stated.span**2 * RANGE["variance"]


def _interval(table: pa.Table, name: str) -> tuple[Floats, Floats]:
    return _column(table, f"{name}_low"), _column(table, f"{name}_high")


def _column(table: pa.Table, name: str) -> Floats:
    return np.asarray(table[name].to_numpy(), dtype=np.float64)


def _close(one: Floats, other: Floats) -> bool:
    return bool(np.allclose(one, other, rtol=CLOSE, atol=CLOSE))

"""Whether a release folder is what it says it is, from the folder alone: for those who receive one.

Checked: the manifest by its schema; the receipt's checksums, with no file missing or added; that
receipt and manifest speak of the same release; that the tables have the manifest's cells, columns
that a release can have, its noise scales, biases and bounds, and numbers on its grid and within
their limits.
Not checked, because a folder cannot show it: that the noise was drawn, and that the ledger has the
release (its holder can tell, by the receipt's chain hash).
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from hexveil import sheets
from hexveil.errors import InputError
from hexveil.publishing import receipt
from hexveil.publishing.manifest import SCHEMA_VERSION, schema
from hexveil.publishing.prose import clean
from hexveil.publishing.table import ALL, cells_cut_off

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Said = dict[str, Any]

CLOSE = 1e-9
ULPS = 2.0**-49
"""What rounding can do to a number on its grid, as a part of it."""
# What reading tables that a stranger wrote can raise.
_BROKEN = (
    OSError, pa.ArrowException, ValueError, TypeError, LookupError, ArithmeticError,
)  # fmt: skip
TABLES = ("cells.parquet", "cells.csv")
NEEDED = (*TABLES, "manifest.json", "README.txt", "report.html")


def verify(folder: str | Path) -> dict[str, Any]:
    """Return the manifest of a release folder that is as it was written.

    For those who receive one: no ledger and no records are needed. A folder cannot show that
    noise was drawn as stated, nor that its holder's ledger has the release.

    Parameters
    ----------
    folder : str or Path
        As `Release.write` or `hexveil release` wrote it.

    Returns
    -------
    dict
        As in `manifest.json`: what was published and what is guaranteed.

    Raises
    ------
    InputError
        If there is no release in the folder, or if a file, a number or a statement in it is not
        as it was written; the message names each.
    """
    path = Path(folder)
    found = problems(path)
    if found:
        raise InputError(f"{path} is not as it was written: {' '.join(found)}")
    said: Said = json.loads((path / "manifest.json").read_text("utf-8"))
    return said


def problems(folder: Path) -> tuple[str, ...]:
    """Return what is wrong with a release folder, a sentence each; nothing if all is well.

    Raises
    ------
    InputError
        If there is no such folder, or no release in it.
    """
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}; name a release folder.")
    if not (folder / "manifest.json").is_file():
        raise InputError(f"{folder} has no manifest.json, so it is no release; name another.")
    # Names are a stranger's: none shall move the cursor of who reads them.
    return tuple(map(clean, _found(folder)))


def _found(folder: Path) -> list[str]:
    """Return what is wrong, in words that may hold a stranger's names."""
    said, wrong = _json(folder / "manifest.json")
    if wrong:
        return [wrong]
    broken = [*_manifest(said)]
    if broken:
        return broken
    found = [*_files(folder, said)]
    # A changed table is not read: what it would say is nobody's statement.
    if any(one.startswith(TABLES) for one in found):
        return found
    if not all((folder / name).is_file() for name in TABLES):
        return [*found, "the tables are missing."]
    with contextlib.suppress(*_BROKEN):
        found.extend(_tables(folder, said))
        return found
    return [*found, "the tables cannot be read."]


def _json(path: Path) -> tuple[Said, str]:
    """Return a file's contents, and what is wrong with them."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        return {}, f"{path.name} cannot be read as JSON ({type(error).__name__})."
    return (found, "") if isinstance(found, dict) else ({}, f"{path.name} is no JSON object.")


def _manifest(said: Said) -> Iterator[str]:
    """Yield in what the manifest breaks its schema."""
    if said.get("schema_version") != SCHEMA_VERSION:
        yield (
            f"manifest.json is of schema version {said.get('schema_version')!r}, this program "
            f"reads {SCHEMA_VERSION}; use the version of hexveil that it names."
        )
        return
    from jsonschema import Draft202012Validator  # noqa: PLC0415  only checking needs it

    for error in Draft202012Validator(schema()).iter_errors(said):
        place = "/".join(map(str, error.absolute_path)) or "its top"
        yield f"manifest.json breaks its schema at {place} ({error.validator})."


def _files(folder: Path, manifest: Said) -> Iterator[str]:
    """Yield in what the files differ from their receipt."""
    if not (folder / receipt.NAME).is_file():
        yield f"{receipt.NAME} is missing, so changed files cannot be told."
        return
    said, wrong = _json(folder / receipt.NAME)
    if wrong or not isinstance(said.get("files"), dict):
        yield wrong or f"{receipt.NAME} names no files."
        return
    for key, there in (
        ("dataset", manifest["dataset"]["name"]),
        ("request", manifest["request"]),
        ("ledger", manifest["ledger"]),
    ):
        if said.get(key) != there:
            yield f"{receipt.NAME} and manifest.json name another {key}."
    here = {path.name for path in folder.iterdir()} - {receipt.NAME}
    listed = said["files"]
    for name in sorted({*listed, *NEEDED} - here):
        yield f"{name} is missing."
    for name in sorted(here - set(listed)):
        yield f"{name} was added: it is not in {receipt.NAME}."
    for name in sorted(here & set(listed)):
        if not (folder / name).is_file() or receipt.digest(folder / name) != listed[name]:
            yield f"{name} was changed: its checksum is not the one in {receipt.NAME}."


def _tables(folder: Path, manifest: Said) -> Iterator[str]:
    """Yield in what the tables differ from each other and from the manifest."""
    table = pa.parquet.read_table(folder / "cells.parquet")
    plain = table.drop_columns(["geometry"]) if "geometry" in table.column_names else table
    guarded = sheets.guarded(plain)
    text = _csv(folder / "cells.csv", guarded)
    if text.column_names != guarded.column_names or not _same(text, guarded):
        yield "cells.csv and cells.parquet do not have the same rows."
    labels = manifest["grid"].get("columns", [])
    strange = sorted({*plain.column_names} - {*ALL, *labels})
    if strange:
        yield f"cells.parquet has a column {strange[0]!r}, which no release has."
    if "cell" not in plain.column_names:
        yield "cells.parquet has no column 'cell'."
        return
    if plain["cell"].to_pylist() != [one["cell"] for one in manifest["cells"]]:
        yield "cells.parquet does not have the cells of manifest.json, in that order."
        return
    yield from _numbers(plain, manifest)
    counts = {one["statistic"]: one["cells"] for one in manifest["cut_off"]}
    graded = {f"{name}_quality" for name in counts} <= set(plain.column_names)
    if graded and cells_cut_off(plain, tuple(counts)) != counts:
        yield "cells.parquet does not have as many cells cut off as manifest.json says."


def _csv(path: Path, like: pa.Table) -> pa.Table:
    """Return the rows of the CSV file, each column of the type it has in Parquet."""
    types = {field.name: field.type for field in like.schema}
    options = pa.csv.ConvertOptions(column_types=types, strings_can_be_null=False)
    quoted = pa.csv.ParseOptions(newlines_in_values=True)
    return pa.csv.read_csv(path, convert_options=options, parse_options=quoted)


def _same(one: pa.Table, other: pa.Table) -> bool:
    return all(one[name].to_pylist() == other[name].to_pylist() for name in one.column_names)


def _numbers(table: pa.Table, manifest: Said) -> Iterator[str]:
    """Yield which numbers are not those of the manifest, or outside their limits."""
    for name in {part["statistic"] for one in manifest["cells"] for part in one["noised"]}:
        parts = [
            next(part for part in one["noised"] if part["statistic"] == name)
            for one in manifest["cells"]
        ]
        for key in ("scale", "bias", "bound95"):
            column = f"{name}_{key}"
            if column not in table.column_names:
                continue
            there = np.array([part[key] for part in parts], dtype=float)
            if not np.allclose(table[column].to_numpy(), there, rtol=CLOSE, atol=0, equal_nan=True):
                yield f"{column} is not what manifest.json says."
        if f"{name}_noisy" in table.column_names and not _on_grid(
            table[f"{name}_noisy"].to_numpy(), parts
        ):
            yield f"{name}_noisy has a number that is not on the grid of manifest.json."
    if {"mean_noisy", "mean_raw"} <= set(table.column_names):
        low = np.array([one["lower"] for one in manifest["cells"]])
        high = np.array([one["upper"] for one in manifest["cells"]])
        raw = np.clip(table["mean_noisy"].to_numpy(), low, high)
        if not np.allclose(table["mean_raw"].to_numpy(), raw, rtol=CLOSE, atol=CLOSE):
            yield "mean_raw is not mean_noisy clamped to the bounds."


def _on_grid(noisy: Floats, parts: list[Said]) -> bool:
    """Return whether numbers are a start and whole steps, as far as doubles can tell."""
    start, step = (np.array([p[key] for p in parts], float) for key in ("grid_start", "grid_step"))
    away = noisy - start
    whole = np.divide(away, step, out=np.zeros_like(away), where=step > 0)
    off = np.where(step > 0, np.abs(away - np.round(whole) * step), np.abs(away))
    return bool((off <= ULPS * (np.abs(noisy) + np.abs(start))).all())

"""Reading of untrusted files, in memory and time limited by their sizes.

A release folder can come from anybody. Here a file is opened only if it is a regular one of a
plausible size, and the memory to read it is a small multiple of that size:

JSON
    A list or an object takes some hundred bytes of memory, and two bytes of text. So there is no
    more than one for every eight bytes; numbers are finite, keys are not repeated.
Parquet
    A page of a kilobyte can unpack to gigabytes, and an index into a dictionary can repeat a long
    text a million times. So columns have the types that releases have; pages declare, in their own
    headers, no more than their rows and texts take (parquet_pages.py); texts are read as indices,
    and all of them together are no longer than the CSV that holds them too.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from hexveil.publishing.catalogue import metadata_files
from hexveil.publishing.verification.files.parquet_pages import Chunk, parse_footer, read_pages

MEGABYTE = 10**6
LIMITS = {
    "manifest.json": 128 * MEGABYTE,
    "receipt.json": MEGABYTE,
    "signature.json": MEGABYTE,
    "README.txt": MEGABYTE,
    "cells.csv": 256 * MEGABYTE,
    "cells.geojson": 50 * MEGABYTE,
    "cells.parquet": 256 * MEGABYTE,
    "report.html": 256 * MEGABYTE,
    "cells.pmtiles": 1024 * MEGABYTE,
    **dict.fromkeys(metadata_files.NAMES, MEGABYTE),
}
"""Largest size of each file in bytes; a release of 100,000 cells stays below them."""
MAX_FOOTER = MEGABYTE
MAX_OUTLINE = 256
"""Largest size of a hexagon's outline in bytes, as well-known binary."""
ENCODINGS = {0, 2, 3, 8}
"""Plain, by dictionary, and in runs: what pyarrow writes; others can repeat texts endlessly."""
_OPEN = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


TIME = pa.timestamp("s", tz="UTC")
TYPES = {"geometry": pa.binary(), "starts_at_utc": TIME}
"""Types of columns of every release that are no texts."""


class ImplausibleError(ValueError):
    """A file that is not regular, or that would take much more memory than its size."""


def open_file(path: Path) -> BinaryIO:
    """Return a file opened to be read, if it is a regular one within its limit.

    Raises
    ------
    ImplausibleError
        If it is a link, a pipe, a device or a folder, or too large.
    OSError
        If it cannot be opened.
    """
    try:
        # Not followed and not blocking: a link or a pipe must neither redirect nor hang the check.
        handle = os.open(path, _OPEN)
    except OSError:
        if path.is_symlink():
            raise ImplausibleError("is a link, and not a file") from None
        raise
    status, limit = os.fstat(handle), LIMITS[path.name]
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise ImplausibleError("is no regular file")
    if status.st_size > limit:
        os.close(handle)
        raise ImplausibleError(f"is larger than {limit // MEGABYTE} MB, and is not read")
    return os.fdopen(handle, "rb")


def read_content(path: Path) -> bytes:
    """Return the bytes of a file; see `open_file`."""
    with open_file(path) as file:
        return file.read(LIMITS[path.name])


def parse_json(data: bytes) -> Any:  # noqa: ANN401  JSON
    """Return parsed JSON.

    Raises
    ------
    ValueError
        If it is none, has a number that is not finite, a key twice, or so many lists and objects
        that they would take much more memory than the text.
    RecursionError
        If lists stand in lists without an end.
    """
    n_parts = sum(data.count(mark) for mark in (b",", b"[", b"{"))
    # Counted in bytes before parsing: afterwards the memory would be taken already.
    if n_parts > len(data) // 8 + 1000:
        raise ImplausibleError("has more lists and objects than a release has")
    text = data.decode("utf-8")
    value = json.loads(
        text,
        object_pairs_hook=_refuse_repeated_keys,
        parse_float=_parse_finite,
        parse_constant=_refuse_constant,
    )
    _check_encodable(text)
    return value


def _check_encodable(text: str) -> None:
    """Refuse escapes of half a letter, which no text has and no file can hold."""
    if "\\ud" in text.lower():
        json.dumps(json.loads(text), ensure_ascii=False).encode()


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise ValueError("a key stands twice")
    return mapping


def _parse_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is not finite")
    return number


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def read_table(path: Path, rows: int, texts: int, types: Mapping[str, pa.DataType]) -> pa.Table:
    """Return the table of a Parquet file that has so many rows.

    Parameters
    ----------
    path : Path
    rows : int
    texts : int
        Bytes that all its texts together take at most.
    types : mapping of str to DataType
        Types of columns that are no texts, beside outlines and times.

    Raises
    ------
    ValueError, OSError, pyarrow.ArrowException
        If it is none, has other columns or another number of rows, or would unpack to more than a
        release of so many rows has.
    """
    with open_file(path) as file:
        _check_pages(file, _read_footer(file), rows, texts)
        file.seek(0)
        source = pa.PythonFile(file, mode="r")
        read = pa.parquet.ParquetFile(source, read_dictionary=_text_columns(source))
        _check_columns(read.schema_arrow, {**TYPES, **types})
        table = read.read(use_threads=False)
    table.validate(full=True)
    # Texts stay indexes until their total length is known.
    return _decode_texts(table, texts)


def _read_footer(file: BinaryIO) -> bytes:
    """Return the bytes of the footer."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - 8, 0))
    length, mark = (end := file.read(8))[:4], end[4:]
    footer_length = int.from_bytes(length, "little")
    if mark != b"PAR1" or footer_length > min(size - 8, MAX_FOOTER):
        raise ImplausibleError("has no footer of a release's table")
    file.seek(size - 8 - footer_length)
    return file.read(footer_length)


def _text_columns(source: pa.NativeFile) -> list[str]:
    """Return the columns of texts, which are read as indices into their dictionaries."""
    schema = pa.parquet.read_schema(source)
    source.seek(0)
    return [field.name for field in schema if _is_text(field.type)]


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _check_columns(schema: pa.Schema, types: Mapping[str, pa.DataType]) -> None:
    if len(set(schema.names)) < len(schema.names):
        raise ImplausibleError("has a column twice")
    for field in schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        # Label columns can have any name, and are texts.
        expected = types.get(field.name, pa.string())
        # Parquet has no seconds.
        if kind.id != expected.id if expected == TIME else kind != expected:
            raise ImplausibleError(f"has a column {field.name!r} of type {kind}, not {expected}")


def _check_pages(file: BinaryIO, data: bytes, rows: int, texts: int) -> None:
    """Refuse pages that would unpack to more than so many rows and texts take."""
    n_rows, counts, chunks = parse_footer(data)
    if n_rows != rows or sum(counts) != rows or min(counts, default=0) < 0:
        raise ImplausibleError(f"has {n_rows:,} rows, and manifest.json has {rows:,} cells")
    for chunk in chunks:
        _check_chunk(file, chunk, texts)


def _check_chunk(file: BinaryIO, chunk: Chunk, texts: int) -> None:
    rows = chunk.rows
    remaining = MAX_OUTLINE * rows + 2 * texts + MEGABYTE
    if chunk.start < 0 or chunk.values != rows:
        raise ImplausibleError("has a column of another length than its table")
    for page in read_pages(file, chunk.start, chunk.size, 16 + rows // 64):
        remaining -= page.unpacked
        if remaining < 0 or page.values > rows or page.encoding not in ENCODINGS:
            raise ImplausibleError("unpacks to more than its rows take, and is not read")


def _decode_texts(table: pa.Table, texts: int) -> pa.Table:
    """Return the table with texts in place of indices, if they are not too long together."""
    remaining = texts + MAX_OUTLINE * table.num_rows
    for index, field in enumerate(table.schema):
        if not pa.types.is_dictionary(field.type):
            continue
        column = table.column(index)
        for chunk in column.chunks:
            lengths = pc.binary_length(chunk.dictionary)
            # A release has no missing texts; a missing one has no length here.
            remaining -= pc.sum(pc.take(lengths, chunk.indices)).as_py() or 0
        if remaining < 0:
            raise ImplausibleError("has longer texts than cells.csv, and is not read")
        text_field = field.with_type(field.type.value_type)
        table = table.set_column(index, text_field, column.cast(text_field.type))
    return table

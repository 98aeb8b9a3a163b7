"""Reading files that a stranger wrote, in memory and time that their sizes limit.

A release folder can come from anybody. Here a file is opened only if it is a regular one of a
plausible size, and what a reader makes of it is a small multiple of that size:

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
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from hexveil.publishing.verification.parquet_pages import Chunk, footer, pages

if TYPE_CHECKING:
    from pathlib import Path

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
}
"""Bytes of each file that are read at most; a release of 100,000 cells stays below them."""
FOOTER = MEGABYTE
GEOMETRY = 256
"""Bytes of a hexagon's outline at most, as well-known binary."""
ENCODINGS = {0, 2, 3, 8}
"""Plain, by dictionary, and in runs: what pyarrow writes; others can repeat texts endlessly."""
_OPEN = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class ImplausibleError(ValueError):
    """A file that is no regular one, or would take more memory than what it says is worth."""


def opened(path: Path) -> BinaryIO:
    """Return a file opened to be read, if it is a regular one within its limit.

    Raises
    ------
    ImplausibleError
        If it is a link, a pipe, a device or a folder, or too large.
    OSError
        If it cannot be opened.
    """
    try:
        handle = os.open(path, _OPEN)
    except OSError:
        if path.is_symlink():
            raise ImplausibleError("is a link, and not a file") from None
        raise
    found, most = os.fstat(handle), LIMITS[path.name]
    if not stat.S_ISREG(found.st_mode):
        os.close(handle)
        raise ImplausibleError("is no regular file")
    if found.st_size > most:
        os.close(handle)
        raise ImplausibleError(f"is larger than {most // MEGABYTE} MB, and is not read")
    return os.fdopen(handle, "rb")


def content(path: Path) -> bytes:
    """Return the bytes of a file; see `opened`."""
    with opened(path) as file:
        return file.read(LIMITS[path.name])


def parsed(data: bytes) -> Any:  # noqa: ANN401  JSON
    """Return what JSON says.

    Raises
    ------
    ValueError
        If it is none, has a number that is not finite, a key twice, or so many lists and objects
        that they would take much more memory than the text.
    RecursionError
        If lists stand in lists without an end.
    """
    parts = sum(data.count(mark) for mark in (b",", b"[", b"{"))
    if parts > len(data) // 8 + 1000:
        raise ImplausibleError("has more lists and objects than a release has")
    text = data.decode("utf-8")
    found = json.loads(
        text, object_pairs_hook=_once, parse_float=_finite, parse_constant=_no_number
    )
    _encodable(text)
    return found


def _encodable(text: str) -> None:
    """Refuse escapes of half a letter, which no text has and no file can hold."""
    if "\\ud" in text.lower():
        json.dumps(json.loads(text), ensure_ascii=False).encode()


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is not finite")
    return number


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def table(path: Path, rows: int, texts: int) -> pa.Table:
    """Return the table of a Parquet file that has so many rows.

    Parameters
    ----------
    path : Path
    rows : int
    texts : int
        Bytes that all its texts together take at most.

    Raises
    ------
    ValueError, OSError, pyarrow.ArrowException
        If it is none, has other columns or another number of rows, or would unpack to more than a
        release of so many rows has.
    """
    with opened(path) as file:
        _check_pages(file, _footer(file), rows, texts)
        file.seek(0)
        source = pa.PythonFile(file, mode="r")
        read = pa.parquet.ParquetFile(source, read_dictionary=_texts(source))
        _check_columns(read.schema_arrow)
        found = read.read(use_threads=False)
    found.validate(full=True)
    return _plain(found, texts)


def _footer(file: BinaryIO) -> bytes:
    """Return the bytes of the footer."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - 8, 0))
    length, mark = (end := file.read(8))[:4], end[4:]
    long = int.from_bytes(length, "little")
    if mark != b"PAR1" or long > min(size - 8, FOOTER):
        raise ImplausibleError("has no footer of a release's table")
    file.seek(size - 8 - long)
    return file.read(long)


def _texts(source: pa.NativeFile) -> list[str]:
    """Return the columns of texts, which are read as indices into their dictionaries."""
    schema = pa.parquet.read_schema(source)
    source.seek(0)
    return [field.name for field in schema if _is_text(field.type)]


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _check_columns(schema: pa.Schema) -> None:
    if len(set(schema.names)) < len(schema.names):
        raise ImplausibleError("has a column twice")
    for field in schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        wanted = expected(field.name)
        if (kind.id if wanted == TIME else kind) != (wanted.id if wanted == TIME else wanted):
            raise ImplausibleError(f"has a column {field.name!r} of type {kind}, not {wanted}")


TIME = pa.timestamp("s", tz="UTC")
_STATISTICS = ("mean_", "variance_", "sd_")


def expected(column: str) -> pa.DataType:
    """Return the type that a release's column of this name has.

    Examples
    --------
    >>> [str(expected(name)) for name in ("users", "mean_raw", "mean_quality", "route")]
    ['int64', 'double', 'string', 'string']
    """
    if column in {"users", "records"}:
        return pa.int64()
    if column == "geometry":
        return pa.binary()
    if column == "starts_at_utc":
        return TIME
    number = column.startswith(_STATISTICS) and column.partition("_")[2] in NUMBERS
    return pa.float64() if number else pa.string()


NUMBERS = {"noisy", "raw", "smoothed", "scale", "bias", "error", "bound95", "low", "high"}


def _check_pages(file: BinaryIO, data: bytes, rows: int, texts: int) -> None:
    """Refuse pages that would unpack to more than so many rows and texts take."""
    many, counts, chunks = footer(data)
    if many != rows or sum(counts) != rows or min(counts, default=0) < 0:
        raise ImplausibleError(f"has {many:,} rows, and manifest.json has {rows:,} cells")
    for chunk in chunks:
        _check_chunk(file, chunk, texts)


def _check_chunk(file: BinaryIO, chunk: Chunk, texts: int) -> None:
    rows = chunk.rows
    left = GEOMETRY * rows + 2 * texts + MEGABYTE
    if chunk.start < 0 or chunk.values != rows:
        raise ImplausibleError("has a column of another length than its table")
    for page in pages(file, chunk.start, chunk.size, 16 + rows // 64):
        left -= page.unpacked
        if left < 0 or page.values > rows or page.encoding not in ENCODINGS:
            raise ImplausibleError("unpacks to more than its rows take, and is not read")


def _plain(found: pa.Table, texts: int) -> pa.Table:
    """Return the table with texts in place of indices, if they are not too long together."""
    left = texts + GEOMETRY * found.num_rows
    for at, field in enumerate(found.schema):
        if not pa.types.is_dictionary(field.type):
            continue
        column = found.column(at)
        for chunk in column.chunks:
            lengths = pc.binary_length(chunk.dictionary)
            # Of a release no text is missing; a missing one has no length here.
            left -= pc.sum(pc.take(lengths, chunk.indices)).as_py() or 0
        if left < 0:
            raise ImplausibleError("has longer texts than cells.csv, and is not read")
        plain = field.with_type(field.type.value_type)
        found = found.set_column(at, plain, column.cast(plain.type))
    return found

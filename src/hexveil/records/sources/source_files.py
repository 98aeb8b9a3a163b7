"""Resolution of a source: files of one kind, or a table in memory; nothing is read yet.

Only names and the first bytes of files are looked at here. Packed files are unpacked once before
they are read: only then is it known whether they are whole, and how large.
"""

import contextlib
import glob
import io
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from hexveil.base import atomic_files
from hexveil.base.errors import InputError
from hexveil.records.sources.memory_tables import as_table, readable_table, unicode_text
from hexveil.records.sources.vehicle_positions import read_positions

FileKind = Literal["parquet", "csv", "json", "gtfs-realtime"]

_SUFFIXES: dict[str, FileKind] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".geojson": "json",
    ".geojsonl": "json",
    ".pb": "gtfs-realtime",
}
_NOTES = (".txt", ".txt.gz", ".txt.zst")
"""Endings of delimited text that notes have, too: in a folder of other records these are none."""
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
"""How a file's address begins, like `s3://`; one letter alone would be a drive."""
_BLOCK = 1 << 20
_LARGEST_SNAPSHOT = 2**25
"""Bytes of a snapshot of a feed that are read: a larger one is cut, and so refused as truncated."""
_ALWAYS_UNPACKED = 100 * 10**6
"""Bytes to which every packed file may unpack."""
_PACKED = {".gz": "gzip", ".zst": "zstd"}
"""How files are packed, by their ending; Zstandard is for delimited text alone."""
_GZIP_TRAILER = 4
"""Bytes at the end of a packed file that hold its unpacked size."""
_KEY_VALUE_FOLDER = re.compile(r"(^|[/\\])([^/\\=]+)=[^/\\]+(?=[/\\])")
"""A folder named key=value in a path."""


@dataclass(frozen=True)
class Files:
    """Files of one kind.

    Attributes
    ----------
    kind : "parquet", "csv", "json" or "gtfs-realtime"
    paths : tuple of str
        Sorted by name, unless named one by one.
    label : str
        The source as the caller wrote it.
    enumerated : bool
        Whether the caller named every file; then their columns may differ.
    """

    kind: FileKind
    paths: tuple[str, ...]
    label: str
    enumerated: bool = False


@dataclass(frozen=True, repr=False)
class MemoryTable:
    """PRIVATE. A table in memory; its repr shows nothing of it."""

    data: pa.Table
    label: str = "in-memory table"

    def __repr__(self) -> str:
        return f"MemoryTable(columns={self.data.num_columns}, private)"


@dataclass(frozen=True, repr=False)
class Frame:
    """PRIVATE. A Spark DataFrame that is not read yet; its repr shows nothing of it."""

    data: Any
    label: str = "Spark DataFrame"

    def __repr__(self) -> str:
        return "Frame(private)"


@dataclass(frozen=True)
class Remote:
    """Files that only Spark can find, by their addresses.

    Attributes
    ----------
    paths : tuple of str
    label : str
        The source as the caller wrote it.
    """

    paths: tuple[str, ...]
    label: str


def safe_path(path: str, among: Sequence[str] = ()) -> str:
    """Return a path for messages, without the values of folders named key=value: they can be ids.

    Where a value is left out, the position among all files identifies the file.

    Examples
    --------
    >>> safe_path("days/1.csv")
    "'days/1.csv'"
    >>> safe_path("bus=7/1.csv", ["bus=6/1.csv", "bus=7/1.csv"])
    "'bus=.../1.csv' (file 2 of 2)"
    """
    # The key stays: it is the name of a column, and its value may be an id.
    masked = _KEY_VALUE_FOLDER.sub(r"\1\2=...", path)
    if masked == path or path not in among:
        return repr(masked)
    return f"{masked!r} (file {among.index(path) + 1} of {len(among)})"


def is_spark(value: object, kind: str) -> bool:
    """Return whether a thing is of one of Spark's types, such as "DataFrame", which stays unloaded.

    Examples
    --------
    >>> is_spark(7, "DataFrame")
    False
    """
    return any(
        base.__name__ == kind and base.__module__.startswith("pyspark.")
        for base in type(value).__mro__
    )


def is_address(name: str) -> bool:
    """Return whether a name is an address, like `s3://...`."""
    return _ADDRESS.match(name) is not None


def resolve_spark_source(source: object) -> Files | Frame | Remote:
    """Resolve the caller's source for Spark.

    Raises
    ------
    InputError
        As `resolve_source` does, and if addresses and local files are mixed, or the source is a
        table in memory.
    """
    if is_spark(source, "DataFrame"):
        return Frame(source)
    names = source if isinstance(source, (list, tuple)) else [source]
    remote = [name for name in names if isinstance(name, str) and _ADDRESS.match(name)]
    if not remote:
        resolved = resolve_source(source)
        if isinstance(resolved, MemoryTable):
            raise InputError(
                "source: a table in memory is for DuckDB; leave engine out, or pass "
                "spark.createDataFrame(table)."
            )
        return resolved
    if len(remote) < len(names):
        raise InputError("source: addresses and local files cannot be combined; name one kind.")
    return Remote(tuple(remote), ", ".join(remote))


def resolve_source(source: object) -> Files | MemoryTable:
    """Resolve the caller's source.

    Parameters
    ----------
    source : str, path, list of them, or table
        A file, folder or glob; a list of files; a pandas, polars or Arrow table (anything with
        the Arrow PyCapsule interface, such as a DuckDB relation); or a polars LazyFrame.

    Raises
    ------
    InputError
        If a file is missing or empty, no kind of file is recognised, or kinds are mixed.
    """
    if isinstance(source, (str, os.PathLike)):
        return _opened(_files(str(source), _expand(str(source)), enumerated=False))
    if isinstance(source, (list, tuple)):
        if not source or not all(isinstance(s, (str, os.PathLike)) for s in source):
            raise InputError("source, given as a list, must name one file or more.")
        names = [str(s) for s in source]
        paths = [path for name in names for path in _expand(name)]
        return _opened(_files(", ".join(names), paths, enumerated=True))
    return MemoryTable(readable_table(as_table(source)))


def _opened(files: Files) -> Files | MemoryTable:
    """Return files as they are, but feeds as the table of their positions."""
    if files.kind != "gtfs-realtime":
        return files
    snapshots = (
        (safe_path(path, files.paths), read_bytes(path, files.paths, _LARGEST_SNAPSHOT))
        for path in files.paths
    )
    return MemoryTable(readable_table(read_positions(snapshots)), files.label)


def _expand(name: str) -> list[str]:
    """Return the files that a name stands for."""
    try:
        return _matching_files(name)
    except OSError as error:
        why = atomic_files.reason(error)
        raise InputError(f"source: {name!r} cannot be looked up ({why}).") from None


def _matching_files(name: str) -> list[str]:
    path = Path(name)
    if path.is_dir():
        _refuse_tables(path)
        candidates = (p for p in path.rglob("*") if p.is_file() and kind_of(p) is not None)
        # Writers of Parquet leave markers and checksums of such names beside the data.
        paths = [str(p) for p in candidates if not p.name.startswith((".", "_"))]
        if not paths:
            raise InputError(
                f"source: the folder {name!r} holds no Parquet, CSV or JSON file, and no GTFS-"
                "Realtime feed; name the folder or file that does."
            )
        paths = [p for p in paths if not p.lower().endswith(_NOTES)] or paths
        return sorted(paths)
    if path.exists():
        return [name]
    # Last: a file whose own name holds a bracket or an asterisk is that file.
    paths = [p for p in glob.glob(name, recursive=True) if Path(p).is_file()]  # noqa: PTH207
    if not paths and _ADDRESS.match(name):
        raise InputError(
            f'source: {name!r} is an address, which Spark alone reads; engine="spark".'
        )
    if not paths:
        problem = "no file matches" if glob.has_magic(name) else "there is no file"
        raise InputError(f"source: {problem} {name!r}; check the path.")
    return sorted(paths)


def _refuse_tables(folder: Path) -> None:
    """Refuse the folder of a Delta or Iceberg table: its log says which files count."""
    for kind, sign in (("Delta", "_delta_log"), ("Iceberg", "metadata/version-hint.text")):
        if (folder / sign).exists():
            raise InputError(
                f"source: the folder {str(folder)!r} is a {kind} table, whose log says which of "
                "its files count; read it with Spark and pass the DataFrame, as "
                f'spark.read.format("{kind.lower()}").load(...) returns it.'
            )


def kind_of(path: Path) -> FileKind | None:
    """Return the kind of a file of records by its name; None for any other file."""
    name = path.name.lower()
    suffix = Path(name.removesuffix(".gz").removesuffix(".zst")).suffix
    kind = _SUFFIXES.get(suffix)
    if name.endswith(".zst") and kind != "csv":
        return None
    # Parquet compresses inside; its footer must be at the end of the file.
    return None if kind == "parquet" and name.endswith(".gz") else kind


def _files(label: str, paths: list[str], *, enumerated: bool) -> Files:
    kinds = set()
    for path in paths:
        kind = kind_of(Path(path))
        if kind is None:
            raise InputError(
                f"source: {safe_path(path, paths)} is not a kind of file that is read; unpack or "
                "export it: .parquet, .csv, .tsv or .txt (also .csv.gz, .csv.zst), .json, .jsonl, "
                ".ndjson or .geojson, or .pb for GTFS-Realtime."
            )
        kinds.add(kind)
        # Engines get names in UTF-8.
        if unicode_text(path) is None:
            raise InputError(
                f"source: the name of the file {safe_path(path)} is not in UTF-8; rename it."
            )
        # No byte, packed or not; or it cannot be opened.
        if not read_bytes(path, paths, 1):
            raise InputError(f"source: the file {safe_path(path, paths)} is empty.")
    if len(kinds) > 1:
        raise InputError(
            f"source: {label!r} holds files of several kinds ({', '.join(sorted(kinds))}); "
            "name files of one kind."
        )
    return Files(kinds.pop(), tuple(paths), label, enumerated)


def check_compressed(path: str, among: Sequence[str], times: int) -> None:
    """Refuse a packed file that is damaged or too large; delimited text is checked as it is read.

    Engines unpack without comparing checksums, so that a damaged file could become other records.

    Parameters
    ----------
    path : str
    among : sequence of str
        All files of the source, for the message.
    times : int
        How many times its size the file may unpack to.
    """
    if is_packed(path) and kind_of(Path(path)) != "csv":
        # Read to its end, where its checksum is compared.
        for _ in limited_blocks(path, among, times, _BLOCK):
            pass


def _damaged(path: str, among: Sequence[str]) -> InputError:
    """Return the error of a file; the system's holds the full path, and is not its context."""
    return InputError(
        f"source: the file {safe_path(path, among)} cannot be opened or unpacked; it may be "
        "damaged."
    )


def limited_blocks(path: str, among: Sequence[str], times: int, size: int) -> Iterator[bytes]:
    """Yield the bytes of a file, unpacked; refuse one that is damaged or unpacks to too many."""
    with contextlib.suppress(OSError):
        limit, n_read = max(_ALWAYS_UNPACKED, times * Path(path).stat().st_size), 0
        with open_file(path) as file:
            while data := file.read(size):
                n_read += len(data)
                if n_read > limit and is_packed(path):
                    raise InputError(
                        f"source: the file {safe_path(path, among)} unpacks to more than {times} "
                        "times its size; if it is what you expect, add max_unpacking = "
                        f"{10 * times} (in [format], or --set format.max_unpacking={10 * times})."
                    )
                yield data
        return
    raise _damaged(path, among)


def read_bytes(path: str, among: Sequence[str], size: int) -> bytes:
    """Return at most so many first bytes of a file, unpacked; refuse one that is damaged."""
    with contextlib.suppress(OSError), open_file(path) as file:
        return file.read(size)
    raise _damaged(path, among)


def is_packed(path: str) -> bool:
    """Return whether a file is packed by its name."""
    return path.lower().endswith(tuple(_PACKED))


def open_file(path: str) -> io.BufferedReader:
    """Open a file, unpacked if its name says that it is packed; its checksums are compared."""
    packing = _PACKED.get(Path(path).suffix.lower())
    return io.BufferedReader(pa.input_stream(path, compression=packing))


def unpacked_size(path: str) -> int:
    """Return the bytes of a file, unpacked; of a packed one modulo 2^32, as its end states."""
    with Path(path).open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        if path.lower().endswith(".gz") and size >= _GZIP_TRAILER:
            file.seek(-_GZIP_TRAILER, os.SEEK_END)
            return int.from_bytes(file.read(_GZIP_TRAILER), "little")
        return size

"""Rows of single files for tasks, and the identity of files as Spark or this machine lists them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from hexveil.records.sources.cache import FileStamp, stamp_address, stamp_file
from hexveil.records.sources.source_files import Files, Remote
from hexveil.records.spark.frames import collect, column, from_arrow
from hexveil.records.spark.parquet import (
    PATH,
    decoded_path,
    local_address,
    refused_parquet,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from hexveil.base.errors import InputError
    from hexveil.records.sources.versions import Versions

ENTRY = "number of the entry"
"""Column of the number of each row's entry in a cache."""


@dataclass(frozen=True)
class ListedFiles:
    """Files of a source, listed before they are read.

    Attributes
    ----------
    stamps : mapping of str to FileStamp
        By path: as the caller named a local file, or as an address.
    find_addresses : function
        Returns the addresses of paths as Spark reports them.
    is_twice : bool
        Whether a file is listed twice.
    """

    stamps: Mapping[str, FileStamp]
    find_addresses: Callable[[Collection[str]], Mapping[str, str]]
    is_twice: bool = False


class FileRows(Protocol):
    """PRIVATE. Rows that tasks are fed with, of chosen files."""

    def numbered(
        self, files: ListedFiles, numbers: Mapping[str, int], only: Sequence[str] | None = None
    ) -> DataFrame:
        """Return the rows of some files, with the column `ENTRY`.

        Parameters
        ----------
        files : ListedFiles
        numbers : mapping of str to int
            The number of each file, by its path.
        only : sequence of str, optional
            Columns that are read; the others are null.
        """

    def all_numbered(self) -> DataFrame:
        """Return all rows, all of entry 0."""


@dataclass(frozen=True, repr=False)
class ColumnRows:
    """PRIVATE. Rows of records, from a frame that has the address of each row's file.

    Attributes
    ----------
    frame : DataFrame
    columns : tuple of str
    """

    frame: DataFrame
    columns: tuple[str, ...]

    def numbered(
        self, files: ListedFiles, numbers: Mapping[str, int], only: Sequence[str] | None = None
    ) -> DataFrame:
        """Return the rows of some files; see `FileRows`."""
        addresses = files.find_addresses(numbers)
        by_address = {addresses[path]: number for path, number in numbers.items()}
        tags = pa.table(
            {
                PATH: pa.array(list(by_address), pa.string()),
                ENTRY: pa.array(list(by_address.values()), pa.int32()),
            }
        )
        # The condition is on a constant of each file: Spark opens no other file.
        rows = self.frame.where(column(PATH).isin(list(by_address)))
        joined = rows.join(F.broadcast(from_arrow(rows.sparkSession, tags)), PATH)
        return joined.select(column(ENTRY), *self._selected(only))

    def all_numbered(self) -> DataFrame:
        """Return all rows, all of entry 0."""
        return self.frame.select(F.lit(0).alias(ENTRY), *self._selected(None))

    def _selected(self, only: Sequence[str] | None) -> list:  # type: ignore[type-arg]
        """Return the columns; those that are not asked for are null, and not read."""
        kinds = {field.name: field.dataType for field in self.frame.schema.fields}
        return [
            column(name)
            if only is None or name in only
            else F.lit(None).cast(kinds[name]).alias(name)
            for name in self.columns
        ]


@dataclass(frozen=True, repr=False)
class ScanRows:
    """PRIVATE. Queries that open a file each.

    Attributes
    ----------
    rows : DataFrame
        Those of all files.
    scans : mapping of str to str
        By path.
    """

    rows: DataFrame
    scans: Mapping[str, str]

    def numbered(
        self,
        files: ListedFiles,  # noqa: ARG002  tasks open files by their paths
        numbers: Mapping[str, int],
        only: Sequence[str] | None = None,  # noqa: ARG002  the engine reads what is used
    ) -> DataFrame:
        """Return the rows of some files; see `FileRows`."""
        scans = pa.table(
            {
                ENTRY: pa.array(list(numbers.values()), pa.int32()),
                "scan": pa.array([self.scans[path] for path in numbers], pa.string()),
            }
        )
        return from_arrow(self.rows.sparkSession, scans).repartition(len(numbers))

    def all_numbered(self) -> DataFrame:
        """Return all rows, all of entry 0."""
        return self.rows.select(F.lit(0).alias(ENTRY), "scan")


def list_files(spark: SparkSession, source: Files | Remote, versions: Versions) -> ListedFiles:
    """Return the files of a source with their identities, and their addresses in Spark.

    Raises
    ------
    InputError
        If a file has no declared version, or cannot be looked up.
    """
    if isinstance(source, Files):
        stamps = {path: stamp_file(path, _declared(versions, path)) for path in source.paths}
        is_twice = len({stamp.name for stamp in stamps.values()}) < len(source.paths)
        return ListedFiles(stamps, partial(_local_addresses, spark), is_twice)
    listed = sorted(_listing(spark, source.paths, source.label))
    addresses = {unquote(address): address for address, _, _ in listed}
    stamps = {
        unquote(address): stamp_address(
            address, _declared(versions, unquote(address)), size, changed
        )
        for address, size, changed in listed
    }
    return ListedFiles(stamps, lambda _: addresses, len(stamps) < len(listed))


def _local_addresses(spark: SparkSession, paths: Collection[str]) -> dict[str, str]:
    """Return the addresses of local files as Spark reports them."""
    # Found, not computed: which letters are encoded, and how, is Spark's own matter.
    found = {
        decoded_path(address): address
        for address, _, _ in _listing(spark, [local_address(path) for path in paths], "the files")
    }
    return {path: found[str(Path(path).absolute())] for path in paths}


def _declared(versions: Versions, path: str) -> str:
    return versions.declared[versions.number(path)][1]


def _listing(
    spark: SparkSession, addresses: Sequence[str], label: str
) -> list[tuple[str, int, int]]:
    """Return address, bytes and time of change (nanoseconds) of each file that Spark finds."""
    # Not a byte of a file is read for these columns.
    failure: InputError | None = None
    try:
        files = spark.read.format("binaryFile").load(list(addresses))
        _ = files.schema
    except (PySparkException, Py4JError) as error:
        failure = refused_parquet(str(error), label)
    # Raised here: else Spark's error would hang on it as its context.
    if failure is not None:
        raise failure
    table = collect(
        files.select(
            F.col("_metadata.file_path").alias("address"),
            F.col("_metadata.file_size").alias("size"),
            F.unix_micros("_metadata.file_modification_time").alias("changed"),
        )
    )
    rows = zip(*(table[name].to_pylist() for name in table.column_names), strict=True)
    return [(address, size, 1000 * changed) for address, size, changed in rows]

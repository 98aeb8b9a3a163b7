"""The records of a city in one file: Parquet or CSV, by its suffix, batch by batch.

In Parquet, times are instants and `location` is a structure, as in the JSON of the real feed. In
CSV times are text with +05:30, and the place is two columns, `location.type` and
`location.coordinates`, the latter as text "[longitude, latitude]".
"""

import datetime as dt
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from hexveil.base import atomic_files
from hexveil.base.errors import InputError, StorageError

ZONE = "+05:30"
"""Of the city's clock, all year."""

AT_ONCE = 25_000
"""Records that stand in memory as text."""


def write(
    path: Path,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    progress: Callable[[int], None],
) -> int:
    """Write all records to a file and return how many; `progress` is told the batches done.

    The file has a temporary name until it is whole, and then takes the place of any before it.

    Raises
    ------
    InputError
        If the suffix is unknown, or the path is a folder or in none.
    StorageError
        If the file cannot be written; then nothing of it stays.
    """
    if path.suffix not in (".parquet", ".csv"):
        raise InputError(f"{path.name}: the name of the file must end in .parquet or .csv.")
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file.")
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {path.parent}; make it, or name another.")
    rows, write_all = 0, _write_csv if path.suffix == ".csv" else _write_parquet

    def counted() -> Iterable[pa.RecordBatch]:
        nonlocal rows
        for number, batch in enumerate(batches, start=1):
            yield batch
            rows += batch.num_rows
            progress(number)

    try:
        with atomic_files.file(path) as temporary:
            write_all(temporary, schema, counted())
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written ({atomic_files.reason(error)}); make room or name "
            f"another file."
        ) from None
    return rows


def check_integer(name: str, number: object, minimum: int, maximum: int) -> None:
    """Raise InputError unless an argument is a whole number within its limits."""
    is_integer = isinstance(number, (int, np.integer)) and not isinstance(number, bool)
    if not is_integer or not minimum <= int(number) <= maximum:  # type: ignore[call-overload]
        raise InputError(
            f"{name} must be a whole number from {minimum} to {maximum}, got {number!r}."
        )


def to_date(date: str | dt.date) -> dt.date:
    """Return a date, given as one or as text; refuse one that no reader of records takes."""
    try:
        day = date if isinstance(date, dt.date) else dt.date.fromisoformat(date)
        if 1971 <= day.year <= 2080:
            return dt.date(day.year, day.month, day.day)
    except (TypeError, ValueError):
        pass
    raise InputError(f"start must be a date from 1971 to 2080, as 2024-01-01, got {date!r}.")


def _write_parquet(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """Write Parquet, a row group per batch; an empty batch has none."""
    with pyarrow.parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in batches:
            if batch.num_rows:
                writer.write_batch(batch)


def _write_csv(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """Write CSV with a heading."""
    # The heading comes from a batch without rows: CSV has other columns than a record.
    columns = _csv_table(pa.RecordBatch.from_pylist([], schema=schema)).schema
    options = pyarrow.csv.WriteOptions(quoting_style="needed")
    with pyarrow.csv.CSVWriter(path, columns, write_options=options) as writer:
        for batch in batches:
            for start in range(0, batch.num_rows, AT_ONCE):
                writer.write_batch(_csv_table(batch.slice(start, AT_ONCE)))


def _csv_table(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch as CSV has it: times as text, and two columns for the place."""
    columns: dict[str, pa.Array] = {}
    for name in batch.schema.names:
        column = batch[name]
        if name == "location":
            columns["location.type"] = column.field("type")
            columns["location.coordinates"] = _coordinates(column)
        elif pa.types.is_timestamp(column.type):
            columns[name] = _clock(column)
        else:
            is_coded = pa.types.is_dictionary(column.type)
            columns[name] = column.dictionary_decode() if is_coded else column
    return pa.record_batch(columns)


def _clock(times: pa.Array) -> pa.Array:
    """Return times as text by the local clock."""
    # Few distinct seconds stand in many rows; each is put into words once.
    seconds = pc.local_timestamp(times).cast(pa.timestamp("s")).dictionary_encode()
    words = pc.strftime(seconds.dictionary, format=f"%Y-%m-%dT%H:%M:%S{ZONE}")
    return words.take(seconds.indices)


def _coordinates(places: pa.Array) -> pa.Array:
    """Return places as text, "[longitude, latitude]"."""
    pairs = places.field("coordinates")
    lon, lat = (pc.cast(pc.list_element(pairs, axis), pa.string()) for axis in (0, 1))
    return pc.binary_join_element_wise("[", pc.binary_join_element_wise(lon, lat, ", "), "]", "")

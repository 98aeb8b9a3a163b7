"""The records of a city in one file: Parquet, CSV or JSON, by its suffix, batch by batch.

In Parquet, times are instants and `location` is a structure, as in the JSON of the real feed. In
CSV and JSON times are text with +05:30. In CSV the place is two columns, `location.type` and
`location.coordinates`, the latter as text "[longitude, latitude]". A .json file is one array with a
record a line; .ndjson and .jsonl have a record a line and nothing else.
"""

import datetime as dt
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeAlias

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


Writer: TypeAlias = Callable[[pa.RecordBatch], object]
"""Writes the records of a batch after those before."""


def write(
    path: Path,
    records: tuple[pa.Schema, Iterable[pa.RecordBatch]],
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
    schema, batches = records
    if path.suffix not in WRITERS:
        kinds = ", ".join(WRITERS)
        raise InputError(f"{path.name}: the name of the file must end in one of {kinds}.")
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file.")
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {path.parent}; make it, or name another.")
    rows = 0
    try:
        opened = WRITERS[path.suffix]
        with atomic_files.file(path) as temporary, opened(temporary, schema) as write_batch:
            for number, batch in enumerate(batches, start=1):
                write_batch(batch)
                rows += batch.num_rows
                progress(number)
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


@contextmanager
def _parquet(path: Path, schema: pa.Schema) -> Iterator[Writer]:
    """Yield a writer of Parquet, a row group per batch; an empty batch has none."""
    with pyarrow.parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        # An empty row group would be one more for every reader to open.
        yield lambda batch: writer.write_batch(batch) if batch.num_rows else None


@contextmanager
def _csv(path: Path, schema: pa.Schema) -> Iterator[Writer]:
    """Yield a writer of CSV with a heading."""
    # The heading comes from a batch without rows: CSV has other columns than a record.
    empty = _csv_table(pa.RecordBatch.from_pylist([], schema=schema))
    options = pyarrow.csv.WriteOptions(quoting_style="needed")
    with pyarrow.csv.CSVWriter(path, empty.schema, write_options=options) as writer:

        def write_batch(batch: pa.RecordBatch) -> None:
            for start in range(0, batch.num_rows, AT_ONCE):
                writer.write_batch(_csv_table(batch.slice(start, AT_ONCE)))

        yield write_batch


@contextmanager
def _lines(path: Path, _: pa.Schema) -> Iterator[Writer]:
    """Yield a writer of JSON, a record a line."""
    with path.open("wb") as file:

        def write_batch(batch: pa.RecordBatch) -> None:
            for lines in _json(batch, "", "\n"):
                file.write(lines)

        yield write_batch


@contextmanager
def _array(path: Path, _: pa.Schema) -> Iterator[Writer]:
    """Yield a writer of one JSON array, a record a line."""
    with path.open("wb") as file:
        file.write(b"[")
        skip = 1  # no comma before the first record

        def write_batch(batch: pa.RecordBatch) -> None:
            nonlocal skip
            for lines in _json(batch, ",\n", ""):
                file.write(lines[skip:])
                skip = 0

        yield write_batch
        file.write(b"\n]\n")


WRITERS: dict[str, Callable[[Path, pa.Schema], AbstractContextManager[Writer]]] = {
    ".parquet": _parquet,
    ".csv": _csv,
    ".ndjson": _lines,
    ".jsonl": _lines,
    ".json": _array,
}
"""How each kind of file is written, by suffix."""


def _is_number(column: pa.Array) -> bool:
    return bool(pa.types.is_floating(column.type) or pa.types.is_integer(column.type))


def _texts(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """Return every column as text, null where it is null."""
    return {
        name: _coordinates(batch) if name == "location" else _text(batch[name])
        for name in batch.schema.names
    }


def _text(column: pa.Array) -> pa.Array:
    """Return a column as text: times by the local clock, numbers in their shortest form."""
    if pa.types.is_dictionary(column.type):
        return column.dictionary_decode()
    if not pa.types.is_timestamp(column.type):
        return pc.cast(column, pa.string())
    # Few distinct seconds stand in many rows; each is put into words once.
    seconds = pc.local_timestamp(column).cast(pa.timestamp("s")).dictionary_encode()
    words = pc.strftime(seconds.dictionary, format=f"%Y-%m-%dT%H:%M:%S{ZONE}")
    return words.take(seconds.indices)


def _coordinates(batch: pa.RecordBatch) -> pa.Array:
    """Return places as text, "[longitude, latitude]"."""
    pairs = batch["location"].field("coordinates")
    lon, lat = (pc.cast(pc.list_element(pairs, axis), pa.string()) for axis in (0, 1))
    return _between("[", pc.binary_join_element_wise(lon, lat, ", "), "]")


def _csv_table(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch as CSV has it: text and numbers, and two columns for the place."""
    columns: dict[str, pa.Array] = {}
    for name, text in _texts(batch).items():
        if name == "location":
            columns["location.type"] = batch["location"].field("type")
        key = "location.coordinates" if name == "location" else name
        columns[key] = batch[name] if _is_number(batch[name]) else text
    return pa.record_batch(columns)


def _json(batch: pa.RecordBatch, prefix: str, suffix: str) -> Iterator[memoryview]:
    """Yield the records as JSON objects in turn, each between two pieces of text."""
    for start in range(0, batch.num_rows, AT_ONCE):
        lines = _objects(batch.slice(start, AT_ONCE), prefix, suffix)
        # Arrow keeps texts end to end in one buffer: they are written without a copy.
        size = pc.sum(pc.binary_length(lines)).as_py()
        yield memoryview(lines.buffers()[2])[:size]


def _objects(batch: pa.RecordBatch, prefix: str, suffix: str) -> pa.Array:
    """Return each record as a JSON object; nothing in the city's text needs an escape."""
    fragments: list[pa.Array | str] = [prefix + "{"]
    for name, text in _texts(batch).items():
        value = text if _is_number(batch[name]) else _between('"', text, '"')
        if name == "location":
            value = _between('{"type": "Point", "coordinates": ', text, "}")
        comma = "" if len(fragments) == 1 else ", "
        fragments += [f'{comma}"{name}": ', pc.fill_null(value, "null")]
    return pc.binary_join_element_wise(*fragments, "}" + suffix, "")


def _between(prefix: str, text: pa.Array, suffix: str) -> pa.Array:
    """Return text between two pieces of text; null stays null."""
    return pc.binary_join_element_wise(prefix, text, suffix, "")

"""Spark tasks on files that are cached: work apart for each entry, tables of entries.

A task that is tried again, or done twice, writes a file of another name: the driver keeps the file
that the answer names, and what else is in the folder goes with it.
"""

from __future__ import annotations

import os
import secrets
from functools import partial
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hexveil.base import atomic_files
from hexveil.base.errors import InputError
from hexveil.records.sources.sealed_files import digest_of
from hexveil.records.spark import tasks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexveil.records.spark.tasks import Batches, Work

NUMBER = "entry"
"""Column of the number of an entry in what tasks return."""
SPANS = pa.schema(
    [
        ("reject_reason", pa.int32()),
        *((name, pa.int64()) for name in ("first_us", "last_us", "first_s", "last_s")),
        ("note", pa.string()),
    ]
)
"""First and last instant and local second of records; or a failure."""
WRITTEN = pa.schema(
    [
        ("reject_reason", pa.int32()),
        ("name", pa.string()),
        ("digest", pa.string()),
        ("note", pa.string()),
    ]
)
"""Name and SHA-256 of the table of an entry; or a failure."""
NOT_SHARED = (
    "cache: Spark's executors do not see the folder, or may not write there; name a folder that "
    "they share with this machine."
)
_ROWS_OF_GROUP = 1 << 17
"""Rows that a table holds in one piece, as those of the other engine do."""


def with_number(schema: pa.Schema) -> pa.Schema:
    """Return a schema with the number of the entry before all other columns."""
    return pa.schema([pa.field(NUMBER, pa.int32()), *schema])


def by_entry(work: Work, schema: pa.Schema, column: str = NUMBER) -> Work:
    """Return work that is done apart for each run of rows of one entry.

    Parameters
    ----------
    work : function
        From batches to batches.
    schema : pyarrow.Schema
        Of its result, to which the number of the entry is added.
    column : str
        The number of the entry in the task's batches; `work` does not see it.
    """

    def apart(batches: Batches) -> Batches:
        for number, run in groupby(_runs(batches, column), key=itemgetter(0)):
            for batch in work(rows for _, rows in run):
                numbers = pa.array(np.full(batch.num_rows, number, dtype=np.int32))
                yield pa.RecordBatch.from_arrays(
                    [numbers, *batch.columns], schema=with_number(schema)
                )

    return partial(tasks.catch_errors, apart, with_number(schema))


def _runs(batches: Batches, column: str) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield pieces of batches with one number each, and the number."""
    for batch in batches:
        numbers = batch[column].to_numpy(zero_copy_only=False)
        rows = batch.select([name for name in batch.schema.names if name != column])
        ends = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
        for start, end in pairwise([0, *ends.tolist(), batch.num_rows]):
            if end > start:
                yield int(numbers[start]), rows.slice(start, end - start)


def span_task(task_input: tasks.TaskInput, query: str) -> Work:
    """Return the work of a task that finds the time span of files, by `CacheQuery.span_query`."""
    names = ", ".join(name for name in SPANS.names if name.endswith(("_us", "_s")))
    return tasks.query_task(task_input, f"SELECT * FROM ({query}) AS spans({names})", SPANS)


def write_task(folder: str, schema: pa.Schema) -> Work:
    """Return the work of a task that writes the pairs of an entry as a file into a folder."""
    return partial(tasks.catch_errors, partial(_write, folder, schema), WRITTEN)


def _write(folder: str, schema: pa.Schema, batches: Batches) -> Batches:
    name = secrets.token_hex(16)
    path = Path(folder) / name
    try:
        # Private from the first byte, and never a file that is there.
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            with pq.ParquetWriter(file, schema, compression="zstd") as table:
                for rows in _gathered(batches, schema):
                    table.write_table(rows)
            file.flush()
            os.fsync(file.fileno())
    except (FileNotFoundError, PermissionError):
        raise InputError(NOT_SHARED) from None
    except OSError as error:
        raise InputError(
            f"the cache folder cannot be written ({atomic_files.reason(error)}); free space or "
            "name another, and run again."
        ) from None
    row = {"name": [name], "digest": [digest_of(path)], "reject_reason": [None], "note": [None]}
    yield pa.RecordBatch.from_pydict(row, schema=WRITTEN)


def _gathered(batches: Batches, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield rows in pieces of some size, with the columns and types of a schema."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        columns = [batch[field.name].cast(field.type) for field in schema]
        waiting.append(pa.RecordBatch.from_arrays(columns, schema=schema))
        if sum(rows.num_rows for rows in waiting) >= _ROWS_OF_GROUP:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)

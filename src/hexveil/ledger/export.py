"""Export of a ledger's events to a file, for use with other tools.

Unit losses and their hashes are left out: with the key they would reveal who is in the ledger.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet

from hexveil.base import atomic_files, csv_safety
from hexveil.base.errors import InputError, StorageError
from hexveil.ledger.integrity import hash_chain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from hexveil.base.arrays import Ints
    from hexveil.ledger.events import Event


FIELDS = ("entry", "at", "account", "dataset", "request", "kind", "body", "chain")


def write(
    path: Path, events: Sequence[Event], *, results: Mapping[int, Ints] | None = None
) -> None:
    """Write events to a new file; its suffix .json, .csv or .parquet sets the format.

    `results` are the noisy results by entry, if they are wanted, as the column `numbers`. In JSON
    `body` and `numbers` are as they are; in the tables they are JSON as text. In CSV an apostrophe
    stands before a name that a spreadsheet would take for a formula.

    Raises
    ------
    InputError
        If the name ends in something else, or there is such a file.
    StorageError
        If it cannot be written.
    """
    writer = _WRITERS.get(path.suffix.lower())
    if writer is None:
        raise InputError(f"{path} must end in one of {', '.join(_WRITERS)}.")
    try:
        if path.exists():
            raise InputError(f"{path} exists; name a new file.")
        # Whole or not at all: half an export would look like a ledger with fewer events.
        atomic_files.write(path, writer([event_row(event, results) for event in events]))
    except OSError as error:
        raise StorageError(f"{path} cannot be written ({atomic_files.reason(error)}).") from None


def event_row(event: Event, results: Mapping[int, Ints] | None = None) -> dict[str, Any]:
    """Return an event as plain values, by name; its result, if results are given."""
    fields = {name: getattr(event, name) for name in FIELDS} | {"body": dict(event.body)}
    if results is not None:
        numbers = results.get(event.entry)
        fields["numbers"] = None if numbers is None else numbers.tolist()
    return fields


def _json(rows: list[dict[str, Any]]) -> bytes:
    return f"{json.dumps(rows, indent=2)}\n".encode()


def _csv(rows: list[dict[str, Any]]) -> bytes:
    sink = pa.BufferOutputStream()
    csv_safety.write(_table(rows), sink)
    return bytes(sink.getvalue())


def _parquet(rows: list[dict[str, Any]]) -> bytes:
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(_table(rows), sink)
    return bytes(sink.getvalue())


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    names = list(rows[0]) if rows else list(FIELDS)
    # Stated, since a column of nulls alone would have no type.
    schema = pa.schema([(name, pa.int64() if name == "entry" else pa.string()) for name in names])
    long = ("body", "numbers")
    flat = [
        {n: _json_text(v) if n in long and v is not None else v for n, v in row.items()}
        for row in rows
    ]
    return pa.Table.from_pylist(flat, schema)


def _json_text(value: Any) -> str:  # noqa: ANN401  a body, or a list of whole numbers
    return hash_chain.canonical_json(value) if isinstance(value, dict) else json.dumps(value)


_WRITERS: dict[str, Callable[[list[dict[str, Any]]], bytes]] = {
    ".json": _json,
    ".csv": _csv,
    ".parquet": _parquet,
}

"""The events of a book as a file, for those who look after it with other tools.

Losses of units and their hashes are left out: with the key they would say who is in the book.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet

from hexveil import atomic, sheets
from hexveil.errors import InputError, StorageError
from hexveil.ledger import chain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from hexveil.ledger.events import Event

FIELDS = ("entry", "at", "account", "dataset", "request", "kind", "body", "chain")


def write(path: Path, found: Sequence[Event], *, numbers: bool = False) -> None:
    """Write events to a new file whose name ends in .json, .csv or .parquet.

    In JSON `body` and `numbers` are as they are; in the tables they are JSON as text. In CSV an
    apostrophe stands before a name that a spreadsheet would take for a formula.

    Raises
    ------
    InputError
        If the name ends in something else, or there is such a file.
    StorageError
        If it cannot be written.
    """
    how = _WAYS.get(path.suffix.lower())
    if how is None:
        raise InputError(f"{path} must end in one of {', '.join(_WAYS)}.")
    try:
        if path.exists():
            raise InputError(f"{path} exists; name a new file.")
        atomic.write(path, how([row(one, numbers=numbers) for one in found]))
    except OSError as error:
        raise StorageError(f"{path} cannot be written ({atomic.reason(error)}).") from None


def row(one: Event, *, numbers: bool = False) -> dict[str, Any]:
    """Return an event as plain values, by name."""
    plain = {name: getattr(one, name) for name in FIELDS} | {"body": dict(one.body)}
    if numbers:
        plain["numbers"] = None if one.numbers is None else json.loads(one.numbers)
    return plain


def _json(rows: list[dict[str, Any]]) -> bytes:
    return f"{json.dumps(rows, indent=2)}\n".encode()


def _csv(rows: list[dict[str, Any]]) -> bytes:
    sink = pa.BufferOutputStream()
    sheets.write(_table(rows), sink)
    return bytes(sink.getvalue())


def _parquet(rows: list[dict[str, Any]]) -> bytes:
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(_table(rows), sink)
    return bytes(sink.getvalue())


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    names = list(rows[0]) if rows else list(FIELDS)
    schema = pa.schema([(name, pa.int64() if name == "entry" else pa.string()) for name in names])
    long = ("body", "numbers")
    flat = [
        {n: chain.canonical(v) if n in long and v is not None else v for n, v in one.items()}
        for one in rows
    ]
    return pa.Table.from_pylist(flat, schema)


_WAYS: dict[str, Callable[[list[dict[str, Any]]], bytes]] = {
    ".json": _json,
    ".csv": _csv,
    ".parquet": _parquet,
}

"""The columns of a source by name and declared type, for whoever has no run file yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexveil.errors import InputError
from hexveil.records.columns import is_record
from hexveil.records.sources import find

if TYPE_CHECKING:
    from hexveil.records.columns import Schema

_MEMORY = "500MB"


@dataclass(frozen=True)
class Look:
    """What a source's columns are called and hold.

    Attributes
    ----------
    schema : mapping of str to Kind
    documents : bool
        Whether records are JSON documents, whose keys can be ids or values: a key is shown only
        if it is known to be none.
    """

    schema: Schema
    documents: bool


def look(source: object) -> Look:
    """Return the columns of a source that `read` takes, without a value of its records.

    Of JSON documents the keys of the first thousand.

    Raises
    ------
    InputError
        If the source cannot be read, or its first line seems to be a record instead of names.

    Examples
    --------
    >>> import pyarrow as pa
    >>> look(pa.table({"bus": ["a"], "speed": [10.0]})).schema["speed"].name
    'number'
    """
    from hexveil.records.duckdb.session import Session  # noqa: PLC0415  the engine
    from hexveil.records.duckdb.source import open_source  # noqa: PLC0415

    with Session(_MEMORY) as session:
        opened = open_source(session, find(source))
    if opened.skips and is_record(opened.schema):
        raise InputError(
            "source: its first line holds a number or a time, so it seems to be a record, which is "
            "not shown; write a line of column names above it."
        )
    return Look(opened.schema, opened.documents)

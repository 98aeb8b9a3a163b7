"""The table of parsed records of delimited text: plain files in blocks, others by the engine.

A file is read plain, block by block, several blocks at once. One that is not plain is taken back
as a whole and read by the engine, which counts its malformed lines.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hexveil.records.duckdb.delimited.block_loading import BlockLoader
from hexveil.records.duckdb.delimited.typed_columns import TYPES, Declarations
from hexveil.records.sources.source_files import check_compressed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pyarrow as pa

    from hexveil.records.duckdb.delimited.block_loading import Types
    from hexveil.records.duckdb.relation import Relation
    from hexveil.records.duckdb.session import Session
    from hexveil.records.read_request import ReadRequest
    from hexveil.records.sources.columns import ColumnRef

_BLOCK = "records_of_block"


def declarations(used: Sequence[tuple[str, ColumnRef]], request: ReadRequest) -> Declarations:
    """Return the columns of text that records are made of, and their types.

    Parameters
    ----------
    used : sequence of (str, ColumnRef)
        Each role of a record and where it is found.
    request : ReadRequest
    """
    columns = tuple(dict.fromkeys(ref.column for _, ref in used))
    written, rules = request.format, request.rules
    # A column with two roles, and what is inside of one, is text to somebody.
    alone = [
        (role, ref.column)
        for role, ref in used
        if not ref.path
        and ref.point is None
        and sum(other.column == ref.column for _, other in used) == 1
    ]
    roles = {"lat", "lon", "value"} if written.decimal == "." else set()
    if written.unit_suffix is not None:
        roles.discard("value")
    timed = [name for role, name in alone if role == "time" and written.time_format is None]
    return Declarations(
        columns,
        frozenset(name for role, name in alone if role in roles),
        timed[0] if timed else None,
        has_zone=rules.naive is not None,
        roles={role: ref.column for role, ref in used},
    )


def create_parsed(
    session: Session,
    relation: Relation,
    table: str,
    declared: Declarations,
    parse: Callable[[Relation], str],
) -> None:
    """Create the table of parsed records of all files of a relation.

    Parameters
    ----------
    session : Session
    relation : Relation
        Of delimited text.
    table : str
    declared : Declarations
    parse : function
        The SELECT of parsed records from a relation, by the types of its columns.
    """
    session.run(f"CREATE OR REPLACE TEMP TABLE {table} AS {parse(relation)} WITH NO DATA")
    loader = BlockLoader(_TableSink(session, relation, table, parse), declared, session.memory)
    # A file without one of the columns has them from the others: the engine reads all together.
    if any(not set(declared.columns) <= set(header.fields) for _, header in relation.headers):
        _check_all(relation)
        session.run(f"INSERT INTO {table} {parse(relation)}")
        return
    for path, header in relation.headers:
        # A file that is listed twice has each record twice.
        if path not in loader.others:
            loader.load(path, header)
    loader.finish()
    if loader.others and relation.select_files is not None:
        _check_all(relation, loader.others)
        rest = replace(relation, query=relation.select_files(tuple(loader.others)))
        session.run(f"INSERT INTO {table} {parse(rest)}")


def _check_all(relation: Relation, paths: Iterable[str] | None = None) -> None:
    """Check packed files to their end, by default all of a relation."""
    listed = [path for path, _ in relation.headers]
    for path in listed if paths is None else paths:
        check_compressed(path, listed)


class _TableSink:
    """Insertion of blocks into the table of parsed records."""

    def __init__(
        self,
        session: Session,
        relation: Relation,
        table: str,
        parse: Callable[[Relation], str],
    ) -> None:
        self._session, self._relation, self._table = session, relation, table
        self._parse = parse
        self._queries: dict[Types, str] = {}

    def insert(self, types: Types, table: pa.Table) -> None:
        """Insert the records of a table of blocks."""
        if types not in self._queries:
            schema = {name: TYPES[kind] for name, kind in types}
            typed = replace(self._relation, query=f"SELECT * FROM {_BLOCK}", schema=schema)
            self._queries[types] = self._parse(typed)
        self._session.register(_BLOCK, table)
        self._session.run(f"INSERT INTO {self._table} {self._queries[types]}")
        self._session.forget(_BLOCK)

    def begin(self) -> None:
        """Begin a transaction."""
        self._session.run("BEGIN TRANSACTION")

    def commit(self) -> None:
        """Commit the transaction."""
        self._session.run("COMMIT")

    def rollback(self) -> None:
        """Roll the transaction back."""
        self._session.run("ROLLBACK")

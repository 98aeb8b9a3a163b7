"""The table of parsed records of delimited text: plain files in blocks, others by the engine.

A file is read plain, block by block, several blocks at once. One that is not plain is taken back
as a whole and read by the engine, which counts its malformed lines.
"""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from hexveil.records.duckdb.delimited.plain_blocks import NotPlainError, plain_blocks
from hexveil.records.duckdb.delimited.typed_columns import TYPES, Declarations, typed_block
from hexveil.records.sources.source_files import check_compressed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    from hexveil.records.duckdb.delimited.plain_blocks import Block
    from hexveil.records.duckdb.delimited.typed_columns import TypedBlock
    from hexveil.records.duckdb.session import Session
    from hexveil.records.duckdb.source import Relation
    from hexveil.records.read_request import ReadRequest
    from hexveil.records.sources.columns import ColumnRef, TypeName
    from hexveil.records.sources.headers import FirstLine

    Types = tuple[tuple[str, TypeName], ...]

LARGEST_BLOCK, SMALLEST_BLOCK = 1 << 23, 1 << 20
_BLOCKS_IN_MEMORY = 64
"""Blocks that the memory limit has room for: a few are read, converted and inserted at once."""
_ROWS_AT_ONCE = 400_000
_BYTES_OF_ROW = 2_000
"""Rows that are inserted at once, and the bytes of the memory limit that each of them needs."""
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
    loader = _Loader(session, relation, table, declared, parse)
    others: dict[str, None] = {}
    for path, header in relation.headers:
        # A file that is listed twice has each record twice.
        if path not in others and not loader.load(path, header):
            others[path] = None
    loader.flush()
    if others and relation.select_files is not None:
        for path in others:
            check_compressed(path, [path for path, _ in relation.headers])
        rest = replace(relation, query=relation.select_files(tuple(others)))
        session.run(f"INSERT INTO {table} {parse(rest)}")


class _Tables:
    """Typed tables that wait for being inserted: many small insertions take twice as long."""

    def __init__(self) -> None:
        self.by_types: dict[Types, list[pa.Table]] = {}
        self.n_rows = 0

    def add(self, types: Types, table: pa.Table) -> None:
        """Add a table, which may be empty."""
        if table.num_rows:
            self.by_types.setdefault(types, []).append(table)
            self.n_rows += table.num_rows

    def take(self, others: _Tables) -> None:
        """Add all tables of others, which have none then."""
        for types, tables in others.by_types.items():
            self.by_types.setdefault(types, []).extend(tables)
        self.n_rows += others.n_rows
        others.clear()

    def clear(self) -> None:
        """Remove all tables."""
        self.by_types, self.n_rows = {}, 0


class _Loader:
    """Inserter of the records of plain files, small ones together."""

    def __init__(
        self,
        session: Session,
        relation: Relation,
        table: str,
        declared: Declarations,
        parse: Callable[[Relation], str],
    ) -> None:
        self._session, self._relation, self._table = session, relation, table
        self._declared, self._parse = declared, parse
        self._small_files = _Tables()
        self._queries: dict[Types, str] = {}
        size = int(session.memory / _BLOCKS_IN_MEMORY)
        self._block_size = min(max(size, SMALLEST_BLOCK), LARGEST_BLOCK)
        self._rows_at_once = min(_ROWS_AT_ONCE, int(session.memory / _BYTES_OF_ROW))

    def load(self, path: str, header: FirstLine) -> bool:
        """Insert the records of a file; return whether it is plain, and inserts none if not."""
        waiting, in_transaction = _Tables(), False
        convert = partial(typed_block, header=header, declared=self._declared)
        try:
            for typed in _ahead(plain_blocks(path, self._block_size), convert):
                waiting.add(typed.types, typed.table)
                if waiting.n_rows >= self._rows_at_once:
                    if not in_transaction:
                        self.flush()
                        self._session.run("BEGIN TRANSACTION")
                        in_transaction = True
                    self._insert(waiting)
        except NotPlainError:
            if in_transaction:
                self._session.run("ROLLBACK")
            return False
        if in_transaction:
            self._insert(waiting)
            self._session.run("COMMIT")
        self._small_files.take(waiting)
        if self._small_files.n_rows >= self._rows_at_once:
            self.flush()
        return True

    def flush(self) -> None:
        """Insert the records of small files that wait."""
        self._insert(self._small_files)

    def _insert(self, tables: _Tables) -> None:
        for types, alike in tables.by_types.items():
            if types not in self._queries:
                schema = {name: TYPES[kind] for name, kind in types}
                typed = replace(self._relation, query=f"SELECT * FROM {_BLOCK}", schema=schema)
                self._queries[types] = self._parse(typed)
            self._session.register(_BLOCK, pa.concat_tables(alike))
            self._session.run(f"INSERT INTO {self._table} {self._queries[types]}")
            self._session.forget(_BLOCK)
        tables.clear()


def _ahead(blocks: Iterator[Block], convert: Callable[[Block], TypedBlock]) -> Iterator[TypedBlock]:
    """Yield blocks in order, converted by other threads some ahead of the reader."""
    n_threads = min(os.cpu_count() or 1, 4)
    waiting: deque[Future[TypedBlock]] = deque()
    with ThreadPoolExecutor(n_threads, "hexveil-text") as pool:
        for block in blocks:
            waiting.append(pool.submit(convert, block))
            if len(waiting) > n_threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

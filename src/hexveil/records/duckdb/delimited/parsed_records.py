"""The table of parsed records of delimited text: plain files in blocks, others by the engine.

A file is read plain, block by block, several blocks at once. One that is not plain is taken back
as a whole and read by the engine, which counts its malformed lines.
"""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
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
_BUFFERED_ROWS = 200_000
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


@dataclass
class _Loader:
    """Inserter of the records of plain files, small ones together."""

    session: Session
    relation: Relation
    table: str
    declared: Declarations
    parse: Callable[[Relation], str]
    _buffered: dict[Types, list[pa.Table]] = field(default_factory=dict)
    _n_buffered: int = 0
    _queries: dict[Types, str] = field(default_factory=dict)

    def load(self, path: str, header: FirstLine) -> bool:
        """Insert the records of a file; return whether it is plain, and inserts none if not."""
        size = int(self.session.memory / _BLOCKS_IN_MEMORY)
        size = min(max(size, SMALLEST_BLOCK), LARGEST_BLOCK)
        in_transaction = False
        convert = lambda block: typed_block(block, header, self.declared)  # noqa: E731
        try:
            for block, typed in _ahead(plain_blocks(path, size), convert):
                if not block.text:
                    continue
                if block.is_first and block.is_last:
                    self._buffer(typed)
                    continue
                if not in_transaction:
                    self.flush()
                    self.session.run("BEGIN TRANSACTION")
                    in_transaction = True
                self._insert(typed.types, typed.table)
        except NotPlainError:
            if in_transaction:
                self.session.run("ROLLBACK")
            return False
        if in_transaction:
            self.session.run("COMMIT")
        return True

    def flush(self) -> None:
        """Insert the records of small files."""
        for types, tables in self._buffered.items():
            self._insert(types, pa.concat_tables(tables))
        self._buffered.clear()
        self._n_buffered = 0

    def _buffer(self, typed: TypedBlock) -> None:
        self._buffered.setdefault(typed.types, []).append(typed.table)
        self._n_buffered += typed.table.num_rows
        if self._n_buffered >= _BUFFERED_ROWS:
            self.flush()

    def _insert(self, types: Types, table: pa.Table) -> None:
        if not table.num_rows:
            return
        if types not in self._queries:
            schema = {name: TYPES[kind] for name, kind in types}
            typed = replace(self.relation, query=f"SELECT * FROM {_BLOCK}", schema=schema)
            self._queries[types] = self.parse(typed)
        self.session.register(_BLOCK, table)
        self.session.run(f"INSERT INTO {self.table} {self._queries[types]}")
        self.session.forget(_BLOCK)


def _ahead(
    blocks: Iterator[Block], convert: Callable[[Block], TypedBlock]
) -> Iterator[tuple[Block, TypedBlock]]:
    """Yield blocks in order, converted by other threads some ahead of the reader."""
    n_threads = os.cpu_count() or 1
    waiting: deque[tuple[Block, Future[TypedBlock]]] = deque()
    with ThreadPoolExecutor(min(n_threads, 4), "hexveil-text") as pool:
        for block in blocks:
            waiting.append((block, pool.submit(convert, block)))
            if len(waiting) > n_threads:
                first, typed = waiting.popleft()
                yield first, typed.result()
        while waiting:
            first, typed = waiting.popleft()
            yield first, typed.result()

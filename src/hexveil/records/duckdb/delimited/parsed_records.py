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
from itertools import chain, islice
from typing import TYPE_CHECKING

import pyarrow as pa

from hexveil.records.duckdb.delimited.plain_blocks import Block, NotPlainError, plain_blocks
from hexveil.records.duckdb.delimited.typed_columns import TYPES, Declarations, typed_block
from hexveil.records.sources.source_files import check_compressed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future

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


class _Tables:
    """Typed tables that wait for being inserted: many small insertions take twice as long."""

    def __init__(self) -> None:
        self.by_types: dict[Types, list[pa.Table]] = {}
        self.n_rows = 0

    def add(self, block: TypedBlock) -> None:
        """Add the columns of a block."""
        self.by_types.setdefault(block.types, []).append(block.table)
        self.n_rows += block.table.num_rows

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
        self.others: dict[str, None] = {}
        """Files that are not plain, of which nothing is inserted."""
        self._small_files: dict[FirstLine, list[tuple[str, bytes]]] = {}
        self._n_bytes = 0
        self._waiting = _Tables()
        self._queries: dict[Types, str] = {}
        size = int(session.memory / _BLOCKS_IN_MEMORY)
        self._block_size = min(max(size, SMALLEST_BLOCK), LARGEST_BLOCK)
        self._rows_at_once = min(_ROWS_AT_ONCE, int(session.memory / _BYTES_OF_ROW))

    def load(self, path: str, header: FirstLine) -> None:
        """Insert the records of a file, or note that it is not plain."""
        try:
            blocks = plain_blocks(path, self._block_size)
            first = list(islice(blocks, 2))
            if len(first) > 1:
                self._load_large(chain(first, blocks), header)
        except NotPlainError:
            self.others[path] = None
            return
        if len(first) == 1:
            text = first[0].text
            ended = text if text.endswith(b"\n") else text + b"\n"
            self._small_files.setdefault(header, []).append((path, ended))
            self._n_bytes += len(ended)
        if self._n_bytes >= self._block_size:
            self._convert_small()

    def finish(self) -> None:
        """Insert all records that wait."""
        self._convert_small()
        self._insert(self._waiting)

    def _load_large(self, blocks: Iterator[Block], header: FirstLine) -> None:
        convert = partial(typed_block, header=header, declared=self._declared)
        waiting, in_transaction = _Tables(), False
        try:
            for typed in _ahead(blocks, convert):
                waiting.add(typed)
                if waiting.n_rows >= self._rows_at_once:
                    if not in_transaction:
                        self._session.run("BEGIN TRANSACTION")
                        in_transaction = True
                    self._insert(waiting)
        except NotPlainError:
            if in_transaction:
                self._session.run("ROLLBACK")
            raise
        self._insert(waiting)
        if in_transaction:
            self._session.run("COMMIT")

    def _convert_small(self) -> None:
        """Convert small files of one header as one block, or one by one if this fails."""
        for header, files in self._small_files.items():
            try:
                self._convert(b"".join(text for _, text in files), header)
            except NotPlainError:
                for path, text in files:
                    try:
                        self._convert(text, header)
                    except NotPlainError:
                        self.others[path] = None
        self._small_files, self._n_bytes = {}, 0
        if self._waiting.n_rows >= self._rows_at_once:
            self._insert(self._waiting)

    def _convert(self, text: bytes, header: FirstLine) -> None:
        self._waiting.add(typed_block(Block(text), header, self._declared))

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

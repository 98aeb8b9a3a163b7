"""Loading of plain files block by block: split and converted by threads, given to a sink in order.

Several blocks are at work at once, and files below the size of a block are joined. A file that is
not plain is noted, and nothing of it stays in the sink.
"""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from hexveil.records.duckdb.delimited.plain_blocks import Block, NotPlainError, plain_blocks
from hexveil.records.duckdb.delimited.typed_columns import typed_block

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from concurrent.futures import Future

    from hexveil.records.duckdb.delimited.typed_columns import Declarations, TypedBlock
    from hexveil.records.sources.columns import TypeName
    from hexveil.records.sources.headers import FirstLine

    Types = tuple[tuple[str, TypeName], ...]

LARGEST_BLOCK, SMALLEST_BLOCK = 1 << 23, 1 << 20
_BLOCKS_IN_MEMORY = 64
"""Blocks that the memory limit has room for: a few are read, converted and taken at once."""
_ROWS_AT_ONCE = 400_000
_BYTES_OF_ROW = 2_000
"""Rows that are taken at once, and the bytes of the memory limit that each of them needs."""


class RecordSink(Protocol):
    """PRIVATE. What takes the records of plain files."""

    def insert(self, types: Types, table: pa.Table) -> None:
        """Take the columns of many records, with the types of these columns."""

    def begin(self) -> None:
        """Begin what `rollback` undoes."""

    def commit(self) -> None:
        """Keep all that was taken."""

    def rollback(self) -> None:
        """Undo all since `begin`."""


class _WaitingTables:
    """Typed tables that wait for the sink: many small insertions take twice as long."""

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


class BlockLoader:
    """Loader of the records of plain files, small ones together.

    Parameters
    ----------
    sink : RecordSink
    declared : Declarations
    memory : float
        Bytes; a small memory makes small blocks.

    Attributes
    ----------
    others : dict of str to None
        Files that are not plain, of which nothing is in the sink.
    """

    def __init__(self, sink: RecordSink, declared: Declarations, memory: float) -> None:
        self._sink, self._declared = sink, declared
        self.others: dict[str, None] = {}
        self._small_files: dict[FirstLine, list[tuple[str, bytes]]] = {}
        self._n_bytes = 0
        self._waiting = _WaitingTables()
        self._unused: list[bytearray] = []
        size = int(memory / _BLOCKS_IN_MEMORY)
        self._block_size = min(max(size, SMALLEST_BLOCK), LARGEST_BLOCK)
        self._rows_at_once = min(_ROWS_AT_ONCE, int(memory / _BYTES_OF_ROW))

    def load(self, path: str, header: FirstLine) -> None:
        """Insert the records of a file, or note that it is not plain."""
        try:
            blocks = plain_blocks(path, self._block_size, self._unused)
            first = list(islice(blocks, 2))
            if len(first) > 1:
                self._load_large(chain(first, blocks), header)
        except NotPlainError:
            self.others[path] = None
            return
        if len(first) == 1:
            text = bytes(first[0].text)
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
        convert = partial(self._converted, header=header)
        waiting, in_transaction = _WaitingTables(), False
        try:
            # Closed: an interruption ends the threads before it goes on.
            with closing(_ahead(blocks, convert)) as typed_blocks:
                for typed in typed_blocks:
                    waiting.add(typed)
                    if waiting.n_rows >= self._rows_at_once:
                        if not in_transaction:
                            self._sink.begin()
                            in_transaction = True
                        self._insert(waiting)
        except NotPlainError:
            if in_transaction:
                self._sink.rollback()
            raise
        self._insert(waiting)
        if in_transaction:
            self._sink.commit()

    def _converted(self, block: Block, header: FirstLine) -> TypedBlock:
        typed = typed_block(block, header, self._declared)
        if isinstance(block.text, bytearray):
            # Nothing of the text is in the columns.
            self._unused.append(block.text)
        return typed

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

    def _insert(self, tables: _WaitingTables) -> None:
        for types, alike in tables.by_types.items():
            self._sink.insert(types, pa.concat_tables(alike))
        tables.clear()


def _ahead(
    blocks: Iterator[Block], convert: Callable[[Block], TypedBlock]
) -> Generator[TypedBlock, None, None]:
    """Yield blocks in order, converted by other threads some ahead of the reader."""
    n_threads = min(os.cpu_count() or 1, 4)
    waiting: deque[Future[TypedBlock]] = deque()
    with ThreadPoolExecutor(n_threads, "hexveil-text") as pool:
        try:
            for block in blocks:
                waiting.append(pool.submit(convert, block))
                if len(waiting) > n_threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

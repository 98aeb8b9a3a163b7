"""Delimited text as a stream of Arrow that the engine reads, anew for each scan.

Fields are text, byte for byte. A field that is used must be UTF-8, else its record is malformed.
Of malformed lines nothing is kept but their number, of a file nothing but a few blocks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyarrow import csv

from hexveil.base.arrow_tables import to_arrow
from hexveil.base.errors import InputError
from hexveil.records.duckdb.session import Session
from hexveil.records.sources import text_lines
from hexveil.records.sources.headers import FIRST_BYTES, FirstLine
from hexveil.records.sources.record_format import RecordFormat
from hexveil.records.sources.source_files import limited_blocks, unpacked_size

_LARGEST_BLOCK, _SMALLEST_BLOCK = 1 << 22, 1 << 19
_BLOCKS_IN_MEMORY = 128
"""Blocks that the memory limit has room for: of one there are several forms at once."""
_NOTHING = "nothing"
"""Column of a stream without any."""
_PARSED_AT_ONCE = 1 << 20
"""Bytes of a block that are parsed at once: what is made of them stays in a processor's memory."""


@dataclass(frozen=True)
class TextFile:
    """A file of delimited text, with all that tells how it is read."""

    path: str
    header: FirstLine
    format: RecordFormat


@dataclass
class LineCounts:
    """Counts by scans of lines that are malformed.

    Attributes
    ----------
    malformed : dict of str to int
        Lines of each file that the last scan left out, by its path.
    undecoded : bool
        Whether some were no text.
    """

    malformed: dict[str, int] = field(default_factory=dict)
    undecoded: bool = False


@dataclass(frozen=True, repr=False)
class TextSource:
    """PRIVATE. Files of delimited text, for the queries of a session.

    Attributes
    ----------
    session : Session
    files : tuple of TextFile
        A file that is listed twice is twice in it.
    columns : tuple of str
        The columns that are read.
    """

    session: Session
    files: tuple[TextFile, ...]
    columns: tuple[str, ...]
    _found: LineCounts = field(default_factory=LineCounts)
    _names: dict[object, str] = field(default_factory=dict)

    def query(
        self, columns: Sequence[str] | None = None, paths: Collection[str] | None = None
    ) -> str:
        """Return the SELECT of records, by default of all files and the columns that are used."""
        key = None if paths is None else frozenset(paths), tuple(columns or ())
        if key not in self._names:
            name = self._names[key] = f"delimited_text_{len(self._names)}"
            files = [file for file in self.files if paths is None or file.path in paths]
            stream = TextStream(files, columns or self.columns, self.session.memory, self._found)
            self.session.register_stream(name, stream)
        return f"SELECT * FROM {self._names[key]}"

    def skipped(self, paths: Collection[str] | None = None) -> int:
        """Return how many malformed lines the last scans of files found."""
        scanned = [file.path for file in self.files if paths is None or file.path in paths]
        return sum(self._found.malformed.get(path, 0) for path in scanned)

    def hint(self) -> str:
        """Return the declaration that malformed lines may lack; nothing of a line is shown."""
        declared = self.files[0].format
        if self._found.undecoded and declared.encoding is None:
            return (
                '; some are not in UTF-8: if the file is in Latin-1, add encoding = "latin-1" (in '
                "[format], or --set format.encoding=latin-1)"
            )
        return "; each line has as many fields as the first, and a quote ends with its line"


class TextStream:
    """PRIVATE. Records of files, by the interface of Arrow's streams.

    Parameters
    ----------
    files : sequence of TextFile
    columns : sequence of str
    memory : float
        Bytes; a small memory makes small blocks.
    found : LineCounts
        Where malformed lines are counted.

    Attributes
    ----------
    failure : InputError or None
        Why the last scan ended early.
    share : float
        How much of the files the scan that is going on has read, about.
    """

    def __init__(
        self, files: Sequence[TextFile], columns: Sequence[str], memory: float, found: LineCounts
    ) -> None:
        self._files, self._columns, self._found = files, columns, found
        # A row without any column is none.
        self._schema = pa.schema([(name, pa.string()) for name in columns or [_NOTHING]])
        size = int(memory / _BLOCKS_IN_MEMORY)
        self._block_size = min(max(size, _SMALLEST_BLOCK), _LARGEST_BLOCK)
        self.failure: InputError | None = None
        self.share = 0.0

    def __repr__(self) -> str:
        return "TextStream(private)"

    def __arrow_c_schema__(self) -> object:
        """Return the schema, as Arrow's interface does."""
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return a new stream, as Arrow's interface does."""
        reader = pa.RecordBatchReader.from_batches(self._schema, self._watched())
        return reader.__arrow_c_stream__(requested_schema)

    def _watched(self) -> Iterator[pa.RecordBatch]:
        """Yield all records; note a failure, which the engine would pass on as text."""
        self.failure = None
        try:
            for number, file in enumerate(self._files):
                for share, batch in self._records(file):
                    self.share = (number + share) / len(self._files)
                    yield batch
        except InputError as error:
            self.failure = error
            raise
        finally:
            self.share = 0.0

    def _records(self, file: TextFile) -> Iterator[tuple[float, pa.RecordBatch]]:
        """Yield the records of a file, each with the share that is read; count malformed lines."""
        declared, n_malformed, n_read = file.format, 0, 0
        size = max(unpacked_size(file.path), 1)
        paths = [text_file.path for text_file in self._files]
        blocks = text_lines.whole_lines(
            text_lines.as_text(
                limited_blocks(file.path, paths, declared.max_unpacking, self._block_size), declared
            ),
            # The first line may be as long as a reader of headers takes it.
            max(text_lines.LONGEST_LINE, FIRST_BYTES),
        )
        parser = _BlockParser(file, self._columns, self._found)
        for text, n_long in text_lines.without_header(blocks):
            n_malformed += n_long
            if not text:
                continue
            table, n_bad = parser.read(text)
            n_malformed += n_bad
            n_read += len(text)
            # Columns that are not in this file are null.
            missing = pa.nulls(len(table), pa.string())
            arrays = [table[n] if n in table.column_names else missing for n in self._schema.names]
            for batch in pa.table(arrays, schema=self._schema).to_batches():
                yield min(n_read / size, 1.0), batch
        self._found.malformed[file.path] = n_malformed


class _BlockParser:
    """PRIVATE. From blocks of lines of a file to columns."""

    def __init__(self, file: TextFile, names: Sequence[str], found: LineCounts) -> None:
        self._file, self._found = file, found
        fields = file.header.fields
        # A file without any of the columns still has records.
        self._places = {n: fields.index(n) for n in names if n in fields} or {_NOTHING: 0}

    def read(self, text: bytes) -> tuple[pa.Table, int]:
        """Return the columns of whole lines, and how many of these are malformed."""
        mark = self._file.header.mark
        if text_lines.is_simple(text, mark):
            # Mostly all lines are as they should be, and nothing has to be looked for.
            with contextlib.suppress(pa.ArrowInvalid):
                return self._parsed(text, pa.string()), 0
        lines = text_lines.sort_lines(text, mark, len(self._file.header.fields))
        rows = {
            name: pa.array([row[place] or None for row in lines.rows], pa.binary())
            for name, place in self._places.items()
        }
        plain = [self._parsed(lines.text, pa.binary())] if lines.text else []
        texts, n_bad = _of_utf8(pa.concat_tables([*plain, pa.table(rows)]))
        self._found.undecoded |= n_bad > 0
        return texts, lines.malformed + n_bad

    def _parsed(self, text: bytes, kind: pa.DataType) -> pa.Table:
        """Return the fields of lines as columns of a type: bytes, or text in UTF-8."""
        header = self._file.header
        names = [f"{i}" for i in range(len(header.fields))]
        used = [names[place] for place in self._places.values()]
        table = csv.read_csv(
            pa.BufferReader(text),
            csv.ReadOptions(column_names=names, use_threads=False, block_size=_PARSED_AT_ONCE),
            csv.ParseOptions(delimiter=header.mark, quote_char='"' if b'"' in text else False),
            csv.ConvertOptions(
                check_utf8=not text.isascii(),
                column_types=dict.fromkeys(used, kind),
                include_columns=used,
                null_values=[""],
                strings_can_be_null=True,
            ),
        )
        return table.rename_columns(list(self._places))


def _of_utf8(table: pa.Table) -> tuple[pa.Table, int]:
    """Return the rows of UTF-8 in every field, as text, and the number of the others."""
    invalid = np.zeros(table.num_rows, dtype=np.bool_)
    for column in table.columns:
        with contextlib.suppress(pa.ArrowInvalid):
            column.cast(pa.string())
            continue
        texts = (text or b"" for text in column.to_pylist())
        invalid |= [text.decode(errors="ignore").encode() != text for text in texts]
    n_bad = int(np.count_nonzero(invalid))
    if n_bad:
        table = table.take(to_arrow(np.flatnonzero(~invalid)))
    return table.cast(pa.schema([(name, pa.string()) for name in table.column_names])), n_bad

"""Unpacked sizes of the pages of a Parquet file, from their headers without unpacking them.

The sizes in a file's footer are claims: a reader allocates the size in each page's own header. So
the page headers of an untrusted file are checked first. They are structs of Thrift's
compact protocol (parquet.thrift, `PageHeader`); only whole numbers in them are of interest here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, TypeAlias

MAX_HEADER = 64 * 1024
"""Bytes of a page header; statistics of long texts are the largest part of it."""
_MAX_DEPTH = 8
_TRUE, _FALSE, _BYTE, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 6, 7, 8, 9, 10, 12
_SIZE = {_TRUE: 0, _FALSE: 0, _BYTE: 1, _DOUBLE: 8}
Value: TypeAlias = "int | Numbers | list[Numbers]"
Numbers: TypeAlias = "dict[int, Value]"


@dataclass(frozen=True)
class Page:
    """A page as its header declares it.

    Attributes
    ----------
    unpacked, packed : int
        Bytes of its content.
    values : int
        How many values it holds.
    encoding : int
        Number of its encoding in parquet.thrift.
    """

    unpacked: int
    packed: int
    values: int
    encoding: int


@dataclass(frozen=True)
class Chunk:
    """A column of a group of rows, as the footer declares it.

    Attributes
    ----------
    rows, values : int
        Of its group, and of itself.
    start, size : int
        Where its first page begins, and its bytes in the file.
    """

    rows: int
    values: int
    start: int
    size: int


def parse_footer(data: bytes) -> tuple[int, list[int], list[Chunk]]:
    """Return a file's rows, the rows of each group, and all column chunks.

    pyarrow's own view of a broken footer can end the whole process, so it is not asked.

    Parameters
    ----------
    data : bytes
        A `FileMetaData` of parquet.thrift.

    Raises
    ------
    ValueError
        If it is none, or a group lacks a column.
    """
    fields = _Header(data).struct()
    groups = _get_structs(fields, 4)
    counts = [_get_number(group, 3) for group in groups]
    chunks = [
        _parse_chunk(column, rows)
        for group, rows in zip(groups, counts, strict=True)
        for column in _get_structs(group, 1)
    ]
    # A schema element without children (field 5) is a column.
    leaves = sum(5 not in element for element in _get_structs(fields, 2))
    if len(chunks) != leaves * len(groups):
        raise ValueError("a group that lacks a column")
    return _get_number(fields, 3), counts, chunks


def _parse_chunk(fields: Numbers, rows: int) -> Chunk:
    metadata = fields.get(3)
    if not isinstance(metadata, dict):
        raise ValueError("a column without a description")  # noqa: TRY004  of bytes
    starts = [_get_number(metadata, key) for key in (9, 11) if key in metadata]
    return Chunk(rows, _get_number(metadata, 5), min(starts, default=-1), _get_number(metadata, 7))


def _get_structs(fields: Numbers, key: int) -> list[Numbers]:
    value = fields.get(key)
    if not isinstance(value, list):
        raise ValueError("no list where one must be")  # noqa: TRY004  of bytes
    return value


def _get_number(fields: Numbers, key: int) -> int:
    value = fields.get(key)
    if not isinstance(value, int):
        raise ValueError("no number where one must be")  # noqa: TRY004  of bytes
    return value


def read_pages(file: BinaryIO, start: int, size: int, max_pages: int) -> Iterator[Page]:
    """Yield the pages of a column chunk.

    Parameters
    ----------
    file : binary file
    start, size : int
        Where the chunk begins, and its bytes in the file.
    max_pages : int
        Pages that it may have.

    Raises
    ------
    ValueError
        If something there is no page header, or there are more pages than `max_pages`.
    """
    position, remaining = start, max_pages
    while position < start + size:
        remaining -= 1
        if remaining < 0:
            raise ValueError("more pages than their rows need")
        file.seek(position)
        # The size of a header is not known before it is read: a prefix must hold it whole.
        header = _Header(file.read(MAX_HEADER))
        page = _parse_page(header.struct())
        yield page
        position += header.position + page.packed


def _parse_page(fields: Numbers) -> Page:
    # Fields of a data, index, dictionary and second kind of data page: 5, 6, 7 and 8.
    details = next(
        (
            details_of_kind
            for key in (5, 7, 8)
            if isinstance(details_of_kind := fields.get(key), dict)
        ),
        {},
    )
    encoding = details.get(4 if 8 in fields else 2, 0)
    numbers = fields.get(2), fields.get(3), details.get(1, 0), encoding
    unpacked, packed, values, encoding = (
        number if isinstance(number, int) else -1 for number in numbers
    )
    if min(unpacked, packed, values, encoding) < 0:
        raise ValueError("a page without a size")
    return Page(unpacked, packed, values, encoding)


class _Header:
    """The bytes of a header, and how far they are read."""

    def __init__(self, data: bytes) -> None:
        self.data, self.position = data, 0

    def struct(self, depth: int = 0) -> Numbers:
        """Return the whole numbers of a struct by their field, structs inside it likewise."""
        # Thrift nests without limit; headers of real files nest a few levels.
        if depth > _MAX_DEPTH:
            raise ValueError("structs within structs")
        fields: Numbers = {}
        field = 0
        while kind_and_step := self._byte():
            step, kind = divmod(kind_and_step, 16)
            field = field + step if step else self._integer()
            value = self._value(kind, depth)
            if value is not None:
                fields[field] = value
        return fields

    def _value(self, kind: int, depth: int) -> Value | None:
        """Return a whole number, a struct or the structs of a list; skip all else."""
        if _BYTE < kind <= _I64:
            return self._integer()
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind in {_LIST, _SET}:
            return self._list(depth)
        if kind == _BINARY:
            self._skip(self._varint())
        elif kind in _SIZE:
            self._skip(_SIZE[kind])
        else:
            raise ValueError("a kind without a size")
        return None

    def _list(self, depth: int) -> list[Numbers]:
        """Return the structs of a list; of all else nothing."""
        length, kind = divmod(self._byte(), 16)
        length = self._varint() if length == 15 else length
        if length > len(self.data) - self.position:  # each takes a byte at least
            raise ValueError("a list without an end")
        fields: list[Numbers] = []
        for _ in range(length):
            value = self._byte() if kind in {_TRUE, _FALSE} else self._value(kind, depth)
            if isinstance(value, dict):
                fields.append(value)
        return fields

    def _integer(self) -> int:
        coded = self._varint()
        return (coded >> 1) ^ -(coded & 1)

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise ValueError("a number without an end")

    def _byte(self) -> int:
        self._skip(1)
        return self.data[self.position - 1]

    def _skip(self, many: int) -> None:
        self.position += many
        if self.position > len(self.data):
            raise ValueError("a header without an end")

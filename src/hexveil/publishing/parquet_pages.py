"""What the pages of a Parquet file unpack to, read from their headers without unpacking them.

The sizes in a file's footer are claims: a reader allocates what each page's own header says. So
whoever reads a stranger's file looks at the page headers first. They are structs of Thrift's
compact protocol (parquet.thrift, `PageHeader`); only whole numbers in them are of interest here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST = 64 * 1024
"""Bytes of a page header; statistics of long texts are the largest part of it."""
_DEEPEST = 8
_TRUE, _FALSE, _BYTE, _I64, _DOUBLE, _BINARY, _STRUCT = 1, 2, 3, 6, 7, 8, 12
_SIZE = {_TRUE: 0, _FALSE: 0, _BYTE: 1, _DOUBLE: 8}
Numbers = dict[int, "int | Numbers"]


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


def pages(file: BinaryIO, start: int, size: int, most: int) -> Iterator[Page]:
    """Yield the pages of a column chunk.

    Parameters
    ----------
    file : binary file
    start, size : int
        Where the chunk begins, and its bytes in the file.
    most : int
        Pages that it may have.

    Raises
    ------
    ValueError
        If something there is no page header, or there are more pages than `most`.
    """
    at, left = start, most
    while at < start + size:
        left -= 1
        if left < 0:
            raise ValueError("more pages than their rows need")
        file.seek(at)
        header = _Header(file.read(LONGEST))
        page = _page(header.struct())
        yield page
        at += header.at + page.packed


def _page(said: Numbers) -> Page:
    # Of an index, data, dictionary or second kind of data page: 5, 6, 7 and 8.
    own = next((part for key in (5, 7, 8) if isinstance(part := said.get(key), dict)), {})
    encoding = own.get(4 if 8 in said else 2, 0)
    numbers = said.get(2), said.get(3), own.get(1, 0), encoding
    unpacked, packed, values, encoding = (one if isinstance(one, int) else -1 for one in numbers)
    if min(unpacked, packed, values, encoding) < 0:
        raise ValueError("a page without a size")
    return Page(unpacked, packed, values, encoding)


class _Header:
    """The bytes of a header, and how far they are read."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def struct(self, depth: int = 0) -> Numbers:
        """Return the whole numbers of a struct by their field, structs inside it likewise."""
        if depth > _DEEPEST:
            raise ValueError("structs within structs")
        found: Numbers = {}
        field = 0
        while kind_and_step := self._byte():
            step, kind = divmod(kind_and_step, 16)
            field = field + step if step else self._whole()
            value = self._value(kind, depth)
            if value is not None:
                found[field] = value
        return found

    def _value(self, kind: int, depth: int) -> int | Numbers | None:
        """Return a whole number or a struct; skip all else."""
        if _BYTE < kind <= _I64:
            return self._whole()
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind == _BINARY:
            self._skip(self._varint())
        elif kind in _SIZE:
            self._skip(_SIZE[kind])
        else:
            raise ValueError("a list, which no page header has")
        return None

    def _whole(self) -> int:
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
        return self.data[self.at - 1]

    def _skip(self, many: int) -> None:
        self.at += many
        if self.at > len(self.data):
            raise ValueError("a header without an end")

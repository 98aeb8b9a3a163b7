"""Blocks of whole lines of delimited text that every reader splits alike.

In a plain block no field is quoted, though names of columns may be, and all lines end alike: a line
is what stands between two line ends, a field what stands between two separators. There is nothing
left about which two readers could differ. Files with anything else are left to the engine's reader.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from hexveil.records.sources.source_files import ZSTD

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from io import FileIO

_LONGEST_LINE = 1 << 20
"""Bytes without a line end that no block has: the engine refuses lines of twice as many."""
_PACKED = (".gz", ZSTD)
_HEADER = re.compile(rb'(?:[^"\r\n\0]|(?<![^,;\t|])"[^"\r\n\0]*"(?![^,;\t|\r\n]))*\r?\n?')
"""A first line in which quotes stand around whole names alone: it ends where it seems to end."""


class NotPlainError(Exception):
    """A file has quotes, other line ends or bytes, or lines of another number of fields."""


@dataclass(frozen=True, repr=False)
class Block:
    """PRIVATE. Whole lines of a file.

    Attributes
    ----------
    text : bytes or bytearray
    """

    text: bytes | bytearray


def plain_blocks(
    path: str, size: int, unused: list[bytearray] | None = None
) -> Generator[Block, None, None]:
    """Yield a file's lines in blocks of about so many bytes, without its first line.

    Parameters
    ----------
    path : str
    size : int
    unused : list of bytearray, optional
        Texts of blocks that are done with, for others to be read into: the system takes longer to
        provide new memory than to read. They are taken from this list.

    Raises
    ------
    NotPlainError
        If a block is not plain, or the file cannot be read or unpacked to its end.
    """
    line_end = b""
    for text in _whole_lines(path, size, [] if unused is None else unused):
        lines = text
        if not line_end:
            line_end = b"\r\n" if text[: text.find(b"\n") + 1].endswith(b"\r\n") else b"\n"
            lines = _without_header(text)
        _check(lines, line_end)
        if lines:
            yield Block(lines)


def _whole_lines(path: str, size: int, unused: list[bytearray]) -> Iterator[bytearray]:
    """Yield a file's bytes, cut after line ends; only the last line may have none."""
    rest = b""
    if not path.lower().endswith(_PACKED):
        with contextlib.suppress(OSError):
            # Of a small file no more memory than it fills, and a byte to see its end.
            size = min(size, Path(path).stat().st_size + 1)
    with contextlib.closing(_opened(path)) as file:
        while True:
            # Read in place: a copy of each block would take as long as looking at it.
            text = _room(len(rest) + size, unused)
            text[: len(rest)] = rest
            n_read = _read(file, memoryview(text)[len(rest) :])
            if not n_read:
                unused.append(text)
                break
            del text[len(rest) + n_read :]
            cut = text.rfind(b"\n") + 1
            if not cut and len(text) > size + _LONGEST_LINE:
                raise NotPlainError
            rest = bytes(text[cut:])
            if cut:
                del text[cut:]
                yield text
    if rest:
        yield bytearray(rest)


def _room(size: int, unused: list[bytearray]) -> bytearray:
    """Return so many bytes, of any content."""
    while unused:
        text = unused.pop()
        # Most texts were cut after their last line alone; a short one would have to grow.
        if len(text) > size // 2:
            text.extend(bytes(max(size - len(text), 0)))
            del text[size:]
            return text
    return bytearray(size)


def _opened(path: str) -> FileIO | pa.NativeFile:
    with contextlib.suppress(OSError):
        if path.lower().endswith(_PACKED):
            # Its reader compares checksums, which the engine's does not.
            stream: pa.NativeFile = pa.input_stream(path, compression="detect")
            return stream
        return Path(path).open("rb", buffering=0)
    raise NotPlainError


def _read(file: FileIO | pa.NativeFile, room: memoryview) -> int:
    """Read into a room; return how many bytes were read, 0 at the end."""
    with contextlib.suppress(OSError), room:
        return int(file.readinto(room) or 0)
    raise NotPlainError


def _without_header(block: bytearray) -> bytearray:
    """Return a file's first block without its first line."""
    start = block.find(b"\n") + 1
    if not _HEADER.fullmatch(block, 0, start or len(block)):
        raise NotPlainError
    return block[start:] if start else bytearray()


def _check(block: bytearray, line_end: bytes) -> None:
    """Raise `NotPlainError` unless a block is plain; each look is a search for one byte."""
    if b'"' in block or b"\0" in block or not _is_utf8(block):
        raise NotPlainError
    # Each return stands before a line end, and each line end has one; or there is none.
    if line_end == b"\n":
        is_even = b"\r" not in block  # a search: counting takes ten times as long
    else:
        is_even = len({block.count(mark) for mark in (b"\r", b"\r\n", b"\n")}) == 1
    if not is_even:
        raise NotPlainError
    # A longer line would cover one of these windows.
    for start in range(0, len(block) - _LONGEST_LINE, _LONGEST_LINE):
        if block.find(b"\n", start, start + _LONGEST_LINE) < 0:
            raise NotPlainError


def _is_utf8(block: bytearray) -> bool:
    if block.isascii():
        return True
    with contextlib.suppress(pa.ArrowInvalid):
        # A block ends with a line, so that no letter is cut in two.
        pa.array([block], pa.binary()).cast(pa.string())
        return True
    return False


def buffer(block: Block) -> pa.BufferReader:
    """Return a block as a file, without a copy."""
    return pa.BufferReader(block.text)

"""Blocks of whole lines of delimited text that every reader splits alike.

In a plain block no field is quoted and all lines end alike: a line is what stands between two line
ends, a field what stands between two separators. There is nothing left about which two readers
could differ. Files with anything else are left to the engine's reader.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pyarrow as pa

from hexveil.records.sources.source_files import ZSTD

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST_LINE = 1 << 20
"""Bytes without a line end that no block has: the engine refuses lines of twice as many."""
_PACKED = (".gz", ZSTD)


class NotPlainError(Exception):
    """A file has quotes, other line ends or bytes, or lines of another number of fields."""


@dataclass(frozen=True, repr=False)
class Block:
    """PRIVATE. Whole lines of a file.

    Attributes
    ----------
    text : bytes
    """

    text: bytes


def plain_blocks(path: str, size: int) -> Iterator[Block]:
    """Yield a file's lines in blocks of about so many bytes, without its first line.

    Raises
    ------
    NotPlainError
        If a block is not plain, or the file cannot be read or unpacked to its end.
    """
    line_end = b""
    for text in _whole_lines(path, size):
        lines = text
        if not line_end:
            line_end = b"\r\n" if text[: text.find(b"\n") + 1].endswith(b"\r\n") else b"\n"
            lines = _without_header(text)
        _check(text, line_end)
        if lines:
            yield Block(lines)


def _whole_lines(path: str, size: int) -> Iterator[bytes]:
    """Yield a file's bytes, cut after line ends; only the last line may have none."""
    rest = b""
    with contextlib.closing(_opened(path)) as file:
        while read := _read(file, size):
            text = rest + read
            cut = text.rfind(b"\n") + 1
            if not cut and len(text) > size + _LONGEST_LINE:
                raise NotPlainError
            rest = text[cut:]
            if cut:
                yield text[:cut]
    if rest:
        yield rest


def _opened(path: str) -> IO[bytes] | pa.NativeFile:
    with contextlib.suppress(OSError):
        if path.lower().endswith(_PACKED):
            # Its reader compares checksums, which the engine's does not.
            stream: pa.NativeFile = pa.input_stream(path, compression="detect")
            return stream
        return Path(path).open("rb", buffering=0)
    raise NotPlainError


def _read(file: IO[bytes] | pa.NativeFile, size: int) -> bytes:
    with contextlib.suppress(OSError):
        return file.read(size) or b""
    raise NotPlainError


def _without_header(block: bytes) -> bytes:
    """Return a file's first block without its first line."""
    if b'"' in block[: block.find(b"\n")]:
        raise NotPlainError
    start = block.find(b"\n") + 1
    return block[start:] if start else b""


def _check(block: bytes, line_end: bytes) -> None:
    """Raise `NotPlainError` unless a block is plain; each look is a search for one byte."""
    if b'"' in block or b"\0" in block or not _is_utf8(block):
        raise NotPlainError
    n_returns = block.count(b"\r") if line_end != b"\n" else int(b"\r" in block)
    n_ends = 0 if line_end == b"\n" else block.count(line_end)
    # Each return stands before a line end, and each line end has one.
    if n_returns != n_ends or (n_ends and n_ends != block.count(b"\n")):
        raise NotPlainError
    # A longer line would cover one of these windows.
    for start in range(0, len(block) - _LONGEST_LINE, _LONGEST_LINE):
        if block.find(b"\n", start, start + _LONGEST_LINE) < 0:
            raise NotPlainError


def _is_utf8(block: bytes) -> bool:
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

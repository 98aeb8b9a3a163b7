"""Lines of delimited text, in blocks, whatever the bytes are.

A line ends at a line feed or a return, in any mixture, and an empty line is none. Left out and
counted are lines that are longer than the declared limit, have an unbalanced quote or another
number of fields than the first. What a line is depends on its own bytes alone, so that no record
can refuse a reading or change what another one is: a quote ends with its line.
"""

import codecs
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hexveil.records.sources.record_format import RecordFormat

LONGEST_LINE = 1_000_000
"""Bytes of a line; longer ones are malformed."""
_LINE_END, _QUOTE = 10, 34
_BYTE_ORDER_MARK = codecs.BOM_UTF8
_QUOTED = re.compile(rb'"([^"]*(?:""[^"]*)*)"')
_INVALID = "hexveil-invalid"
# Half a letter, which is no UTF-8: the field counts as malformed, and decoding goes on behind it.
codecs.register_error(_INVALID, lambda error: ("\ud800", error.end))  # type: ignore[attr-defined]


@dataclass(frozen=True, repr=False)
class LineBlock:
    """PRIVATE. Lines of a file.

    Attributes
    ----------
    text : bytes
        Whole lines of the right number of fields, without quotes.
    rows : list of list of bytes
        Fields of the other lines.
    malformed : int
        Lines that are left out.
    """

    text: bytes
    rows: list[list[bytes]]
    malformed: int = 0


def as_text(blocks: Iterable[bytes], record_format: RecordFormat) -> Iterator[bytes]:
    """Yield bytes as UTF-8 with line feeds alone, and invalid bytes where they are no text."""
    for data in blocks:
        text = data
        if record_format.encoding is not None:
            text = data.decode(record_format.encoding, _INVALID).encode("utf-8", "surrogatepass")
        yield text.replace(b"\r", b"\n") if b"\r" in text else text


def whole_lines(
    chunks: Iterable[bytes], max_line: int = LONGEST_LINE
) -> Iterator[tuple[bytes, int]]:
    """Yield text cut after line ends, and how many lines were too long to be kept.

    Nothing longer than a chunk and the longest line is ever held.
    """
    remainder, dropping = b"", False
    for chunk in chunks:
        text = remainder + chunk
        if dropping:
            text = chunk[chunk.find(b"\n") % (len(chunk) + 1) :]
            dropping = not text
        line_end = text.rfind(b"\n") + 1
        lines, remainder = text[:line_end], text[line_end:]
        is_long = len(remainder) > max_line
        if is_long:
            remainder, dropping = b"", True
        yield lines, int(is_long)
    if remainder:
        yield remainder + b"\n", 0


def without_header(blocks: Iterable[tuple[bytes, int]]) -> Iterator[tuple[bytes, int]]:
    """Yield blocks of lines without the first line of a file."""
    is_past_header = False
    for block, n_long in blocks:
        text = block
        if not is_past_header:
            text = text.removeprefix(_BYTE_ORDER_MARK).lstrip(b"\n")
            is_past_header = bool(text)
            text = text.partition(b"\n")[2]
        yield text.lstrip(b"\n"), n_long


def is_simple(text: bytes, mark: str) -> bool:
    """Return whether each line has quotes around whole fields alone, and none may be too long."""
    if not text.isascii() and _BYTE_ORDER_MARK in text:
        return False
    # A line that is too long covers one of these windows.
    window = LONGEST_LINE // 2
    ends = (text.find(b"\n", i, i + window) for i in range(0, len(text) - window, window))
    if any(end < 0 for end in ends):
        return False
    return b'"' not in text or _has_whole_quotes(np.frombuffer(text, np.uint8), ord(mark))


def _has_whole_quotes(data: NDArray[np.uint8], mark: int) -> bool:
    """Return whether quotes stand in pairs around whole fields, or twice within such a pair."""
    quotes, ends = (np.flatnonzero(data == byte) for byte in (_QUOTE, _LINE_END))
    opening, closing = quotes[::2], quotes[1::2]
    if opening.size != closing.size:
        return False
    is_border = np.isin(np.arange(256), (_LINE_END, mark, _QUOTE))
    # Before the first byte stands the last one, which is a line end.
    beside = (data[opening - 1], data[(closing + 1) % data.size])
    if not all(is_border[found].all() for found in beside):
        return False
    return np.array_equal(np.searchsorted(ends, opening), np.searchsorted(ends, closing))


def sort_lines(text: bytes, mark: str, n_fields: int) -> LineBlock:
    """Return the lines of a text that are kept, and how many are not.

    A separator at the end of a line adds no field.
    """
    if _BYTE_ORDER_MARK in text:
        # Where files were joined: an id behind it would be another.
        text = text.removeprefix(_BYTE_ORDER_MARK).replace(b"\n" + _BYTE_ORDER_MARK, b"\n")
    data = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(data == _LINE_END)
    starts = np.concatenate([[0], ends + 1])[: ends.size]
    size = ends - starts
    quotes, marks = (
        np.bincount(np.searchsorted(ends, np.flatnonzero(data == byte)), minlength=ends.size)
        for byte in (_QUOTE, ord(mark))
    )
    fits = (size > 0) & (size <= LONGEST_LINE)
    is_plain = fits & (quotes == 0) & (marks == n_fields - 1)
    # One by one: lines with quotes, and those that may end in a separator.
    others = np.flatnonzero(fits & ((quotes > 0) | (marks == n_fields)))
    split_lines = (split_line(text[starts[i] : ends[i]], mark, n_fields) for i in others)
    rows = [fields for fields in split_lines if fields is not None]
    plain = data[np.repeat(is_plain, size + 1)].tobytes()
    malformed = int(np.count_nonzero(size) - np.count_nonzero(is_plain)) - len(rows)
    return LineBlock(plain, rows, malformed)


def split_line(line: bytes, mark: str, n_fields: int | None = None) -> list[bytes] | None:
    """Return the fields of a line; None if a quote is unbalanced, or their number is another.

    A quote that begins a field ends it, too, and stands twice within it; elsewhere it is a letter.

    Examples
    --------
    >>> split_line(b'bus 7,"north, A",5" pipe', ",", 3)
    [b'bus 7', b'north, A', b'5" pipe']
    >>> split_line(b'bus 7,"north', ",", 2) is None
    True
    """
    fields, start, separator = [], 0, mark.encode()
    while start <= len(line):
        quoted = _QUOTED.match(line, start)
        if quoted is not None:
            end = quoted.end()
            fields.append(quoted[1].replace(b'""', b'"'))
        elif line.startswith(b'"', start):
            return None
        else:
            end = line.find(separator, start) % (len(line) + 1)
            fields.append(line[start:end])
        if end < len(line) and not line.startswith(separator, end):
            return None
        start = end + 1
    if n_fields is not None and len(fields) == n_fields + 1 and line.endswith(separator):
        fields.pop()
    return fields if n_fields in (None, len(fields)) else None

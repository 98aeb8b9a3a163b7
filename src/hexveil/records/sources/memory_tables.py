"""Tables in memory as engines can read them: no value, and no byte, stops a reading.

Engines know some types of Arrow not at all, and fail on text that is not UTF-8 and on times beyond
their calendar. So the columns of a table are converted first, and a field that no engine can read
is missing, or has a question mark for each such byte, as in Parquet files.
"""

import codecs
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hexveil.base.errors import InputError, is_interruption

_EXACT = 2**53
"""Floats below this in size are exact, if they are whole."""
_SHORT = 32
"""Bits of times of day in seconds or milliseconds."""
_PARTS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""Parts of a second."""
_MARKED = "hexveil-marks"
"""How bytes that are not UTF-8 are read: as the engine's reader of Parquet does."""


def _mark(error: UnicodeError) -> tuple[str, int]:
    """Return a question mark for each byte that is not UTF-8, and where reading goes on."""
    assert isinstance(error, UnicodeDecodeError)  # noqa: S101  bytes alone are read so
    return "?" * (error.end - error.start), error.end


codecs.register_error(_MARKED, _mark)


def as_table(source: object) -> pa.Table:
    """Return an Arrow table of a table in memory or of a query; its library is never imported."""
    if isinstance(source, pa.Table):
        return source
    package = type(source).__module__.partition(".")[0]
    if package == "pandas" and hasattr(source, "columns"):
        return _from_pandas(source)
    is_query = package == "polars" and hasattr(source, "collect")
    if not is_query and not hasattr(source, "__arrow_c_stream__"):
        raise InputError(
            "source must be a path, a list of paths, or a table: of pandas, polars, DuckDB or "
            f"Arrow, got {type(source).__name__}."
        )
    try:
        # A polars LazyFrame is a plan until it is asked for its rows.
        return pa.table(source.collect() if is_query else source)  # type: ignore[attr-defined]
    except Exception as error:  # noqa: BLE001  a query runs here, and any library may fail
        interrupted, kind = is_interruption(error), type(error).__name__
    if interrupted:
        raise KeyboardInterrupt
    # Outside: the library's error may quote a value, so it is not kept as the context of ours.
    raise InputError(
        f"source: the table or query cannot be handed over as Arrow ({kind}); run it or convert it "
        "first."
    )


def _from_pandas(frame: Any) -> pa.Table:  # noqa: ANN401  pandas is never imported
    names = [str(name) for name in frame.columns]
    if any(unicode_text(name) is None for name in names):
        raise InputError("source: the name of a column is not Unicode text; rename it.")
    return pa.table([_series(frame.iloc[:, i]) for i in range(len(names))], names=names)


def _series(series: Any) -> pa.Array:  # noqa: ANN401  pandas is never imported
    """Return a pandas column; one of mixed types becomes text, so that no value is an error."""
    try:
        return pa.Array.from_pandas(series)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        missing = series.isna().to_numpy()
        # Half a letter has no UTF-8: the record then counts as without that field.
        texts = [
            None if m else unicode_text(spell(v)) for v, m in zip(series, missing, strict=True)
        ]
        return pa.array(texts, type=pa.string())


def readable_table(data: pa.Table) -> pa.Table:
    """Return the table with columns that every engine can read, whatever is in them.

    Decimals of 256 bits are text and floats of 16 bits doubles; times that are too far are missing,
    and each byte that is not UTF-8 is a question mark.
    """
    for i, field in enumerate(data.schema):
        column = data.column(i)
        if pa.types.is_decimal256(field.type):
            # Through text, not double: an id of 40 digits must stay exact.
            data = data.set_column(i, field.name, _decimal_texts(column))
        elif pa.types.is_float16(field.type):
            data = data.set_column(i, field.name, column.cast(pa.float64()))
        elif _may_be_unreadable(field.type):
            chunks = [_readable(chunk) for chunk in column.chunks or [pa.nulls(0, field.type)]]
            data = data.set_column(i, field.name, pa.chunked_array(chunks))
    return data


def readable_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch of a table by the rules of `readable_table`; decimals stay as they are."""
    columns = [
        _readable(column) if _may_be_unreadable(column.type) else column for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def calendar(kind: pa.DataType) -> tuple[int, int] | None:
    """Return the first and last number of a type of times that no engine fails on.

    None where it fails on none: engines convert times to microseconds, and know no second day of a
    time of day.
    """
    if pa.types.is_time(kind):
        return 0, 86400 * _PARTS[kind.unit]
    if pa.types.is_timestamp(kind) and kind.unit in ("s", "ms"):
        limit = (2**63 - 1) // (_PARTS["us"] // _PARTS[kind.unit])
        return -limit, limit
    return None


def _may_be_unreadable(kind: pa.DataType) -> bool:
    """Return whether an engine could fail on values of a column of some type."""
    if pa.types.is_dictionary(kind):
        return _may_be_unreadable(kind.value_type)
    return (
        _is_text(kind)
        or pa.types.is_string_view(kind)
        or calendar(kind) is not None
        or any(_may_be_unreadable(kind.field(i).type) for i in range(kind.num_fields))
    )


def _readable(column: pa.Array) -> pa.Array:
    """Return a column with text that is UTF-8 and times that fit microseconds."""
    kind = column.type
    if (ends := calendar(kind)) is not None:
        number = column.view(pa.int32() if kind.bit_width == _SHORT else pa.int64())
        fits = pc.and_(pc.greater_equal(number, ends[0]), pc.less_equal(number, ends[1]))
        within = pc.if_else(fits, number, None).view(kind)
        return within.cast(pa.timestamp("us", kind.tz)) if pa.types.is_timestamp(kind) else within
    if pa.types.is_struct(kind):
        # Flattened: the fields of a missing struct are missing, too.
        children = [_readable(child) for child in column.flatten()]
        fields = [pa.field(kind.field(i).name, child.type) for i, child in enumerate(children)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=column.is_null())
    if pa.types.is_dictionary(kind):
        values = _readable(column.dictionary)
        return pa.DictionaryArray.from_arrays(column.indices, values)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        # Whole again: offsets of a slice go with no mask.
        combined = pa.concat_arrays([column])
        lists = pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray
        mask = combined.is_null() if combined.null_count else None
        return lists.from_arrays(combined.offsets, _readable(combined.values), mask=mask)
    if not _is_valid(column):
        texts = [
            None if value is None else bytes(value).decode(errors=_MARKED)
            for value in column.cast(_bytes_of(kind)).to_pylist()
        ]
        return pa.array(texts, kind)
    return column


def _bytes_of(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind):
        return pa.binary_view()
    return pa.large_binary() if pa.types.is_large_string(kind) else pa.binary()


def _is_valid(column: pa.Array) -> bool:
    """Return whether all text in a column is UTF-8."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:  # its words may quote a text
        return False
    return True


def _decimal_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return decimals as text: each number has one, whatever its scale (see `records.units`)."""
    encoded = pa.concat_arrays([pa.array([], column.type), *column.chunks]).dictionary_encode()
    spelled = pa.array([spell(number) for number in encoded.dictionary.to_pylist()], pa.string())
    return pa.chunked_array([spelled.take(encoded.indices)])


def spell(value: object) -> str:
    """Return a value of a column of mixed types as text: each number has one, as an id must.

    Examples
    --------
    >>> [spell(value) for value in (7, 7.0, Decimal("7.00"), -0.0, True, "7.0", 7.5)]
    ['7', '7', '7', '0', 'true', '7.0', '7.5']
    """
    if isinstance(value, (bool, np.bool_)):
        return str(value).lower()
    if isinstance(value, Decimal) and value.is_finite():
        text = f"{value or abs(value):f}"  # minus zero is zero
        return text.rstrip("0").rstrip(".") if "." in text else text
    if isinstance(value, (float, np.floating)) and abs(float(value)) < _EXACT:
        integer = int(value)
        return str(integer) if integer == value else str(value)
    return str(value)


def unicode_text(text: str) -> str | None:
    """Return text; None if it holds half a letter (a lone surrogate), as JSON and names may."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return None
    return text

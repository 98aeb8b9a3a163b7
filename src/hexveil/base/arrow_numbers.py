"""Numbers between Arrow and numpy by their buffers: pyarrow's own conversions load pandas first.

That takes a third of a second of every command, wherever pandas happens to be installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


def to_numpy(column: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """Return the numbers of a column, shape (n,); read-only and not copied if it is one array.

    Columns with nulls, or of other types, are converted by pyarrow.

    Examples
    --------
    >>> to_numpy(pa.chunked_array([[1, 2], [3]])).tolist()
    [1, 2, 3]
    """
    if column.null_count or not _is_number(column.type):
        converted = column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else None
        return np.asarray(column.to_numpy() if converted is None else converted)
    if isinstance(column, pa.Array):
        return _view(column)
    if column.num_chunks == 1:
        return _view(column.chunk(0))
    empty = np.zeros(0, dtype=column.type.to_pandas_dtype())
    return np.concatenate([empty, *map(_view, column.chunks)])


def to_arrow(numbers: NDArray[Any]) -> pa.Array:
    """Return an array of numbers as Arrow's, without a copy if they are contiguous.

    Examples
    --------
    >>> to_arrow(np.array([1, 2])).to_pylist()
    [1, 2]
    """
    kind = pa.from_numpy_dtype(numbers.dtype)
    if not _is_number(kind):
        return pa.array(numbers)
    buffer = pa.py_buffer(np.ascontiguousarray(numbers))
    return pa.Array.from_buffers(kind, len(numbers), [None, buffer])


def to_table(columns: Mapping[str, Any]) -> pa.Table:
    """Return a table of numpy arrays and Arrow columns."""
    arrays = {n: to_arrow(c) if isinstance(c, np.ndarray) else c for n, c in columns.items()}
    return pa.table(list(arrays.values()), names=list(arrays))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind))


def _view(array: pa.Array) -> NDArray[Any]:
    dtype = np.dtype(array.type.to_pandas_dtype())
    data = array.buffers()[1]
    if data is None or not len(array):
        return np.zeros(0, dtype=dtype)
    return np.frombuffer(data, dtype, count=len(array), offset=array.offset * dtype.itemsize)

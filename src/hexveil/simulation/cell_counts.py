"""Counts of one cell from a small file: samples per user. Public."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from hexveil.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


def read_counts(file: str | Path) -> NDArray[np.int64]:
    """Return the counts of a file, one per user.

    Parameters
    ----------
    file : str or Path
        A JSON list of whole numbers, or a CSV or Parquet file with one column of them (or, of
        several, the column `n` or `counts`); a CSV file may have no header.

    Raises
    ------
    InputError
        If it cannot be read as such.
    """
    path = Path(file)
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"counts {path} must be a .json, .csv or .parquet file.")
    try:
        return _to_integers(reader(path), path)
    except FileNotFoundError:
        raise InputError(f"there is no file {path}; check the name of the counts.") from None
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise InputError(f"the counts {path} cannot be read: {why}.") from None
    except InputError:
        raise
    except (pa.ArrowInvalid, ValueError, OverflowError):  # whose error can hold the text
        pass
    raise InputError(f"the counts {path} cannot be read as {path.suffix[1:]}.")


def _to_integers(column: pa.ChunkedArray | pa.Array, path: Path) -> NDArray[np.int64]:
    """Return a column as whole numbers of at least 1, or refuse it."""
    try:
        integers = pc.cast(column, pa.int64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        integers = None
    if integers is None or integers.null_count or not len(integers) or pc.min(integers).as_py() < 1:
        raise InputError(
            f"the counts {path} must be whole numbers of at least 1, one per user, none missing."
        )
    return np.asarray(integers, dtype=np.int64)


def _of_json(path: Path) -> pa.Array:
    counts = json.loads(path.read_text("utf-8"))
    # type, not isinstance: true and false are integers in Python.
    if not isinstance(counts, list) or not all(type(item) is int for item in counts):
        raise InputError(f"the counts {path} must be one list of whole numbers, like [9, 3, 1].")
    return pa.array(counts, pa.int64())


def _of_csv(path: Path) -> pa.ChunkedArray:
    with path.open(encoding="utf-8") as file:
        # A first line of digits is a count, and no name of a column.
        bare = file.readline().strip().isdigit()
    how = pyarrow.csv.ReadOptions(autogenerate_column_names=bare)
    return _column(pyarrow.csv.read_csv(path, read_options=how), path)


def _of_parquet(path: Path) -> pa.ChunkedArray:
    return _column(pyarrow.parquet.read_table(path), path)


def _column(table: pa.Table, path: Path) -> pa.ChunkedArray:
    candidates = [name for name in ("n", "counts") if name in table.column_names]
    if table.num_columns != 1 and len(candidates) != 1:
        raise InputError(f"the counts {path} must have one column, or one that is named n.")
    return table.column(candidates[0] if candidates else 0)


_READERS: dict[str, Callable[[Path], pa.Array | pa.ChunkedArray]] = {
    ".json": _of_json,
    ".csv": _of_csv,
    ".parquet": _of_parquet,
}

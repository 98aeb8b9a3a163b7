"""Blocks of whole-number columns in a temporary file without a name.

The file has no name where the system allows it (Linux, macOS): it vanishes with the process,
however that ends. Columns have the smallest integer type that holds a block.
"""

from __future__ import annotations

import tempfile
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.base import atomic_files
from hexveil.base.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Columns = Sequence[NDArray[np.int64]]

_NARROW = (np.uint8, np.uint16, np.uint32)


class ColumnFile:
    """PRIVATE. Blocks of whole-number columns in a file without a name.

    Parameters
    ----------
    folder : Path
        A private folder.
    """

    def __init__(self, folder: Path) -> None:
        self._blocks: list[tuple[int, int, list[np.dtype[Any]]]] = []
        self._end = 0
        try:
            # Open until `close`: a file without a name is gone once it is closed.
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        except OSError as error:
            raise _full(error) from None
        weakref.finalize(self, self._file.close)

    def __repr__(self) -> str:
        return "ColumnFile(private)"

    def append(self, columns: Columns) -> None:
        """Append a block of equally long columns of numbers from 0 up."""
        narrow = [_narrow(column) for column in columns]
        self._blocks.append((self._end, columns[0].size, [column.dtype for column in narrow]))
        try:
            for column in narrow:
                self._end += self._file.write(column.data.cast("B"))
            self._file.flush()
        except OSError as error:
            raise _full(error) from None

    def read(self, number: int) -> list[NDArray[np.int64]]:
        """Return the columns of a block."""
        offset, size, kinds = self._blocks[number]
        self._file.seek(offset)
        columns = [np.empty(size, dtype=kind) for kind in kinds]
        read = [self._file.readinto(column.data.cast("B")) for column in columns]
        if read != [column.nbytes for column in columns]:
            raise StorageError("a temporary file of pairs was cut short; run again.")
        return [column.astype(np.int64) for column in columns]

    def close(self) -> None:
        """Close the file, which removes it."""
        self._file.close()


def _narrow(column: NDArray[np.int64]) -> NDArray[Any]:
    """Return non-negative numbers in the smallest type that holds them."""
    largest = column.max(initial=0)
    kind = next((kind for kind in _NARROW if largest <= np.iinfo(kind).max), np.int64)
    return np.ascontiguousarray(column, dtype=kind)


def _full(error: OSError) -> StorageError:
    return StorageError(
        "the pairs of cells and users do not fit in memory, and cannot be written to temporary "
        f"files ({atomic_files.reason(error)}); free space, or name another folder (scratch in "
        "[read], --set read.scratch)."
    )

"""Blocks of whole-number columns in a temporary file without a name.

The file has no name where the system allows it (Linux, macOS): it vanishes with the process,
however that ends.
"""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hexveil.base import atomic_files
from hexveil.base.arrays import Ints
from hexveil.base.errors import StorageError


class ColumnFile:
    """PRIVATE. Blocks of whole-number columns in a file without a name.

    Parameters
    ----------
    folder : Path
        A private folder.
    """

    def __init__(self, folder: Path) -> None:
        self._starts: list[tuple[int, int]] = []
        try:
            # Open until `close`: a file without a name is gone once it is closed.
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        except OSError as error:
            raise _full(error) from None
        weakref.finalize(self, self._file.close)

    def __repr__(self) -> str:
        return "ColumnFile(private)"

    def append(self, columns: Sequence[Ints]) -> None:
        """Append a block of columns of numbers from 0 up."""
        try:
            self._starts.append((self._file.seek(0, 2), len(columns)))
            for column in columns:
                # The smallest type that holds them all.
                np.save(self._file, column.astype(np.min_scalar_type(column.max(initial=0))))
            self._file.flush()
        except OSError as error:
            raise _full(error) from None

    def read(self, number: int) -> list[Ints]:
        """Return the columns of a block."""
        start, n_columns = self._starts[number]
        self._file.seek(start)
        try:
            loaded = [np.load(self._file, allow_pickle=False) for _ in range(n_columns)]
        except (EOFError, ValueError):
            raise StorageError("a temporary file of pairs was cut short; run again.") from None
        return [column.astype(np.int64) for column in loaded]

    def close(self) -> None:
        """Close the file, which removes it."""
        self._file.close()


def _full(error: OSError) -> StorageError:
    return StorageError(
        "the pairs of cells and users do not fit in memory, and cannot be written to temporary "
        f"files ({atomic_files.reason(error)}); free space, or name another folder (scratch in "
        "[read], --set read.scratch)."
    )

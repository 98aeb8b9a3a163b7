"""Blocks of whole-number columns in a temporary file without a name.

The file has no name where the system allows it (Linux, macOS): it vanishes with the process,
however that ends.
"""

from __future__ import annotations

import contextlib
import tempfile
import weakref
from collections.abc import Iterator, Sequence
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
        with _translate_errors():
            # Open until `close`: a file without a name is gone once it is closed.
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        weakref.finalize(self, self._file.close)

    def __repr__(self) -> str:
        return "ColumnFile(private)"

    def append(self, columns: Sequence[Ints]) -> None:
        """Append a block of columns of numbers from 0 up."""
        with _translate_errors():
            self._starts.append((self._file.seek(0, 2), len(columns)))
            for column in columns:
                # The smallest type that holds them all.
                np.save(self._file, column.astype(np.min_scalar_type(column.max(initial=0))))
            self._file.flush()

    def read(self, number: int) -> list[Ints]:
        """Return the columns of a block."""
        start, n_columns = self._starts[number]
        self._file.seek(start)
        try:
            return [np.load(self._file).astype(np.int64) for _ in range(n_columns)]
        except (EOFError, ValueError):
            raise StorageError("a temporary file of pairs was cut short; run again.") from None

    def close(self) -> None:
        """Close the file, which removes it."""
        self._file.close()


@contextlib.contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            "the pairs of cells and users do not fit in memory, and cannot be written to temporary "
            f"files ({atomic_files.reason(error)}); free space, or name another folder (scratch in "
            "[read], --set read.scratch)."
        ) from None

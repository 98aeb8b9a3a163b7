"""Disk space for a stage's result, reserved from before its draw until it is stored.

Otherwise a disk, a quota or a limit on file sizes could have space for the event that begins a
draw, but not for its result: the draw would be lost for its size alone, and paid for twice.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

from hexveil.base.errors import StorageError
from hexveil.ledger.journal import ENTRY_BYTES
from hexveil.ledger.storage.databases import describe_address

if TYPE_CHECKING:
    import sqlalchemy as sa

MARGIN = 2**18
"""Bytes for events and their indexes, whose pages may split."""
_BLOCK = bytes(2**20)


class ReservedSpace:
    """An unnamed file beside a ledger that reserves space on its disk.

    Attributes
    ----------
    number : int
        The file's descriptor.

    Raises
    ------
    OSError
        If the disk has no such space.
    """

    def __init__(self, folder: Path, size: int) -> None:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            missing = size
            while missing > 0:  # written out: a sparse file reserves nothing
                missing -= file.write(_BLOCK[:missing])
            # The file has no name already: with its last descriptor its space is free, even after a
            # kill.
            self.number = os.dup(file.fileno())
        self._free = weakref.finalize(self, os.close, self.number)

    @property
    def closed(self) -> bool:
        """Whether the space was freed."""
        return not self._free.alive

    def close(self) -> None:
        """Free the space; the end of the object or of the process frees it too."""
        self._free()


def reserve_space(engine: sa.Engine, entries: int) -> ReservedSpace | None:
    """Reserve space beside an SQLite ledger, as large as its log can get; None elsewhere.

    SQLite's log takes the row twice, empty and filled, and begins behind what could not be moved
    into the ledger before.

    Raises
    ------
    StorageError
        If the disk has no such space.
    """
    if engine.dialect.name != "sqlite" or not engine.url.database:
        return None
    ledger = Path(engine.url.database).resolve()  # where SQLite has its log
    log = ledger.with_name(f"{ledger.name}-wal")
    row = ENTRY_BYTES * entries
    try:
        size = 2 * (row + row // 50) + MARGIN + (log.stat().st_size if log.exists() else 0)
        return ReservedSpace(ledger.parent, size)
    except OSError as error:
        raise StorageError(
            f"the disk of the ledger {describe_address(engine)} has no space for the result of a "
            f"draw ({error.strerror}), so nothing was drawn. Free space, then try again; it costs "
            "nothing more."
        ) from None

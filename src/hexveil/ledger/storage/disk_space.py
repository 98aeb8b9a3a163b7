"""Room on the disk for a stage's result, held from before its draw until it is stored.

Without it a disk, a quota or a limit on files could have room for the event that a draw begins, and
none for its result: the draw would be lost for its size alone, and paid for twice.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

from hexveil.base.errors import StorageError
from hexveil.ledger.journal import WIDTH
from hexveil.ledger.storage.databases import where

if TYPE_CHECKING:
    import sqlalchemy as sa

MARGIN = 2**18
"""Bytes for events and their indexes, whose pages may split."""
_BLOCK = bytes(2**20)


class Room:
    """A nameless file beside a ledger, whose size is room for something else.

    Attributes
    ----------
    number : int
        The file's descriptor.

    Raises
    ------
    OSError
        If there is no such room.
    """

    def __init__(self, folder: Path, size: int) -> None:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            left = size
            while left > 0:  # written: a file of holes has no room
                left -= file.write(_BLOCK[:left])
            self.number = os.dup(file.fileno())
        self._free = weakref.finalize(self, os.close, self.number)

    @property
    def closed(self) -> bool:
        """Whether the room was freed."""
        return not self._free.alive

    def close(self) -> None:
        """Free the room; so does the end of the object or of the process."""
        self._free()


def hold(engine: sa.Engine, entries: int) -> Room | None:
    """Return room beside an SQLite ledger, as large as its log can get; None elsewhere.

    SQLite's log takes the row twice, empty and filled, and begins behind what could not be moved
    into the ledger before.

    Raises
    ------
    StorageError
        If there is no such room.
    """
    if engine.dialect.name != "sqlite" or not engine.url.database:
        return None
    ledger = Path(engine.url.database).resolve()  # where SQLite has its log
    log = ledger.with_name(f"{ledger.name}-wal")
    row = WIDTH * entries
    try:
        size = 2 * (row + row // 50) + MARGIN + (log.stat().st_size if log.exists() else 0)
        return Room(ledger.parent, size)
    except OSError as error:
        raise StorageError(
            f"beside the ledger {where(engine)} is no room for what would be drawn "
            f"({error.strerror}), so nothing was drawn. Make room, then try again; it costs "
            "nothing more."
        ) from None

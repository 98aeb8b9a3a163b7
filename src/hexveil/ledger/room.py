"""Room on the disk for a stage's result, held from before its draw until it is stored.

Without it a disk, a quota or a limit on files could have room for the event that a draw begins, and
none for its result: the draw would be lost for its size alone, and paid for twice.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING

from hexveil.errors import StorageError
from hexveil.ledger.engines import where
from hexveil.ledger.journal import WIDTH

if TYPE_CHECKING:
    import sqlalchemy as sa

MARGIN = 2**18
"""Bytes for events and their indexes, whose pages may split."""
_BLOCK = bytes(2**20)


def hold(engine: sa.Engine, entries: int) -> IO[bytes] | None:
    """Return a nameless file beside an SQLite ledger, as large as its log can get; None elsewhere.

    SQLite's log takes the row twice, empty and filled, and begins behind what could not be moved
    into the ledger before. Closing the file frees the room; so does the end of the process.

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
        return _filled(ledger.parent, size)
    except OSError as error:
        raise StorageError(
            f"beside the ledger {where(engine)} is no room for what would be drawn "
            f"({error.strerror}), so nothing was drawn. Make room, then try again; it costs "
            "nothing more."
        ) from None


def _filled(folder: Path, size: int) -> IO[bytes]:
    """Return a nameless file of so many bytes, written: a file of holes has no room."""
    file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115  held until the store
    try:
        left = size
        while left > 0:
            left -= file.write(_BLOCK[:left])
    except OSError:
        file.close()
        raise
    return file

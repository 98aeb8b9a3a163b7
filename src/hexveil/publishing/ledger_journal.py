"""The ledger as the journal of a release: each stage is drawn once, and stored before the next.

What a stage costs was authorised before (`hexveil.mechanisms.contract.Meter`). A stage that was
begun and has no row is lost: the ledger refuses to begin it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.atomic_files import defer_interrupts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hexveil.base.arrays import Ints
    from hexveil.ledger import Ledger


class LedgerJournal:
    """Rows of a booking in the ledger, under its lock (`Ledger.drawing`).

    Parameters
    ----------
    ledger : Ledger
    request : str
    """

    def __init__(self, ledger: Ledger, request: str) -> None:
        self._ledger, self._request = ledger, request

    def stored(self, name: str, entries: int) -> Ints | None:  # noqa: ARG002  see Journal.stored
        """Return the row of a stage, or None if there is none yet."""
        booking = self._ledger.find(self._request)
        return None if booking is None else rows_of(booking.stages).get(name)

    def draw_once(self, name: str, entries: int, draw: Callable[[], Ints]) -> Ints:
        """Mark the stage as begun, draw, store the row durably, and return it as stored."""
        # Between mark and row an interruption would lose the draw, and its epsilon with it.
        with defer_interrupts():
            entry = self._ledger.begin_draw(self._request, name, entries)
            try:
                # Its space was reserved with the mark: a full disk must not lose what was drawn.
                row = draw()
                self._ledger.store(self._request, entry, row[0])
            finally:
                self._ledger.free_space(entry)
        return row


def rows_of(stages: Mapping[str, tuple[int, ...]]) -> dict[str, Ints]:
    """Return the stored rows of a booking, shape (1, entries) each."""
    return {name: np.array([row], dtype=np.int64) for name, row in stages.items()}

"""Slots of released tables as seconds of the local clock, as `model.cells` numbers them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def slot_starts(names: Sequence[str]) -> NDArray[np.int64]:
    """Return the starts of slots in seconds: since 1970 if dated, since midnight if pooled.

    Parameters
    ----------
    names : sequence of str
        As in the column `slot`.

    Examples
    --------
    >>> slot_starts(["00:15", "1970-01-02T01:00"]).tolist()
    [900, 90000]
    """
    seconds = {name: _seconds(name) for name in set(names)}
    return np.array([seconds[name] for name in names], dtype=np.int64)


def _seconds(name: str) -> int:
    if "T" not in name:
        hours, minutes = name.split(":")
        return 3600 * int(hours) + 60 * int(minutes)
    return round(datetime.fromisoformat(name).replace(tzinfo=UTC).timestamp())
